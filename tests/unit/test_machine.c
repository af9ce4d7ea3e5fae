/* Machine files: the shipped ones, every key there and back, bad ones. */

#include "models/machine.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const search[] = {"models/families", NULL};

struct loaded {
	struct st_arena arena;
	struct st_diag diag;
	struct st_machine machine;
	enum st_status status;
};

static void
load_with(struct loaded *l, const struct st_allocator *allocator,
	  const char *name)
{
	memset(l, 0, sizeof(*l));
	st_arena_init(&l->arena, allocator);
	st_diag_init(&l->diag, &l->arena);
	l->status = st_machine_load(&l->arena, &l->diag, name, search,
				    &l->machine);
}

static void
load_text(struct loaded *l, const char *text)
{
	memset(l, 0, sizeof(*l));
	st_arena_init(&l->arena, NULL);
	st_diag_init(&l->diag, &l->arena);
	l->status = st_machine_parse(
		&l->arena, &l->diag,
		st_diag_add_source(&l->diag, "text", text, strlen(text)),
		&l->machine);
}

/* First line of message i, or "". */
static const char *
message(struct loaded *l, size_t i)
{
	const char *text = l->diag.count > i ? st_diag_render(&l->diag, i) : "";

	return st_arena_strndup(&l->arena, text, strcspn(text, "\n"));
}

static const char *
print(struct loaded *l)
{
	struct st_buffer out;

	st_buffer_init(&out, &l->arena);
	st_machine_print(&l->machine, &out);
	return out.text;
}

/* ---- there and back ---- */

static int
same_text(const char **a, const char **b)
{
	int same = (!*a && !*b) || (*a && *b && strcmp(*a, *b) == 0);

	*a = *b = NULL;
	return same;
}

/* Every byte, but texts by what they say. */
static int
same(const struct st_machine *x, const struct st_machine *y)
{
	struct st_machine a, b;
	int equal;

	memcpy(&a, x, sizeof(a));
	memcpy(&b, y, sizeof(b));
	equal = same_text(&a.name, &b.name);
	for (int i = 0; i < ST_MACHINE_MAX_TIERS; i++) {
		equal &= same_text(&a.tiers[i].name, &b.tiers[i].name);
		equal &= same_text(&a.tiers[i].link, &b.tiers[i].link);
	}
	return equal && memcmp(&a, &b, sizeof(a)) == 0;
}

static void
check_round_trip(struct loaded *l)
{
	const char *text = print(l);
	struct loaded again;

	load_text(&again, text);
	cr_assert_eq(again.status, ST_OK, "%s\n%s", message(&again, 0), text);
	cr_expect(same(&l->machine, &again.machine), "%s", text);
	cr_expect_str_eq(text, print(&again));
	st_arena_finish(&again.arena);
}

static const char *const shipped[] = {"h200-sxm-8", "h100-sxm-8", "a100-sxm-8",
				      "laptop"};

Test(machine, shipped)
{
	for (size_t i = 0; i < sizeof(shipped) / sizeof(shipped[0]); i++) {
		struct loaded l;
		char path[64];

		load_with(&l, NULL, shipped[i]);
		cr_assert_eq(l.status, ST_OK, "%s", message(&l, 0));
		cr_expect_str_eq(l.machine.name, shipped[i]);
		check_round_trip(&l);
		st_arena_finish(&l.arena);
		snprintf(path, sizeof(path), "models/machines/%s.yaml",
			 shipped[i]);
		load_with(&l, NULL, path);
		cr_expect_eq(l.status, ST_OK, "%s", message(&l, 0));
		st_arena_finish(&l.arena);
	}
}

Test(machine, laptop)
{
	struct loaded l;
	const struct st_machine *m = &l.machine;

	load_with(&l, NULL, "laptop");
	cr_assert_eq(l.status, ST_OK);
	cr_expect_eq(m->is_cuda, 0);
	cr_expect_eq(m->memory_bytes, 8000000000);
	cr_expect_eq(m->sms, 2);
	cr_expect_eq(m->matmul_tflops[ST_F64], 0.055);
	cr_expect_eq(m->matmul_start_us, 1);
	cr_expect_eq(m->tier_count, 1);
	cr_expect_eq(m->tiers[0].devices, 2);
	cr_expect_eq(m->form_count, 4);
	cr_expect_eq(m->forms[2].op, ST_OP_all_reduce);
	cr_expect_eq(m->forms[2].bus_gb_per_s, 2.7);
	st_arena_finish(&l.arena);
}

