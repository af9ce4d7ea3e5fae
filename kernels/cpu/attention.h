#ifndef ST_KERNELS_CPU_ATTENTION_H
#define ST_KERNELS_CPU_ATTENTION_H

/*
 * What the forward and the backward attention share.
 *
 * A tile is QUERIES query positions of one head and sequence; its queries
 * are the lanes.  So the score tile is kept transposed, [key][query]: the
 * softmax needs no sum across lanes, and keys and values are read where they
 * lie, an element at a time, without packing.  Only the tile's own rows of q
 * (and of do) are transposed, once.
 */

#include "kernels/cpu/vector.h"

/* Of a product that stays in registers: 16 accumulators where there are 32
 * registers, 12 where there are 16. */
#if defined(__AVX512F__) || defined(__aarch64__)
enum { ROWS = 8, VECTORS = 2 };
#else
enum { ROWS = 6, VECTORS = 2 };
#endif

enum {
	QUERIES = 64,
	KEYS = 64,     /* of a block before the diagonal */
	DIAGONAL = 16, /* of a block on it; whole vectors */
	CHANNELS = 256, /* the widest head; wider ones go to the reference */
};

/* Operands of all positions; rows of one sequence lie `b * ld` apart. */
struct attention {
	const struct st_attention_args *a;
	const float *q, *k, *v, *o, *lse, *dout;
	float *out, *out_lse, *dq, *dk, *dv;
};

/* One head of one sequence: where it begins and how far to the next row. */
struct rows {
	const float *at;
	int64_t stride;
};

static inline struct rows
rows_of(const struct st_attention_args *a, const float *x, int64_t ld,
	int64_t b, int64_t head)
{
	struct rows rows = {x + b * ld + head * a->d, a->b * ld};

	return rows;
}

static inline const float *
row_at(struct rows rows, int64_t t)
{
	return rows.at + t * rows.stride;
}

/* Where k and v begin in a row that holds q, k and v. */
static inline int64_t
joint_key(const struct st_attention_args *a)
{
	return a->kv_heads * a->group * a->d;
}

static inline int64_t
joint_value(const struct st_attention_args *a)
{
	return joint_key(a) + a->kv_heads * a->d;
}

/* The keys that a tile takes next, and the first column that sees one. */
struct block {
	int64_t keys, from;
};

/* Wide blocks before the diagonal, narrow ones on it.  j: the first key;
 * first, count: the tile's queries. */
static inline struct block
next_block(int64_t j, int64_t first, int64_t count)
{
	struct block block = {0, 0};

	if (j < first) {
		block.keys = first - j < KEYS ? first - j : KEYS;
	} else {
		block.keys = first + count - j;
		if (block.keys > DIAGONAL)
			block.keys = DIAGONAL;
		block.from = (j - first) / DIAGONAL * DIAGONAL;
	}
	return block;
}

INLINE float
dot(const float *x, const float *y, int64_t n)
{
	vfloat sum = {0};

	for (int64_t i = 0; i < n; i += LANES)
		sum += vload(x + i, n - i) * vload(y + i, n - i);
	return vsum(sum);
}

/* y[i][t] = factor * x[first + t][i] for t < n; further queries are 0. */
static inline void
transpose(struct rows x, int64_t first, int64_t n, int64_t d, float factor,
	  float *y)
{
	for (int64_t t = 0; t < n; t++) {
		const float *row = row_at(x, first + t);

		for (int64_t i = 0; i < d; i++)
			y[i * QUERIES + t] = factor * row[i];
	}
	for (int64_t i = 0; i < d; i++)
		for (int64_t t = n; t < QUERIES; t++)
			y[i * QUERIES + t] = 0;
}

/*
 * c[m x n] += a[m x k] b[k x n], or = where `set`.  Element (i, l) of a is
 * at i * a_row + l * a_col; rows of b and c are contiguous.
 */
struct product {
	int64_t m, n, k;
	const float *a;
	int64_t a_row, a_col;
	const float *b;
	int64_t ldb;
	float *c;
	int64_t ldc;
	int set;
};

/* `rows` x `vectors` of c in registers, the last vector cut off at `left`
 * columns; all but i and j are constants when inlined. */
INLINE void
product_block(const struct product *g, int64_t i, int64_t j, int rows,
	      int vectors, int64_t left)
{
	const float *a = g->a + i * g->a_row, *b = g->b + j;
	float *c = g->c + i * g->ldc + j;
	vfloat sum[ROWS][VECTORS], x[VECTORS];

	for (int r = 0; r < rows; r++)
		for (int s = 0; s < vectors; s++)
			sum[r][s] = vsplat(0);
	for (int64_t l = 0; l < g->k; l++) {
		for (int s = 0; s < vectors; s++)
			x[s] = vload(b + l * g->ldb + s * LANES,
				     left - s * LANES);
		for (int r = 0; r < rows; r++)
			for (int s = 0; s < vectors; s++)
				sum[r][s] += a[r * g->a_row + l * g->a_col] *
					     x[s];
	}
	for (int r = 0; r < rows; r++) {
		for (int s = 0; s < vectors; s++) {
			float *at = c + r * g->ldc + s * LANES;
			int64_t rest = left - s * LANES;

			if (!g->set)
				sum[r][s] += vload(at, rest);
			vstore(at, sum[r][s], rest);
		}
	}
}

INLINE void
product_columns(const struct product *g, int64_t j, int vectors, int64_t left)
{
	int64_t i = 0;

	for (; i + ROWS <= g->m; i += ROWS)
		product_block(g, i, j, ROWS, vectors, left);
	for (; i + 4 <= g->m; i += 4)
		product_block(g, i, j, 4, vectors, left);
	for (; i < g->m; i++)
		product_block(g, i, j, 1, vectors, left);
}

static inline void
product(const struct product *g)
{
	int64_t j = 0;

	for (; j + VECTORS * LANES <= g->n; j += VECTORS * LANES)
		product_columns(g, j, VECTORS, VECTORS * LANES);
	for (; j + LANES <= g->n; j += LANES)
		product_columns(g, j, 1, LANES);
	if (j < g->n)
		product_columns(g, j, 1, g->n - j);
}

#endif
