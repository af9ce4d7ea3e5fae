/* Every file under tests/bad/yaml is refused with the message beside it, and
 * with that exit code; YAML typing; machine files. */

#include "tests/unit/test_models.h"

#include "models/yaml.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

static const char folder[] = "tests/bad/yaml";

/* The two lines of NAME.err: the message with %s for the path, "exit N". */
static int
read_expected(const char *path, char message[512], int *code)
{
	FILE *file = fopen(path, "r");
	char line[512];
	char *mark;

	if (!file)
		return 0;
	if (!fgets(line, sizeof(line), file) ||
	    fscanf(file, "exit %d", code) != 1) {
		fclose(file);
		return 0;
	}
	fclose(file);
	line[strcspn(line, "\n")] = '\0';
	mark = strstr(line, "%s");
	snprintf(message, 512, "%.*s%.*s.yaml%s",
		 mark ? (int)(mark - line) : 0, line,
		 mark ? (int)strlen(path) - 4 : 0, path,
		 mark ? mark + 2 : "");
	if (!mark)
		snprintf(message, 512, "%s", line);
	return 1;
}

static void
check_file(const char *name)
{
	char path[512], err[512], message[512];
	struct loaded l;
	int code = 0;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	snprintf(err, sizeof(err), "%.*s.err", (int)strlen(path) - 5, path);
	if (!read_expected(err, message, &code)) {
		cr_expect_fail("cannot read %s", err);
		return;
	}
	load(&l, path, NULL, NULL);
	cr_expect_eq((int)l.status, code, "%s: status %d, want %d", path,
		     (int)l.status, code);
	cr_expect(strcmp(first_message(&l), message) == 0,
		  "%s:\n  have %s\n  want %s", path, first_message(&l),
		  message);
	cr_expect_gt(l.diag.errors, 0);
	unload(&l);
}

Test(models_bad, every_file)
{
	DIR *dir = opendir(folder);
	const struct dirent *entry;
	int n = 0;

	cr_assert_not_null(dir, "run this in the root of the repository");
	while ((entry = readdir(dir)) != NULL) {
		const char *dot = strrchr(entry->d_name, '.');

		if (!dot || strcmp(dot, ".yaml") != 0)
			continue;
		check_file(entry->d_name);
		n++;
	}
	closedir(dir);
	cr_expect_geq(n, 190);
}

/* ---- YAML ---- */

struct tree {
	struct st_arena arena;
	struct st_diag diag;
	struct st_yaml *root;
	enum st_status status;
};

static void
parse(struct tree *t, const char *text)
{
	memset(t, 0, sizeof(*t));
	st_arena_init(&t->arena, NULL);
	st_diag_init(&t->diag, &t->arena);
	t->status = st_yaml_parse(&t->arena, &t->diag,
				  st_diag_add_source(&t->diag, "t", text,
						     strlen(text)),
				  0, &t->root);
}

static const struct {
	const char *text;
	enum st_yaml_kind kind;
	double value;
} scalars[] = {
	{"true", ST_YAML_BOOL, 1},   {"FALSE", ST_YAML_BOOL, 0},
	{"null", ST_YAML_NULL, 0},   {"~", ST_YAML_NULL, 0},
	{"no", ST_YAML_STRING, 0},   {"yes", ST_YAML_STRING, 0},
	{"off", ST_YAML_STRING, 0},  {"tRue", ST_YAML_STRING, 0},
	{"12", ST_YAML_INT, 12},     {"-3", ST_YAML_INT, -3},
	{"+3", ST_YAML_INT, 3},      {"017", ST_YAML_INT, 17},
	{"1e-5", ST_YAML_FLOAT, 1e-5}, {"5e8", ST_YAML_FLOAT, 5e8},
	{"1.", ST_YAML_FLOAT, 1},    {".5", ST_YAML_FLOAT, 0.5},
	{"-.5e+2", ST_YAML_FLOAT, -50},
	{"99999999999999999999", ST_YAML_FLOAT, 1e20},
	{"0o17", ST_YAML_STRING, 0}, {"0x1f", ST_YAML_STRING, 0},
	{"1_000", ST_YAML_STRING, 0}, {"1e", ST_YAML_STRING, 0},
	{"1e+", ST_YAML_STRING, 0},  {"+", ST_YAML_STRING, 0},
	{".", ST_YAML_STRING, 0},    {"12:30", ST_YAML_STRING, 0},
	{".inf", ST_YAML_STRING, 0}, {".nan", ST_YAML_STRING, 0},
	{"2024-01-01", ST_YAML_STRING, 0},
	{"\"12\"", ST_YAML_STRING, 0}, {"'true'", ST_YAML_STRING, 0},
	{"[]", ST_YAML_LIST, 0},     {"{}", ST_YAML_MAP, 0},
};

