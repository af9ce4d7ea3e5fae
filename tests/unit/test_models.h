#ifndef ST_TEST_MODELS_H
#define ST_TEST_MODELS_H

/* One net from its text to its module, with everything that dies together. */

#include "ir/ir.h"
#include "models/model.h"

#include <stdarg.h>
#include <string.h>

enum { MAX_SETS = 16 };

struct loaded {
	struct st_arena arena;
	struct st_diag diag;
	struct st_names names;
	struct st_model *model;
	struct st_module *module;
	enum st_status status;
};

static const char *const family_search[] = {"models/families", NULL};

static inline void
load_source(struct loaded *l, const struct st_model_source *source)
{
	memset(l, 0, sizeof(*l));
	st_arena_init(&l->arena, NULL);
	st_diag_init(&l->diag, &l->arena);
	st_names_init(&l->names, &l->arena);
	l->status = st_model_load(&l->arena, &l->diag, &l->names, source,
				  &l->model);
	if (l->status == ST_OK)
		l->status = st_model_lower(l->model, &l->module);
	if (l->status == ST_OK)
		l->status = st_verify(l->module);
}

/* text may be NULL: path is read.  The rest are --set, ended by NULL. */
static inline void
load(struct loaded *l, const char *path, const char *text, ...)
{
	const char *sets[MAX_SETS];
	struct st_model_source source = {
		.path = path,
		.text = text,
		.length = text ? strlen(text) : 0,
		.sets = sets,
		.search = family_search,
	};
	va_list args;

	va_start(args, text);
	while (source.set_count < MAX_SETS) {
		sets[source.set_count] = va_arg(args, const char *);
		if (!sets[source.set_count])
			break;
		source.set_count++;
	}
	va_end(args);
	load_source(l, &source);
}

static inline void
unload(struct loaded *l)
{
	st_arena_finish(&l->arena);
}

/* First line of the first message, or "". */
static inline const char *
first_message(struct loaded *l)
{
	const char *text = l->diag.count ? st_diag_render(&l->diag, 0) : "";
	char *line = st_arena_strndup(&l->arena, text, strcspn(text, "\n"));

	return line ? line : "";
}

static inline const char *
module_text(struct loaded *l)
{
	struct st_buffer out;

	if (l->status != ST_OK)
		return first_message(l);
	st_buffer_init(&out, &l->arena);
	st_print(l->module, &out);
	return out.text;
}

#endif
