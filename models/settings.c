/* Settings: from the tree to values that know where they come from. */

#include "models/net.h"

#include <string.h>

enum kind { COUNT, NUMBER, FLAG, TEXT, CHOICE, DTYPE, PAIR, AUTO };
enum how { SAME, NOT, FULL };

struct row {
	const char *path;
	enum kind kind;
	const char *otherwise;
	double low, high;
	const char *words;
};

static const struct row rows[] = {
#define SETTING(id, path, kind, value, low, high, words) \
	{(path), kind, (value), (low), (high), (words)},
#define ALIAS(...)
#include "models/settings.def"
};

struct alias {
	const char *path;
	enum st_setting id;
	enum how how;
};

static const struct alias aliases[] = {
#define SETTING(...)
#define ALIAS(path, id, how) {(path), ST_SET_##id, how},
#include "models/settings.def"
};

enum { ALIASES = sizeof(aliases) / sizeof(aliases[0]) };

const char *
st_setting_path(enum st_setting setting)
{
	return rows[setting].path;
}

/* Path i of all, rows first; NULL after the last. */
static const char *
path_at(size_t i)
{
	if (i < ST_SET_COUNT)
		return rows[i].path;
	i -= ST_SET_COUNT;
	return i < ALIASES ? aliases[i].path : NULL;
}

static const struct alias *
find(const char *path)
{
	static const struct alias own[ST_SET_COUNT] = {
#define SETTING(id, path, ...) {(path), ST_SET_##id, SAME},
#define ALIAS(...)
#include "models/settings.def"
	};

	for (size_t i = 0; i < ST_SET_COUNT; i++)
		if (strcmp(own[i].path, path) == 0)
			return &own[i];
	for (size_t i = 0; i < ALIASES; i++)
		if (strcmp(aliases[i].path, path) == 0)
			return &aliases[i];
	return NULL;
}

/* Do longer paths begin with this one? */
static int
is_group(const char *path)
{
	size_t length = strlen(path);
	const char *other;

	for (size_t i = 0; (other = path_at(i)) != NULL; i++)
		if (strncmp(other, path, length) == 0 && other[length] == '.')
			return 1;
	return 0;
}

/* Names that may stand directly under a path, for "did you mean". */
static enum st_status
fail_unknown(struct st_model *model, const char *group,
	     const struct st_yaml_item *item)
{
	const char *list[ST_SET_COUNT + ALIASES + 1], *other;
	size_t length = strlen(group), n = 0;

	for (size_t i = 0; (other = path_at(i)) != NULL; i++) {
		if (strncmp(other, group, length) != 0 || other[length] != '.')
			continue;
		other += length + 1;
		list[n] = st_arena_strndup(model->arena, other,
					   strcspn(other, "."));
		if (!list[n++])
			return st_error_memory(model->diag);
	}
	list[n] = NULL;
	return st_net_unknown(model->diag, item->loc, "key", item->key, list);
}

static enum st_status
fail_value(struct st_model *model, const struct st_yaml *node, const char *path,
	   const char *want)
{
	const char *quote = node->kind == ST_YAML_STRING ? "'" : "";
	const char *got = node->kind >= ST_YAML_LIST || node->kind == 0
				  ? st_yaml_kind_name(node->kind)
				  : node->text;

	return st_error(model->diag, ST_EINPUT, node->loc,
			"%s: want %s, not %s%s%s", strrchr(path, '.') + 1, want,
			quote, got, quote);
}

/* "a, b or c" from "a|b|c". */
static enum st_status
fail_choice(struct st_model *model, const struct st_yaml *node,
	    const char *path, const char *words)
{
	struct st_buffer want;

	st_buffer_init(&want, model->arena);
	for (const char *at = words; *at;) {
		size_t length = strcspn(at, "|");

		if (at != words)
			st_buffer_puts(&want, at[length] ? ", " : " or ");
		st_buffer_add(&want, at, length);
		at += length + (at[length] == '|');
	}
	return fail_value(model, node, path, want.text);
}

static enum st_status
set_number(struct st_model *model, const struct row *row,
	   const struct st_yaml *node, const char *path, double *out)
{
	struct st_buffer text;

	if ((node->kind == ST_YAML_INT || node->kind == ST_YAML_FLOAT) &&
	    node->f >= row->low && node->f <= row->high &&
	    (row->kind == NUMBER || row->kind == PAIR ||
	     node->f == (double)(int64_t)node->f)) {
		*out = node->f;
		return ST_OK;
	}
	st_buffer_init(&text, model->arena);
	st_buffer_printf(&text, "a%s number from %.16g to %.16g",
			 row->kind == NUMBER || row->kind == PAIR ? ""
								  : " whole",
			 row->low, row->high);
	return fail_value(model, node, path, text.text);
}

