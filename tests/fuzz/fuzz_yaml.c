/*
 * Any bytes as a net: the front end refuses them with a located message, or
 * makes a module that verifies, whose text parses to the same text, and whose
 * normalised YAML loads to the same module.  A first line "#set KEY=VALUE"
 * gives a --set.  The same bytes as a machine file: refused with a located
 * message, or their print loads and prints the same.  A libFuzzer target; with
 * a main of its own (-DST_REPLAY) it runs the files named on its command line.
 * Run it in the root of the repository: families are looked up there.
 */

#include "ir/ir.h"
#include "models/machine.h"
#include "models/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct run {
	struct st_arena arena;
	struct st_diag diag;
	struct st_names names;
	struct st_model *model;
	struct st_module *module;
	enum st_status status;
};

static void
require(int truth, const char *what)
{
	if (!truth) {
		fprintf(stderr, "fuzz_yaml: %s\n", what);
		abort();
	}
}

static void
load(struct run *r, const char *text, size_t length, const char *set)
{
	static const char *const search[] = {"models/families", NULL};
	struct st_model_source source = {
		.path = "tests/fuzz/corpus/yaml/fuzz.yaml",
		.text = text,
		.length = length,
		.sets = &set,
		.set_count = set != NULL,
		.search = search,
	};

	memset(r, 0, sizeof(*r));
	st_arena_init(&r->arena, NULL);
	st_diag_init(&r->diag, &r->arena);
	require(st_names_init(&r->names, &r->arena) == 0, "memory");
	r->status = st_model_load(&r->arena, &r->diag, &r->names, &source,
				  &r->model);
	if (r->status == ST_OK)
		r->status = st_model_lower(r->model, &r->module);
}

static void
check_refusal(struct run *r)
{
	require(r->status == ST_EINPUT || r->status == ST_EINFEASIBLE,
		"refused with another status");
	require(r->diag.errors > 0 && !r->diag.full,
		"refused without a message");
	for (size_t i = 0; i < r->diag.count; i++) {
		require(r->diag.messages[i].loc.source != 0,
			"a message without a place");
		require(st_diag_render(&r->diag, i)[0] != '\0', "no text");
	}
}

/* parse(print(module)) prints the same. */
static void
check_text(struct run *r, const char *text)
{
	uint32_t source = st_diag_add_source(&r->diag, "text", text,
					     strlen(text));
	struct st_module *again;
	struct st_buffer out;

	require(st_verify(r->module) == ST_OK, "the module does not verify");
	require(st_parse(&r->arena, &r->diag, &r->names, source, &again) ==
			ST_OK,
		"the text does not parse");
	st_buffer_init(&out, &r->arena);
	st_print(again, &out);
	require(strcmp(text, out.text) == 0, "the text does not round-trip");
}

static void
check_yaml(struct run *r, const char *text)
{
	struct st_buffer yaml, out;
	struct run again;

	st_buffer_init(&yaml, &r->arena);
	st_model_print(r->model, &yaml);
	load(&again, yaml.text, yaml.length, NULL);
	if (again.status != ST_OK)
		fputs(st_diag_render(&again.diag, 0), stderr);
	require(again.status == ST_OK, "the printed net does not load");
	st_buffer_init(&out, &again.arena);
	st_print(again.module, &out);
	require(strcmp(text, out.text) == 0, "the printed net is another");
	st_arena_finish(&again.arena);
}

static void
load_machine(struct run *r, const char *text, size_t length,
	     struct st_buffer *out)
{
	struct st_machine machine;

	memset(r, 0, sizeof(*r));
	st_arena_init(&r->arena, NULL);
	st_diag_init(&r->diag, &r->arena);
	r->status = st_machine_parse(
		&r->arena, &r->diag,
		st_diag_add_source(&r->diag, "machine", text, length),
		&machine);
	st_buffer_init(out, &r->arena);
	if (r->status == ST_OK)
		st_machine_print(&machine, out);
}

static void
check_machine(const char *text, size_t length)
{
	struct st_buffer first, second;
	struct run r, again;

	load_machine(&r, text, length, &first);
	if (r.status != ST_OK) {
		check_refusal(&r);
	} else {
		load_machine(&again, first.text, first.length, &second);
		require(again.status == ST_OK,
			"the printed machine does not load");
		require(strcmp(first.text, second.text) == 0,
			"the printed machine is another");
		st_arena_finish(&again.arena);
	}
	st_arena_finish(&r.arena);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char mark[] = "#set ";
	const size_t skip = sizeof(mark) - 1;
	char set[256];
	int has_set = size >= skip && memcmp(data, mark, skip) == 0;
	struct run r;
	struct st_buffer out;

	if (has_set) {
		size_t n = 0;

		while (n + 1 < sizeof(set) && skip + n < size &&
		       data[skip + n] != '\n' && data[skip + n] != '\0') {
			set[n] = (char)data[skip + n];
			n++;
		}
		set[n] = '\0';
	}
	load(&r, (const char *)data, size, has_set ? set : NULL);
	if (r.status != ST_OK) {
		check_refusal(&r);
	} else {
		st_buffer_init(&out, &r.arena);
		st_print(r.module, &out);
		check_text(&r, out.text);
		check_yaml(&r, out.text);
	}
	st_arena_finish(&r.arena);
	check_machine((const char *)data, size);
	return 0;
}

#ifdef ST_REPLAY
int
main(int argc, char **argv)
{
	static uint8_t data[1 << 20];

	for (int i = 1; i < argc; i++) {
		FILE *file = fopen(argv[i], "rb");
		size_t size;

		require(file != NULL, argv[i]);
		size = fread(data, 1, sizeof(data), file);
		fclose(file);
		LLVMFuzzerTestOneInput(data, size);
	}
	printf("%d inputs\n", argc - 1);
	return argc > 1 ? 0 : 1;
}
#endif
