/* The text form: every file under tests/bad/ir is refused with the message
 * beside it; texts cut short anywhere and memory that ends anywhere give a
 * status, never a crash; doubles and types print and read back. */

#include "ir/ir.h"
#include "passes/pass.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char folder[] = "tests/bad/ir";

static char *
read_file(const char *path, size_t *length)
{
	FILE *file = fopen(path, "rb");
	char *text = calloc(1, 1 << 20);

	cr_assert_not_null(file, "%s", path);
	*length = fread(text, 1, (1 << 20) - 1, file);
	fclose(file);
	return text;
}

struct parsed {
	struct st_arena arena;
	struct st_diag diag;
	struct st_names names;
	struct st_module *module;
	enum st_status status;
};

static void
parse(struct parsed *p, const struct st_allocator *allocator,
      const char *name, const char *text, size_t length)
{
	uint32_t source;

	memset(p, 0, sizeof(*p));
	st_arena_init(&p->arena, allocator);
	st_diag_init(&p->diag, &p->arena);
	p->status = ST_EDEVICE;
	if (st_names_init(&p->names, &p->arena))
		return;
	source = st_diag_add_source(&p->diag, name, text, length);
	if (source == 0)
		return;
	p->status = st_parse(&p->arena, &p->diag, &p->names, source,
			     &p->module);
	if (p->status == ST_OK)
		p->status = st_verify(p->module);
}

static void
check_bad(const char *name)
{
	char path[512], err[512], want[1024], have[1024];
	char *text, *expected, *mark;
	struct parsed p;
	size_t length, n;
	int code;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	snprintf(err, sizeof(err), "%.*s.err", (int)strlen(path) - 3, path);
	text = read_file(path, &length);
	expected = read_file(err, &n);
	parse(&p, NULL, path, text, length);
	code = atoi(strstr(expected, "\nexit ") + 6);
	*strstr(expected, "\nexit ") = '\0';
	mark = strstr(expected, "%s");
	snprintf(want, sizeof(want), "%.*s%s%s", (int)(mark - expected),
		 expected, path, mark + 2);
	snprintf(have, sizeof(have), "%s",
		 p.diag.count ? st_diag_render(&p.diag, 0) : "");
	have[strcspn(have, "\n")] = '\0';
	cr_expect(strcmp(have, want) == 0, "\n  have %s\n  want %s", have,
		  want);
	cr_expect_eq((int)p.status, code, "%s", path);
	st_arena_finish(&p.arena);
	free(text);
	free(expected);
}

Test(ir, bad_files)
{
	DIR *dir = opendir(folder);
	const struct dirent *entry;
	int n = 0;

	cr_assert_not_null(dir, "run this in the root of the repository");
	while ((entry = readdir(dir)) != NULL) {
		const char *dot = strrchr(entry->d_name, '.');

		if (!dot || strcmp(dot, ".ir") != 0)
			continue;
		check_bad(entry->d_name);
		n++;
	}
	closedir(dir);
	cr_expect_geq(n, 100);
}

/* Uses every form of the grammar. */
static const char good[] =
	"stretto-ir 1\n"
	"form ranked\n"
	"mesh dp=2, tp=2\n"
	"option micro_batches = 1\n"
	"option recompute = \"none\"\n"
	"option lr = 0.001\n"
	"arena 65536\n"
	"\n"
	"state param %w : f32[61+1/tp, 4*8] @0\n"
	"state moment1 %m : f32[61+1/tp, 4*8] flat(dp) @8192\n"
	"state counter %n : i32[] @12288\n"
	"\n"
	"entry @main(%x : f32[16, 8/dp, 4*8] @16384) {\n"
	"  %y = matmul %x, %w, dims=\"tbc,oc->tbo\" : f32[16, 8/dp, 61+1/tp] "
	"@32768\n"
	"  %max = xent_max %y : f32[16, 8/dp] partial<max>(tp) @49152\n"
	"  %r = reduce_sum %y, dims=\"tbo->o\" : f32[61+1/tp] "
	"partial<sum>(dp) @57344 !backward\n"
	"  %n.1 = step_count %n : i32[] @12288 !optimizer\n"
	"  ret %max as max\n"
	"  ret %n.1 -> %n\n"
	"}\n";

