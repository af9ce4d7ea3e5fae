#ifndef ST_BIND_H
#define ST_BIND_H

/*
 * From a node of a ranked module to a launch record of one rank: extents,
 * attributes and what depends on the rank's place in the mesh.  Pointers are
 * filled in by the caller.
 */

#include "ir/rule.h"
#include "kernels/kernels.h"

struct st_bind {
	const struct st_module *module;
	const struct st_node *node;
	int64_t rank;
};

/* One a row of ops.def. */
typedef enum st_status st_bind_fn(const struct st_bind *b,
				  struct st_kernel *kernel);
#define OP(name, ...) st_bind_fn st_bind_##name;
#include "ir/ops.def"

extern st_bind_fn *const st_binds[ST_OP_COUNT];

/* What a collective needs besides its buffers. */
struct st_comm_args {
	enum st_op op;
	enum st_dtype dtype;
	enum st_reduction reduction;
	unsigned axes;
	int64_t count;        /* all_reduce: elements */
	int64_t outer, chunk; /* of one rank's part, in elements */
	int64_t middle;       /* all_to_all */
	int split_last;       /* all_to_all: the later extent is cut */
	/* Slices around the exchange where a cut is padded: the operand is
	 * padded into scratch before it, the result stripped behind it. */
	struct st_slice_args pad, strip;
	int64_t pad_bytes, strip_bytes; /* of scratch; 0: none */
	int64_t zero_from;    /* reduce_scatter: elements that are padding */
	int64_t zero_count;
};
enum st_status st_bind_comm(const struct st_bind *b,
			    struct st_comm_args *args);

#endif