static enum st_status
set_pair(struct st_model *model, const struct row *row,
	 const struct st_yaml *node, const char *path, double out[2])
{
	if (node->kind != ST_YAML_LIST || node->count != 2)
		return fail_value(model, node, path, "a list of two numbers");
	ST_TRY(set_number(model, row, node->items[0].value, path, &out[0]));
	return set_number(model, row, node->items[1].value, path, &out[1]);
}

/* Is the word one of "a|b|c"? */
static int
is_choice(const char *words, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = words;; at++) {
		size_t n = strcspn(at, "|");

		if (n == length && memcmp(at, word, n) == 0)
			return 1;
		at += n;
		if (!*at)
			return 0;
	}
}

static const char *
dtype_of(const char *word)
{
	static const char *const names[][2] = {
		{"f64", "f64"},           {"fp64", "f64"},
		{"float64", "f64"},       {"f32", "f32"},
		{"fp32", "f32"},          {"float32", "f32"},
		{"bf16", "bf16"},         {"bfloat16", "bf16"},
		{"torch.float32", "f32"}, {"torch.bfloat16", "bf16"},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(names[i][0], word) == 0)
			return names[i][1];
	return NULL;
}

static enum st_status
set_word(struct st_model *model, const struct row *row,
	 const struct st_yaml *node, const char *path, const char **out)
{
	*out = node->text;
	if (row->kind == TEXT)
		return node->kind == ST_YAML_STRING
			       ? ST_OK
			       : fail_value(model, node, path, "a string");
	if (row->kind == DTYPE) {
		*out = node->kind == ST_YAML_STRING ? dtype_of(node->text)
						    : NULL;
		return *out ? ST_OK
			    : fail_value(model, node, path, "f64, f32 or bf16");
	}
	if (node->kind == ST_YAML_STRING && is_choice(row->words, node->text))
		return ST_OK;
	return fail_choice(model, node, path, row->words);
}

static enum st_status
convert(struct st_model *model, const struct row *row,
	const struct st_yaml *node, const char *path, enum how how,
	struct st_setting_value *value)
{
	int auto_word = row->kind == AUTO && node->kind == ST_YAML_STRING &&
			strcmp(node->text, "auto") == 0;

	/* Megatron's flag for what others call stage 1. */
	int stage = row->kind == COUNT && node->kind == ST_YAML_BOOL &&
		    strstr(path, "use_distributed_optimizer") != NULL;

	if (row->kind == FLAG || how == FULL) {
		if (node->kind != ST_YAML_BOOL)
			return fail_value(model, node, path, "true or false");
		value->i = how == NOT ? !node->i : node->i;
		value->s = node->i ? "full" : "none";
		return ST_OK;
	}
	if (auto_word || stage) {
		value->i = stage ? node->i : 0;
		return ST_OK;
	}
	if (row->kind == PAIR)
		return set_pair(model, row, node, path, value->f);
	if (row->kind == TEXT || row->kind == CHOICE || row->kind == DTYPE)
		return set_word(model, row, node, path, &value->s);
	ST_TRY(set_number(model, row, node, path, &value->f[0]));
	value->i = row->kind == NUMBER ? 0 : (int64_t)value->f[0];
	return ST_OK;
}

static enum st_status
assign(struct st_model *model, const struct alias *alias, const char *path,
       const struct st_yaml *node)
{
	struct st_setting_value *value = &model->settings[alias->id];
	struct st_setting_value fresh = {.from = node, .path = path, .set = 1};
	const struct st_yaml *old = value->from;

	if (node->kind == ST_YAML_NULL)
		return ST_OK;
	if (old && old->level == node->level) {
		st_error(model->diag, ST_EINPUT, node->loc,
			 "'%s' and '%s' are two names of one key", value->path,
			 path);
		st_note(model->diag, old->loc, "the other one");
		return ST_EINPUT;
	}
	if (old && old->level > node->level)
		return ST_OK;
	ST_TRY(convert(model, &rows[alias->id], node, path, alias->how,
		       &fresh));
	*value = fresh;
	return ST_OK;
}

/* Goes on after an error, so that one run shows them all; returns the
 * first. */
static enum st_status
read_group(struct st_model *model, const char *group,
	   const struct st_yaml *node)
{
	enum st_status first = ST_OK;

	for (size_t i = 0; i < node->count; i++) {
		const struct st_yaml_item *item = &node->items[i];
		const char *path = st_arena_printf(model->arena, "%s.%s", group,
						   item->key);
		const struct alias *alias = NULL;
		enum st_status status;
		int inner = 0;

		if (!path)
			return st_error_memory(model->diag);
		if (!strchr(item->key, '.')) {
			inner = is_group(path);
			alias = find(path);
		}
		if (inner && item->value->kind == ST_YAML_MAP)
			status = read_group(model, path, item->value);
		else if (alias)
			status = assign(model, alias, path, item->value);
		else if (inner && item->value->kind == ST_YAML_NULL)
			status = ST_OK;
		else if (inner)
			status = fail_value(model, item->value, path,
					    "a mapping");
		else
			status = fail_unknown(model, group, item);
		if (first == ST_OK)
			first = status;
	}
	return first;
}