Test(yaml, scalars)
{
	for (size_t i = 0; i < sizeof(scalars) / sizeof(scalars[0]); i++) {
		struct tree t;
		double value;

		parse(&t, scalars[i].text);
		cr_assert_eq(t.status, ST_OK, "%s", scalars[i].text);
		cr_expect_eq(t.root->kind, scalars[i].kind, "%s is %s",
			     scalars[i].text,
			     st_yaml_kind_name(t.root->kind));
		value = t.root->kind == ST_YAML_BOOL ? (double)t.root->i
						     : t.root->f;
		cr_expect_eq(value, scalars[i].value, "%s is %g",
			     scalars[i].text, value);
		st_arena_finish(&t.arena);
	}
}

/* Columns count bytes, lines count '\n', whatever stands before. */
Test(yaml, locations)
{
	static const struct {
		const char *text;
		uint32_t line, column, length;
	} rows[] = {
		{"a: bcd\n", 1, 4, 3},
		{"# \xc3\xa4\xe2\x82\xac\na: 'x y'\n", 2, 4, 5},
		{"\"\xc3\xa4\": \xe2\x82\xac\xe2\x82\xac\n", 1, 7, 6},
		{"\r\n\r\na: 12\r\n", 3, 4, 2},
		{"\xef\xbb\xbf" "a: 1\n", 1, 7, 1},
		{"? a\n: |\n  text\n", 2, 3, 1},
		{"a:\n  \"x\n  y\"\n", 2, 3, 2},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct tree t;
		struct st_loc loc;

		parse(&t, rows[i].text);
		cr_assert_eq(t.status, ST_OK, "row %zu", i);
		loc = t.root->items[0].value->loc;
		cr_expect_eq(loc.line, rows[i].line, "row %zu: line %u", i,
			     loc.line);
		cr_expect_eq(loc.column, rows[i].column, "row %zu: column %u",
			     i, loc.column);
		cr_expect_eq(loc.length, rows[i].length, "row %zu: length %u",
			     i, loc.length);
		st_arena_finish(&t.arena);
	}
}

/* Printing a tree and reading it back gives the same print. */
Test(yaml, print_round_trip)
{
	static const char *const texts[] = {
		"{a: [1, 2.5, true, null, x y], b: {c: \"\\n\\t\\\"\\\\\"}}",
		"['true', '12', '', ' x', 'x ', 'a: b', 'a #b', '- a', '~']",
		"[\"\\u00e4\\u0085\\u2028\\ufeff\\U0001f600\\x7f\"]",
		"[a * b, 2 * c, \"[\", \"{\", \"*x\", \"&x\", \"!x\", \"%x\"]",
		"[null, Null, 'NULL', 'Null', no, 1e5, 1_0]",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct tree a, b;
		struct st_buffer first, second;

		parse(&a, texts[i]);
		cr_assert_eq(a.status, ST_OK, "%s", texts[i]);
		st_buffer_init(&first, &a.arena);
		st_yaml_print(&first, a.root);
		parse(&b, first.text);
		cr_assert_eq(b.status, ST_OK, "%s", first.text);
		st_buffer_init(&second, &b.arena);
		st_yaml_print(&second, b.root);
		cr_expect_str_eq(first.text, second.text);
		cr_expect_eq(a.root->count, b.root->count);
		for (size_t j = 0; j < a.root->count; j++) {
			const struct st_yaml *x = a.root->items[j].value;
			const struct st_yaml *y = b.root->items[j].value;

			cr_expect_eq(x->kind, y->kind, "%s", first.text);
			cr_expect(x->kind == ST_YAML_NULL ||
					  strcmp(x->text, y->text) == 0,
				  "%s", first.text);
		}
		st_arena_finish(&a.arena);
		st_arena_finish(&b.arena);
	}
}

