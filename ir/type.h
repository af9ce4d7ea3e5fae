#ifndef ST_TYPE_H
#define ST_TYPE_H

/*
 * Types: dtype, extents, and how the value is spread over the mesh.
 *
 * An extent is a product of factors, because what a mesh axis cuts is often
 * one of them: the columns of a fused attention projection are 3*heads*dim,
 * and tensor parallelism cuts `heads`.  Sizes are global.  A factor that is
 * cut over axes is padded up to the next multiple of their size; the padding
 * stands in the type and holds zeros.
 *
 *   f32[1024, 50257+47/tp]          rows, vocabulary cut over tp, padded
 *   bf16[768, 3*12/tp*64]           heads cut over tp
 *   f32[8/dp_replicate/dp_shard, 64] rows cut over two axes, first is major
 *   f32[768, 768] flat(dp_shard)    the rank's tensor, flattened and cut
 *                                   into equal runs over dp_shard
 *   f32[64, 64] partial<sum>(tp)    the value is the sum over tp
 *
 * A value is the same on all ranks along an axis that its type does not
 * name.  Before `partition` only states, inputs and `reshard` carry
 * shardings; the others are not decided yet.
 */

#include <stdint.h>

#include "ir/diag.h"
#include "ir/text.h"
#include "kernels/kernels.h"

enum {
	ST_MAX_AXES = 8,
	ST_MAX_FACTORS = 8,
};

/* Ranks are numbered row-major over the axes: the last one varies fastest. */
struct st_mesh {
	uint32_t count;
	uint32_t name[ST_MAX_AXES]; /* in the module's names */
	int64_t size[ST_MAX_AXES];
};

struct st_factor {
	int64_t size; /* global, without padding */
	int32_t pad;
	uint8_t axes; /* bit i: cut over mesh axis i; the lower is the major */
};

enum st_reduction { ST_SUM, ST_MAX };

struct st_type {
	uint8_t dtype;     /* enum st_dtype */
	uint8_t factors;   /* how many of f[] are used */
	uint8_t joined;    /* bit i: factor i belongs to the extent of i - 1 */
	uint8_t flat;      /* axes */
	uint8_t partial;   /* axes */
	uint8_t reduction; /* enum st_reduction, where partial */
	uint8_t is_async;  /* the value is still being produced */
	struct st_factor f[ST_MAX_FACTORS];
};

/* "f32" and so on; -1 if there is none of that name. */
const char *st_dtype_name(enum st_dtype dtype);
int st_dtype_find(const char *name, size_t length);

struct st_type st_type_scalar(enum st_dtype dtype);

/* Adds an extent of one factor, or a factor to the last extent.  Returns
 * -1 when there is no room. */
int st_type_add_extent(struct st_type *type, int64_t size);
int st_type_join_factor(struct st_type *type, int64_t size);

int st_type_equal(const struct st_type *a, const struct st_type *b);

/* Equal extents, factor by factor; dtype and sharding may differ. */
int st_type_same_factors(const struct st_type *a, const struct st_type *b);

/* Number of extents, first factor of extent i, one past its last. */
int st_type_rank(const struct st_type *type);
int st_type_first(const struct st_type *type, int extent);
int st_type_end(const struct st_type *type, int extent);

/* Product of the sizes of the axes in a mask. */
int64_t st_mesh_span(const struct st_mesh *mesh, unsigned axes);
int64_t st_mesh_ranks(const struct st_mesh *mesh);

/* The coordinate of rank along an axis, and along a mask of axes taken as
 * one (the lowest bit is the major one). */
int64_t st_mesh_coordinate(const struct st_mesh *mesh, int64_t rank, int axis);
int64_t st_mesh_index(const struct st_mesh *mesh, int64_t rank, unsigned axes);

/* Elements of the whole tensor without padding; of the part of one rank. */
int64_t st_type_elements(const struct st_type *type);
int64_t st_type_local_elements(const struct st_type *type,
			       const struct st_mesh *mesh);
int64_t st_type_local_bytes(const struct st_type *type,
			    const struct st_mesh *mesh);

/* Extent of factor f on one rank, padding counted. */
int64_t st_type_local_factor(const struct st_type *type, int f,
			     const struct st_mesh *mesh);
/* Product of the local factors of an extent; flat types are whole here. */
int64_t st_type_local_extent(const struct st_type *type, int extent,
			     const struct st_mesh *mesh);

/* Cuts factor f over axes, padding it as needed. */
void st_type_cut(struct st_type *type, int f, unsigned axes,
		 const struct st_mesh *mesh);

/* All axes of the factors, `flat` and `partial`. */
unsigned st_type_axes(const struct st_type *type);

/* The same extents, spread over nothing. */
struct st_type st_type_whole(const struct st_type *type);

void st_type_print(struct st_buffer *out, const struct st_type *type,
		   const struct st_mesh *mesh, const struct st_names *names);

/* NULL, or what is wrong with the type on this mesh: a cut that does not
 * divide, an axis used twice, too many elements. */
const char *st_type_fault(const struct st_type *type,
			  const struct st_mesh *mesh);

#endif