/* Every key, each with a number of its own. */
static const char every_key[] =
	"ops: {layernorm: {gb_per_s: 12, start_us: 1}, adamw: {start_us: 2}}\n"
	"contention: {comm_slowdown: 0.3, compute_slowdown: 0.4}\n"
	"machine: 'a: b'\n"
	"device:\n"
	"  kind: cuda\n"
	"  memory_bytes: 5\n"
	"  sms: 6\n"
	"  matmul: {f64_tflops: 7, f32_tflops: 8, bf16_tflops: 9,\n"
	"           start_us: 10}\n"
	"  memory: {gb_per_s: 11, start_us: 0.1}\n"
	"  attention:\n"
	"    forward_tflops: {head_64: 13, head_128: 14}\n"
	"    backward_tflops: {head_64: 15, head_128: 16}\n"
	"launch: {graph_node_us: 17, stream_us: 18, graph_us: 19,\n"
	"         graph_ns_per_node: 20}\n"
	"tiers:\n"
	"  - {name: node, devices: 21, link: l, gb_per_s: 22,\n"
	"     line_gb_per_s: 23, hop_us: 24}\n"
	"  - {name: all, gb_per_s: 25}\n"
	"collectives:\n"
	"  all_to_all:\n"
	"    - {ranks: 26, a_us: 27, bus_gb_per_s: 28,\n"
	"       c_ns_per_sqrt_byte: 29, small: {a_us: 30, bus_gb_per_s: 31}}\n"
	"  all_reduce: [{ranks: 2, bus_gb_per_s: 1e-9}]\n";

static void
expect_every_number(const struct st_machine *m)
{
	const struct st_machine_tier *t = m->tiers;
	const struct st_machine_form *f = m->forms;
	const double have[] = {
		m->op_gb_per_s[ST_OP_layernorm],
		m->op_start_us[ST_OP_layernorm], m->op_start_us[ST_OP_adamw],
		m->comm_slowdown, m->compute_slowdown,
		(double)m->memory_bytes, (double)m->sms,
		m->matmul_tflops[ST_F64], m->matmul_tflops[ST_F32],
		m->matmul_tflops[ST_BF16], m->matmul_start_us,
		m->memory_gb_per_s, m->memory_start_us,
		m->attention_forward_tflops_64,
		m->attention_forward_tflops_128,
		m->attention_backward_tflops_64,
		m->attention_backward_tflops_128, m->node_us, m->stream_us,
		m->graph_us, m->graph_ns_per_node, (double)t->devices,
		t->gb_per_s, t->line_gb_per_s, t->hop_us, t[1].gb_per_s,
		(double)f->ranks, f->a_us, f->bus_gb_per_s,
		f->c_ns_per_sqrt_byte, f->small_a_us, f->small_bus_gb_per_s,
		f[1].bus_gb_per_s,
	};
	const double want[] = {
		12, 1,  2,  0.3, 0.4, 5,  6,  7,  8,  9,  10,
		11, 0.1, 13, 14, 15, 16, 17, 18, 19, 20, 21,
		22, 23, 24, 25,  26,  27, 28, 29, 30, 31, 1e-9,
	};

	cr_assert_eq(sizeof(have), sizeof(want));
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		cr_expect_eq(have[i], want[i], "number %zu: have %g, want %g",
			     i, have[i], want[i]);
}

Test(machine, every_key)
{
	struct loaded l;

	load_text(&l, every_key);
	cr_assert_eq(l.status, ST_OK, "%s", message(&l, 0));
	expect_every_number(&l.machine);
	cr_expect_str_eq(l.machine.name, "a: b");
	cr_expect_eq(l.machine.is_cuda, 1);
	cr_expect_str_eq(l.machine.tiers[0].link, "l");
	check_round_trip(&l);
	st_arena_finish(&l.arena);
}