static const char *
message_for(struct tree *t, const char *unit, size_t times, const char *end)
{
	size_t length = strlen(unit);
	char *text = malloc(length * times + strlen(end) + 1);

	cr_assert_not_null(text);
	for (size_t i = 0; i < times; i++)
		memcpy(text + i * length, unit, length);
	memcpy(text + length * times, end, strlen(end) + 1);
	parse(t, text);
	free(text);
	return t->diag.count ? t->diag.messages[0].text : "";
}

Test(yaml, caps)
{
	struct tree t;

	cr_expect_str_eq(message_for(&t, "# padding\n", 110000, "a: 1\n"),
			 "the file is larger than 1 MiB");
	st_arena_finish(&t.arena);
	cr_expect_str_eq(message_for(&t, "- 1\n", 70000, ""),
			 "the file holds too many values");
	st_arena_finish(&t.arena);
	cr_expect_str_eq(message_for(&t, "[", 100000, ""),
			 "nested too deeply");
	st_arena_finish(&t.arena);
	cr_expect_str_eq(message_for(&t, "- ", 100, "1\n"),
			 "nested too deeply");
	st_arena_finish(&t.arena);
	cr_expect_str_eq(message_for(&t, "[", 64, "]]]]]]]]]]]]]]]]"
			 "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"),
			 "");
	st_arena_finish(&t.arena);
}

Test(yaml, many_keys)
{
	static char text[1 << 16];
	struct tree t;
	size_t n = 0;

	for (int i = 0; i <= ST_YAML_MAX_KEYS; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "k%d: 1\n",
				      i);
	parse(&t, text);
	cr_assert_eq(t.status, ST_EINPUT);
	cr_expect_str_eq(t.diag.messages[0].text,
			 "the mapping has too many keys");
	st_arena_finish(&t.arena);
}

/* ---- machine files ---- */

/* Every number of a machine file has a source beside it. */
static void
check_numbers(const char *path, const struct st_yaml *node, const char *text)
{
	for (size_t i = 0; i < node->count; i++) {
		const struct st_yaml *value = node->items[i].value;
		const char *line = text;
		const char *mark;

		check_numbers(path, value, text);
		if (value->kind != ST_YAML_INT && value->kind != ST_YAML_FLOAT)
			continue;
		for (uint32_t at = 1; at < value->loc.line; at++)
			line = strchr(line, '\n') + 1;
		mark = strstr(line, "  # ");
		cr_expect(mark && mark < line + strcspn(line, "\n"),
			  "%s:%u: the number has no source", path,
			  value->loc.line);
	}
}

Test(machines, all_parse)
{
	static const char *const machines[] = {
		"models/machines/h200-sxm-8.yaml",
		"models/machines/h100-sxm-8.yaml",
		"models/machines/a100-sxm-8.yaml",
		"models/machines/laptop.yaml",
	};
	static const char *const sections[] = {"device", "launch", "tiers",
					       "collectives"};

	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
		struct tree t;

		memset(&t, 0, sizeof(t));
		st_arena_init(&t.arena, NULL);
		st_diag_init(&t.diag, &t.arena);
		t.status = st_yaml_read(&t.arena, &t.diag, machines[i],
					st_no_loc(), &t.root);
		cr_assert_eq(t.status, ST_OK, "%s", machines[i]);
		cr_expect_not_null(st_yaml_get(t.root, "machine"));
		for (int s = 0; s < 4; s++)
			cr_expect(st_yaml_get(t.root, sections[s]),
				  "%s: no %s", machines[i], sections[s]);
		check_numbers(machines[i], t.root, t.diag.sources[1].text);
		st_arena_finish(&t.arena);
	}
}
