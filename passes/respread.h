#ifndef ST_RESPREAD_H
#define ST_RESPREAD_H

/*
 * From one spread of a value to another by the cheapest collectives:
 *
 *   partial    -> cut         reduce_scatter
 *   partial    -> replicated  all_reduce
 *   cut i      -> cut j       all_to_all
 *   cut        -> replicated  all_gather
 *   replicated -> cut         shard (each rank keeps its piece)
 *   replicated -> partial     only  (all but the first rank hold zeros)
 *
 * Reductions come first, so that what follows moves less; flat runs are cut
 * last, because they are made of what the factors leave.  Axes that move from
 * one place to one other go together, as one collective.  A major axis cannot
 * come or go under a minor one, nor beside another where padding lies, nor a
 * cut change under a flat run: what is in the way is gathered first and cut
 * again afterwards.
 */

#include "ir/build.h"

/* Emits what leads from `value` to the type `to` (equal extents and dtype);
 * returns the last value, ST_NONE with b->status set if there is no way. */
uint32_t st_respread(struct st_builder *b, uint32_t value,
		     const struct st_type *to);

#endif
