#ifndef ST_BUILD_H
#define ST_BUILD_H

/*
 * Appending nodes with their types inferred.
 *
 *   st_build_string(&b, ST_KEY_dims, "tbk,ok->tbo");
 *   y = st_build(&b, ST_OP_matmul, "h.0/up", ST_IN(x, w));
 *
 * Attributes and stated types are set first and used up by the next node.
 * A failure sticks: later calls return ST_NONE at once, and the builder's
 * status is checked at the end.
 */

#include "ir/rule.h"

struct st_builder {
	struct st_module *module;
	enum st_status status;
	enum st_region region;
	uint32_t loc;
	/* pending */
	int start;
	uint32_t on;
	struct st_attr attrs[ST_KEY_COUNT];
	size_t attr_count;
	struct st_type stated[ST_MAX_RESULTS];
	int has_stated;
};

#define ST_IN(...)                                       \
	(const uint32_t[]){__VA_ARGS__},                 \
	sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)
#define ST_NO_OPERANDS NULL, 0

void st_build_init(struct st_builder *builder, struct st_module *module);

void st_build_int(struct st_builder *builder, enum st_key key, int64_t value);
void st_build_float(struct st_builder *builder, enum st_key key, double value);
void st_build_string(struct st_builder *builder, enum st_key key,
		     const char *value);
void st_build_axes(struct st_builder *builder, unsigned axes);

/* States the type of result i; all results must be stated then. */
void st_build_type(struct st_builder *builder, int i,
		   const struct st_type *type);

/*
 * The first result; the others follow it.  names: one for each result,
 * separated by commas ("ln,ln.mean,ln.rstd"); a missing one is made from the
 * first by a suffix.
 */
uint32_t st_build(struct st_builder *builder, enum st_op op, const char *names,
		  const uint32_t *operands, size_t count);

/* A copy of a node of another module (or this one) with its attributes and
 * names, over other operands. Stated types are those pending, else those of
 * the node. */
uint32_t st_build_like(struct st_builder *builder,
		       const struct st_module *from,
		       const struct st_node *node, const uint32_t *operands);

#endif
