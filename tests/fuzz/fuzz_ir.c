/* IR text: whatever is accepted must print to itself and go through the
 * passes or be refused; nothing may crash. */

#include "ir/ir.h"
#include "passes/pass.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct st_module *
parse(struct st_arena *arena, struct st_diag *diag, struct st_names *names,
      const char *text, size_t length)
{
	uint32_t source = st_diag_add_source(diag, "fuzz", text, length);
	struct st_module *module;

	if (source == 0 || st_parse(arena, diag, names, source, &module) ||
	    st_verify(module))
		return NULL;
	return module;
}

/* A module that was accepted prints to a text that prints to itself. */
static void
round_trip(struct st_arena *arena, struct st_diag *diag,
	   struct st_names *names, const struct st_module *module)
{
	struct st_buffer first, second;
	struct st_module *again;

	st_buffer_init(&first, arena);
	st_buffer_init(&second, arena);
	st_print(module, &first);
	again = parse(arena, diag, names, first.text, first.length);
	if (!again)
		abort();
	st_print(again, &second);
	if (strcmp(first.text, second.text) != 0)
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct st_pipeline pipeline = {.passes = NULL};
	struct st_module *module, *out;
	struct st_arena arena;
	struct st_diag diag;
	struct st_names names;

	st_arena_init(&arena, NULL);
	st_diag_init(&diag, &arena);
	if (st_names_init(&names, &arena) == 0) {
		module = parse(&arena, &diag, &names, (const char *)data, size);
		if (module) {
			round_trip(&arena, &diag, &names, module);
			if (st_pipeline_run(&pipeline, module, &out) == ST_OK)
				round_trip(&arena, &diag, &names, out);
		}
	}
	for (size_t i = 0; i < diag.count; i++)
		st_diag_render(&diag, i);
	st_arena_finish(&arena);
	return 0;
}