static enum st_status
set_defaults(struct st_model *model)
{
	for (size_t i = 0; i < ST_SET_COUNT; i++) {
		struct st_setting_value *value = &model->settings[i];
		const struct row *row = &rows[i];
		const struct st_yaml *node;

		*value = (struct st_setting_value){.s = ""};
		if (!row->otherwise)
			continue;
		value->set = 1;
		if (row->kind == PAIR) {
			value->f[0] = 0.9;
			value->f[1] = 0.95;
			continue;
		}
		node = st_yaml_plain(model->arena, row->otherwise);
		if (!node)
			return st_error_memory(model->diag);
		ST_TRY(convert(model, row, node, row->path, SAME, value));
	}
	return ST_OK;
}

static void
warn_unheeded(struct st_model *model)
{
	static const enum st_setting ranges[][2] = {
		{ST_SET_overlap_tp, ST_SET_memory_slack},
		{ST_SET_graph, ST_SET_capture_warmup},
		{ST_SET_report_html, ST_SET_report_dumps},
	};

	for (size_t r = 0; r < sizeof(ranges) / sizeof(ranges[0]); r++)
		for (enum st_setting i = ranges[r][0]; i <= ranges[r][1];
		     i++)
			if (model->settings[i].from)
				st_warn(model->diag,
					model->settings[i].from->loc,
					"%s is not heeded yet", rows[i].path);
}

enum st_status
st_settings_read(struct st_model *model)
{
	static const char *const sections[] = {"parallelism", "training",
					       "overlap",     "capture",
					       "target",      "report"};
	enum st_status first = set_defaults(model);

	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
		const struct st_yaml_item *item =
			st_yaml_find(model->root, sections[i]);
		enum st_status status;

		if (!item || item->value->kind == ST_YAML_NULL)
			continue;
		if (item->value->kind != ST_YAML_MAP)
			status = st_error(
				model->diag, ST_EINPUT, item->value->loc,
				"%s: want a mapping, not %s", item->key,
				st_yaml_kind_name(item->value->kind));
		else
			status = read_group(model, item->key, item->value);
		if (first == ST_OK)
			first = status;
	}
	if (first == ST_OK)
		warn_unheeded(model);
	return first;
}

struct st_loc
st_setting_loc(const struct st_model *model, enum st_setting setting)
{
	const struct st_yaml *from = model->settings[setting].from;

	return from ? from->loc : model->root_loc;
}

/* The dtype of a config.json stands in for training.dtype. */
enum st_status
st_settings_take_dtype(struct st_model *model)
{
	if (model->settings[ST_SET_dtype].from || !model->dtype)
		return ST_OK;
	return assign(model, find("training.dtype"), "model.dtype",
		      model->dtype);
}

/* ---- printing ---- */

static void
print_value(struct st_buffer *out, const struct row *row,
	    const struct st_setting_value *value)
{
	switch (row->kind) {
	case COUNT: st_buffer_printf(out, "%lld", (long long)value->i); break;
	case NUMBER: st_buffer_double(out, value->f[0]); break;
	case FLAG: st_buffer_puts(out, value->i ? "true" : "false"); break;
	case PAIR:
		st_buffer_puts(out, "[");
		st_buffer_double(out, value->f[0]);
		st_buffer_puts(out, ", ");
		st_buffer_double(out, value->f[1]);
		st_buffer_puts(out, "]");
		break;
	case AUTO:
		if (value->i)
			st_buffer_printf(out, "%lld", (long long)value->i);
		else
			st_buffer_puts(out, "auto");
		break;
	default: st_yaml_print_string(out, value->s); break;
	}
}

/* Opens the mappings of a path that the line before did not open; returns
 * the last word of it. */
static const char *
open_groups(struct st_buffer *out, const char *before, const char *path)
{
	int depth = 0, shared = 1;

	for (;;) {
		size_t length = strcspn(path, ".");

		if (path[length] == '\0')
			break;
		shared = shared && strncmp(before, path, length + 1) == 0;
		if (!shared)
			st_buffer_printf(out, "%*s%.*s:\n", 2 * depth, "",
					 (int)length, path);
		else
			before += length + 1;
		path += length + 1;
		depth++;
	}
	st_buffer_printf(out, "%*s", 2 * depth, "");
	return path;
}

void
st_settings_print(const struct st_model *model, struct st_buffer *out)
{
	const char *before = "";

	for (size_t i = 0; i < ST_SET_COUNT; i++) {
		const struct st_setting_value *value = &model->settings[i];

		/* Said as micro_batch_size. */
		if (!value->set || i == ST_SET_tokens)
			continue;
		st_buffer_printf(
			out, "%s: ", open_groups(out, before, rows[i].path));
		before = rows[i].path;
		print_value(out, &rows[i], value);
		st_model_print_origin(model, out, value->from);
	}
}