Test(ir, prints_what_it_parsed)
{
	struct parsed p;
	struct st_buffer out;

	parse(&p, NULL, "good", good, strlen(good));
	cr_assert_eq(p.status, ST_OK, "%s",
		     p.diag.count ? st_diag_render(&p.diag, 0) : "");
	st_buffer_init(&out, &p.arena);
	st_print(p.module, &out);
	cr_expect_str_eq(out.text, good);
	st_arena_finish(&p.arena);
}

Test(ir, cut_short_anywhere)
{
	size_t length = strlen(good);

	for (size_t n = 0; n < length - 1; n++) {
		struct parsed p;

		parse(&p, NULL, "cut", good, n);
		/* What remains may be whole only where nothing is open. */
		cr_expect(p.status == ST_EINPUT || n < 120 ||
				  p.module->entries.count == 0,
			  "%zu bytes: status %d", n, (int)p.status);
		st_arena_finish(&p.arena);
	}
}

struct limited {
	long left;
};

static void *
limited_alloc(void *user, size_t size)
{
	struct limited *limit = user;

	return limit->left-- > 0 ? malloc(size) : NULL;
}

static void
limited_release(void *user, void *block)
{
	(void)user;
	free(block);
}

/* Large enough to need many blocks. */
static char *
make_large(void)
{
	char *text = calloc(1, 1 << 20);
	int n = sprintf(text, "stretto-ir 1\nform logical\n"
			      "entry @main(%%x : f32[4]) {\n");

	for (int i = 0; i < 6000; i++)
		n += sprintf(text + n,
			     "  %%y%d = scale %%x, factor=%d.5 : f32[4]\n", i,
			     i);
	strcpy(text + n, "}\n");
	return text;
}

Test(ir, memory_that_ends_anywhere)
{
	char *text = make_large();
	int failures = 0, successes = 0;

	for (long n = 0; n < 40; n++) {
		struct limited limit = {n};
		struct st_allocator allocator = {limited_alloc,
						 limited_release, &limit};
		struct parsed p;

		parse(&p, &allocator, "large", text, strlen(text));
		cr_expect(p.status == ST_OK || p.status == ST_EDEVICE,
			  "%ld requests: status %d", n, (int)p.status);
		failures += p.status != ST_OK;
		successes += p.status == ST_OK;
		st_arena_finish(&p.arena);
	}
	cr_expect_gt(failures, 3);
	cr_expect_gt(successes, 0);
	free(text);
}

Test(ir, doubles_read_back)
{
	static const double values[] = {0.0,   -0.0,   1.0,    0.1,
					1e-5,  1e300,  1.0 / 3, 5e-324,
					123456789.0, 1e16,  6.02214076e23};
	struct st_arena arena;

	st_arena_init(&arena, NULL);
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		struct st_buffer out;

		st_buffer_init(&out, &arena);
		st_buffer_double(&out, values[i]);
		cr_expect_eq(strtod(out.text, NULL), values[i], "%s",
			     out.text);
		cr_expect_not_null(strpbrk(out.text, ".e"), "%s", out.text);
	}
	st_arena_finish(&arena);
}

Test(ir, spreads_of_types)
{
	struct st_mesh mesh = {.count = 2, .size = {3, 2}};
	struct st_type type = st_type_scalar(ST_F32);

	st_type_add_extent(&type, 7);
	st_type_add_extent(&type, 5);
	st_type_join_factor(&type, 4);
	cr_expect_eq(st_type_rank(&type), 2);
	st_type_cut(&type, 1, 2, &mesh);
	cr_expect_eq(type.f[1].pad, 1);
	cr_expect_eq(st_type_local_extent(&type, 1, &mesh), 12);
	cr_expect_eq(st_type_elements(&type), 140);
	cr_expect_eq(st_type_local_elements(&type, &mesh), 84);
	type.flat = 1;
	cr_expect_eq(st_type_local_elements(&type, &mesh), 28);
	cr_expect_null(st_type_fault(&type, &mesh));
	type.partial = 1;
	cr_expect_not_null(st_type_fault(&type, &mesh));
	/* Ranks are row-major: the last axis varies fastest. */
	cr_expect_eq(st_mesh_coordinate(&mesh, 5, 0), 2);
	cr_expect_eq(st_mesh_coordinate(&mesh, 5, 1), 1);
	cr_expect_eq(st_mesh_index(&mesh, 4, 3), 4);
}
