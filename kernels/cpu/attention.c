/*
 * Causal attention: softmax and product in one sweep over the keys.
 *
 * For a tile of queries the state is the maximum m and the sum s of each
 * query's exponentials so far, and the unnormalised output, transposed.  A
 * block of keys that raises a maximum scales the old state down.  The last
 * blocks, on the diagonal, are narrow, so that few masked scores are made.
 */

#include "kernels/cpu/attention.h"

struct forward {
	float q[CHANNELS * QUERIES];   /* transposed and scaled */
	float out[CHANNELS * QUERIES]; /* transposed */
	float p[KEYS * QUERIES];       /* [key][query] scores, exponentials */
	float m[QUERIES], s[QUERIES];
};

/* Keys [j, j + n) against queries from column `from` on; masked scores are
 * -inf.  first: position of the tile's column 0. */
static void
scores(struct forward *f, struct rows k, int64_t j, int64_t n, int64_t d,
       int64_t first, int64_t from)
{
	struct product g = {
		.m = n, .n = QUERIES - from, .k = d,
		.a = k.at + j * k.stride, .a_row = k.stride, .a_col = 1,
		.b = f->q + from, .ldb = QUERIES,
		.c = f->p + from, .ldc = QUERIES, .set = 1,
	};

	product(&g);
	for (int64_t i = 0; i < n; i++)
		for (int64_t t = from; t < j + i - first; t++)
			f->p[i * QUERIES + t] = -INFINITY;
}

/* Scores of n keys become exponentials; the state follows. */
static void
softmax(struct forward *f, int64_t n, int64_t d, int64_t from)
{
	for (int64_t t = from; t < QUERIES; t += LANES) {
		float *p = f->p + t;
		vfloat old = vload(f->m + t, LANES), m = old;
		vfloat sum = {0}, shrink;

		for (int64_t i = 0; i < n; i++)
			m = vmax(vload(p + i * QUERIES, LANES), m);
		for (int64_t i = 0; i < n; i++) {
			vfloat e = vexp(vload(p + i * QUERIES, LANES) - m);

			vstore(p + i * QUERIES, e, LANES);
			sum += e;
		}
		shrink = vexp(old - m);
		vstore(f->m + t, m, LANES);
		vstore(f->s + t, vload(f->s + t, LANES) * shrink + sum, LANES);
		for (int64_t i = 0; i < d; i++) {
			float *out = f->out + i * QUERIES + t;

			vstore(out, vload(out, LANES) * shrink, LANES);
		}
	}
}

static void
add_values(struct forward *f, struct rows v, int64_t j, int64_t n, int64_t d,
	   int64_t from)
{
	struct product g = {
		.m = d, .n = QUERIES - from, .k = n,
		.a = v.at + j * v.stride, .a_row = 1, .a_col = v.stride,
		.b = f->p + from, .ldb = QUERIES,
		.c = f->out + from, .ldc = QUERIES,
	};

	product(&g);
}

static void
finish(const struct attention *n, const struct forward *f, int64_t first,
       int64_t count, int64_t b, int64_t h)
{
	const struct st_attention_args *a = n->a;

	for (int64_t t = 0; t < count; t++) {
		int64_t row = (first + t) * a->b + b;
		float *out = n->out + row * a->ldo + h * a->d;
		float over = 1 / f->s[t];

		for (int64_t i = 0; i < a->d; i++)
			out[i] = f->out[i * QUERIES + t] * over;
		n->out_lse[row * a->kv_heads * a->group + h] =
			f->m[t] + logf(f->s[t]);
	}
}

static void
forward_tile(const struct attention *n, int64_t first, int64_t b, int64_t h)
{
	const struct st_attention_args *a = n->a;
	int64_t count = a->t - first < QUERIES ? a->t - first : QUERIES;
	struct rows q = rows_of(a, n->q, a->ldq, b, h);
	struct rows k = rows_of(a, n->k, a->ldk, b, h / a->group);
	struct rows v = rows_of(a, n->v, a->ldv, b, h / a->group);
	struct forward f;

	transpose(q, first, count, a->d, (float)a->scale, f.q);
	for (int t = 0; t < QUERIES; t++) {
		f.m[t] = -INFINITY;
		f.s[t] = 0;
	}
	memset(f.out, 0, (size_t)a->d * QUERIES * sizeof(float));
	for (int64_t j = 0; j < first + count;) {
		struct block block = next_block(j, first, count);

		scores(&f, k, j, block.keys, a->d, first, block.from);
		softmax(&f, block.keys, a->d, block.from);
		add_values(&f, v, j, block.keys, a->d, block.from);
		j += block.keys;
	}
	finish(n, &f, first, count, b, h);
}

static int
forward(const struct attention *n)
{
	const struct st_attention_args *a = n->a;

	for (int64_t b = 0; b < a->b; b++)
		for (int64_t h = 0; h < a->kv_heads * a->group; h++)
			for (int64_t t = 0; t < a->t; t += QUERIES)
				forward_tile(n, t, b, h);
	return ST_KERNEL_OK;
}

int
FAST(attention)(const struct st_kernel *k)
{
	struct attention n = {
		.a = &k->attention, .q = k->ptr[0], .k = k->ptr[1],
		.v = k->ptr[2], .out = k->ptr[3], .out_lse = k->ptr[4],
	};

	if (n.a->d > CHANNELS)
		return st_ref_attention(k);
	return forward(&n);
}

int
FAST(attention_qkv)(const struct st_kernel *k)
{
	const float *qkv = k->ptr[0];
	struct attention n = {
		.a = &k->attention, .q = qkv,
		.k = qkv + joint_key(&k->attention),
		.v = qkv + joint_value(&k->attention),
		.out = k->ptr[1], .out_lse = k->ptr[2],
	};

	if (n.a->d > CHANNELS)
		return st_ref_attention_qkv(k);
	return forward(&n);
}