/* ---- what is wrong ---- */

Test(machine, unknown_name)
{
	struct loaded l;

	load_with(&l, NULL, "h200-sxm8");
	cr_expect_eq(l.status, ST_EINPUT);
	cr_expect_str_eq(message(&l, 0),
			 "stretto: error: no machine 'h200-sxm8': there is no "
			 "h200-sxm8.yaml in 'machines' beside the directories "
			 "searched; did you mean 'h200-sxm-8'?");
	st_arena_finish(&l.arena);
	load_with(&l, NULL, "./none.yaml");
	cr_expect_eq(l.status, ST_EINPUT);
	cr_expect_str_eq(message(&l, 0),
			 "stretto: error: cannot read './none.yaml': No such "
			 "file or directory");
	st_arena_finish(&l.arena);
}

/* One run shows them all. */
Test(machine, several_errors)
{
	struct loaded l;

	load_text(&l, "machine: 1\ndevice: {kind: tpu, sm: 2}\nlunch: {}\n");
	cr_expect_eq(l.status, ST_EINPUT);
	cr_expect_eq(l.diag.errors, 4);
	cr_expect_str_eq(message(&l, 3),
			 "text:3:1: error: unknown key 'lunch'; did you mean "
			 "'launch'?");
	st_arena_finish(&l.arena);
}

/* The two lines of NAME.err: the message with %s for the path, "exit N". */
static int
read_expected(const char *path, char want[512], int *code)
{
	char err[256], line[512];
	FILE *file;
	int found;

	snprintf(err, sizeof(err), "%.*s.err", (int)strlen(path) - 5, path);
	file = fopen(err, "r");
	if (!file)
		return 0;
	found = fgets(line, sizeof(line), file) &&
		fscanf(file, "exit %d", code) == 1 &&
		strncmp(line, "%s", 2) == 0;
	fclose(file);
	line[strcspn(line, "\n")] = '\0';
	if (found)
		snprintf(want, 512, "%.200s%.300s", path, line + 2);
	return found;
}

static void
check_bad(const char *path)
{
	char want[512];
	struct loaded l;
	int code;

	if (!read_expected(path, want, &code)) {
		cr_expect_fail("%s: no .err beside it", path);
		return;
	}
	load_with(&l, NULL, path);
	cr_expect_eq((int)l.status, code, "%s: status %d", path,
		     (int)l.status);
	cr_expect_str_eq(message(&l, 0), want);
	st_arena_finish(&l.arena);
}

Test(machine, every_bad_file)
{
	static const char folder[] = "tests/bad/machines";
	DIR *dir = opendir(folder);
	const struct dirent *entry;
	int n = 0;

	cr_assert_not_null(dir, "run this in the root of the repository");
	while ((entry = readdir(dir)) != NULL) {
		const char *dot = strrchr(entry->d_name, '.');
		char path[256];

		if (!dot || strcmp(dot, ".yaml") != 0)
			continue;
		snprintf(path, sizeof(path), "%s/%.200s", folder,
			 entry->d_name);
		check_bad(path);
		n++;
	}
	closedir(dir);
	cr_expect_geq(n, 60);
}

/* ---- memory ---- */

static void *
alloc_some(void *user, size_t size)
{
	int *left = user;

	return (*left)-- > 0 ? malloc(size) : NULL;
}

static void
release(void *user, void *block)
{
	(void)user;
	free(block);
}

/* Whichever request is refused: a status, never a crash. */
Test(machine, without_memory)
{
	int done = 0;

	for (int n = 0; !done && n < 1000; n++) {
		int left = n;
		struct st_allocator allocator = {alloc_some, release, &left};
		struct loaded l;

		load_with(&l, &allocator, "h200-sxm-8");
		done = l.status == ST_OK;
		cr_expect(done || l.status == ST_EDEVICE, "status %d",
			  (int)l.status);
		st_arena_finish(&l.arena);
	}
	cr_expect(done);
}
