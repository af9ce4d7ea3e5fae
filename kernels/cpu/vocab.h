#ifndef ST_KERNELS_CPU_VOCAB_H
#define ST_KERNELS_CPU_VOCAB_H

/* Token ids [B x T] against the rows [start, start + v) of a vocabulary. */

#include "kernels/kernels.h"

/* ST_KERNEL_ERANGE if any id is outside [0, total). */
static inline int
vocab_check(const struct st_vocab_args *a, const int32_t *ids)
{
	for (int64_t i = 0; i < a->t * a->b; i++)
		if (ids[i] < 0 || ids[i] >= a->total)
			return ST_KERNEL_ERANGE;
	return ST_KERNEL_OK;
}

/* Columns of logits, rows of a table, that are not padding. */
static inline int64_t
vocab_valid(const struct st_vocab_args *a)
{
	return a->valid < a->v ? a->valid : a->v;
}

/* The local row of the id at row r = t*B + b, or -1: another rank's. */
static inline int64_t
vocab_row(const struct st_vocab_args *a, const int32_t *ids, int64_t r)
{
	int64_t row = ids[r % a->b * a->t + r / a->b] - a->start;

	return row >= 0 && row < vocab_valid(a) ? row : -1;
}

#endif
