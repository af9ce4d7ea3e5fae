#ifndef ST_LAYOUT_H
#define ST_LAYOUT_H

/* Where the elements of a rank's piece lie in the whole tensor. */

#include "ir/type.h"
#include "kernels/kernels.h"

/* Copies the piece of `rank` out of a whole tensor (row-major, without
 * padding) of elements of `size` bytes; padding becomes 0.  The type must not
 * be partial. */
void st_layout_scatter(const struct st_type *type, const struct st_mesh *mesh,
		       int64_t rank, size_t size, const void *whole,
		       void *piece);

/* Copies the piece back to its place; padding is dropped. */
void st_layout_gather(const struct st_type *type, const struct st_mesh *mesh,
		      int64_t rank, size_t size, const void *piece,
		      void *whole);

/* Does this rank hold the first copy of its piece?  Ranks along axes that the
 * type does not name hold the same. */
int st_layout_is_first(const struct st_type *type, const struct st_mesh *mesh,
		       int64_t rank);

/* First element of a flat piece in the rank's tensor, and how many of its
 * elements are real; without `flat` all of them from 0. */
void st_layout_flat(const struct st_type *type, const struct st_mesh *mesh,
		    int64_t rank, int64_t *first, int64_t *real);

/* Extents, offsets and strides for the `random` kernel. */
void st_layout_random(const struct st_type *type, const struct st_mesh *mesh,
		      int64_t rank, struct st_random_args *args);

#endif
