/*
 * Gradient of causal attention: probabilities are made again from lse, a
 * tile of queries at a time, and used for dq, dk and dv at once.
 *
 * [key][query] tiles: p = exp(k q^T - lse), ds = p (v do^T - D), where D is
 * the sum of do o of a query.  dq stays in the tile, transposed; dk and dv
 * grow where they lie, tile after tile and head after head of the group, in
 * one fixed order.
 */

#include "kernels/cpu/attention.h"

struct backward {
	float q[CHANNELS * QUERIES];    /* transposed and scaled */
	float dout[CHANNELS * QUERIES]; /* transposed */
	float dq[CHANNELS * QUERIES];   /* transposed */
	float p[KEYS * QUERIES], ds[KEYS * QUERIES];
	float lse[QUERIES], sum[QUERIES]; /* sum: D */
};

/* The rows of one head's tensors that a tile works with. */
struct head {
	struct rows q, k, v, o, dout;
	float *dk, *dv;
	int64_t dk_stride, dv_stride;
};

static struct head
head_of(const struct attention *n, int64_t b, int64_t h)
{
	const struct st_attention_args *a = n->a;
	int64_t kv = h / a->group;
	struct head head = {
		.q = rows_of(a, n->q, a->ldq, b, h),
		.k = rows_of(a, n->k, a->ldk, b, kv),
		.v = rows_of(a, n->v, a->ldv, b, kv),
		.o = rows_of(a, n->o, a->ldo, b, h),
		.dout = rows_of(a, n->dout, a->ldo, b, h),
		.dk = n->dk + b * a->ldk + kv * a->d,
		.dv = n->dv + b * a->ldv + kv * a->d,
		.dk_stride = a->b * a->ldk,
		.dv_stride = a->b * a->ldv,
	};

	return head;
}

static void
prepare(struct backward *f, const struct attention *n, const struct head *head,
	int64_t first, int64_t count, int64_t b, int64_t h)
{
	const struct st_attention_args *a = n->a;
	int64_t heads = a->kv_heads * a->group;

	transpose(head->q, first, count, a->d, (float)a->scale, f->q);
	transpose(head->dout, first, count, a->d, 1, f->dout);
	memset(f->dq, 0, (size_t)a->d * QUERIES * sizeof(float));
	memset(f->lse, 0, sizeof(f->lse));
	memset(f->sum, 0, sizeof(f->sum));
	for (int64_t t = 0; t < count; t++) {
		const float *o = row_at(head->o, first + t);
		const float *dout = row_at(head->dout, first + t);

		f->lse[t] = n->lse[((first + t) * a->b + b) * heads + h];
		f->sum[t] = dot(o, dout, a->d);
	}
}

/* c[keys x queries] = x[keys x d] y[d x queries] */
static void
against(struct rows x, int64_t j, int64_t n, int64_t d, const float *y,
	int64_t from, float *c)
{
	struct product g = {
		.m = n, .n = QUERIES - from, .k = d,
		.a = x.at + j * x.stride, .a_row = x.stride, .a_col = 1,
		.b = y + from, .ldb = QUERIES,
		.c = c + from, .ldc = QUERIES, .set = 1,
	};

	product(&g);
}

/* Scores and v do^T become probabilities and ds. */
static void
softmax_grad(struct backward *f, int64_t j, int64_t n, int64_t first,
	     int64_t from)
{
	for (int64_t i = 0; i < n; i++) {
		float *p = f->p + i * QUERIES, *ds = f->ds + i * QUERIES;

		for (int64_t t = from; t < j + i - first; t++)
			p[t] = -INFINITY;
		for (int64_t t = from; t < QUERIES; t += LANES) {
			vfloat e = vexp(vload(p + t, LANES) -
					vload(f->lse + t, LANES));

			vstore(p + t, e, LANES);
			e *= vload(ds + t, LANES) - vload(f->sum + t, LANES);
			vstore(ds + t, e, LANES);
		}
	}
}

/* y[keys x d] += x[keys x queries] rows[queries x d] */
static void
add_rows(const float *x, int64_t n, int64_t from, int64_t queries,
	 struct rows rows, int64_t first, int64_t d, float *y, int64_t stride)
{
	struct product g = {
		.m = n, .n = d, .k = queries - from,
		.a = x + from, .a_row = QUERIES, .a_col = 1,
		.b = row_at(rows, first + from), .ldb = rows.stride,
		.c = y, .ldc = stride,
	};

	product(&g);
}

static void
add_keys(struct backward *f, struct rows k, int64_t j, int64_t n, int64_t d,
	 int64_t from)
{
	struct product g = {
		.m = d, .n = QUERIES - from, .k = n,
		.a = row_at(k, j), .a_row = 1, .a_col = k.stride,
		.b = f->ds + from, .ldb = QUERIES,
		.c = f->dq + from, .ldc = QUERIES,
	};

	product(&g);
}

static void
store_queries(const struct attention *n, const struct backward *f,
	      int64_t first, int64_t count, int64_t b, int64_t h)
{
	const struct st_attention_args *a = n->a;

	for (int64_t t = 0; t < count; t++) {
		int64_t row = (first + t) * a->b + b;
		float *dq = n->dq + row * a->ldq + h * a->d;

		for (int64_t i = 0; i < a->d; i++)
			dq[i] = (float)a->scale * f->dq[i * QUERIES + t];
	}
}

/* q in memory is not scaled, so dk is, once all tiles have added to it. */
static void
backward_tile(const struct attention *n, int64_t first, int64_t b, int64_t h)
{
	int64_t t = n->a->t, d = n->a->d;
	int64_t count = t - first < QUERIES ? t - first : QUERIES;
	struct head head = head_of(n, b, h);
	struct backward f;

	prepare(&f, n, &head, first, count, b, h);
	for (int64_t j = 0; j < first + count;) {
		struct block block = next_block(j, first, count);
		int64_t keys = block.keys, from = block.from;

		against(head.k, j, keys, d, f.q, from, f.p);
		against(head.v, j, keys, d, f.dout, from, f.ds);
		softmax_grad(&f, j, keys, first, from);
		add_rows(f.p, keys, from, count, head.dout, first, d,
			 head.dv + j * head.dv_stride, head.dv_stride);
		add_rows(f.ds, keys, from, count, head.q, first, d,
			 head.dk + j * head.dk_stride, head.dk_stride);
		add_keys(&f, head.k, j, keys, d, from);
		j += keys;
	}
	store_queries(n, &f, first, count, b, h);
}

/* One key/value head of one sequence: dk and dv from zero, then by factor. */
static void
clear_head(const struct attention *n, int64_t b, int64_t kv)
{
	const struct st_attention_args *a = n->a;
	size_t bytes = (size_t)a->d * sizeof(float);

	for (int64_t row = b; row < a->t * a->b; row += a->b) {
		memset(n->dk + row * a->ldk + kv * a->d, 0, bytes);
		memset(n->dv + row * a->ldv + kv * a->d, 0, bytes);
	}
}

static void
scale_head(const struct attention *n, int64_t b, int64_t kv)
{
	const struct st_attention_args *a = n->a;

	for (int64_t row = b; row < a->t * a->b; row += a->b) {
		float *dk = n->dk + row * a->ldk + kv * a->d;

		for (int64_t i = 0; i < a->d; i++)
			dk[i] *= (float)a->scale;
	}
}

static int
backward(const struct attention *n)
{
	const struct st_attention_args *a = n->a;

	for (int64_t b = 0; b < a->b; b++) {
		for (int64_t kv = 0; kv < a->kv_heads; kv++) {
			int64_t h = kv * a->group, end = h + a->group;

			clear_head(n, b, kv);
			for (; h < end; h++)
				for (int64_t t = 0; t < a->t; t += QUERIES)
					backward_tile(n, t, b, h);
			scale_head(n, b, kv);
		}
	}
	return ST_KERNEL_OK;
}

int
FAST(attention_grad)(const struct st_kernel *k)
{
	struct attention n = {
		.a = &k->attention, .q = k->ptr[0], .k = k->ptr[1],
		.v = k->ptr[2], .o = k->ptr[3], .lse = k->ptr[4],
		.dout = k->ptr[5], .dq = k->ptr[6], .dk = k->ptr[7],
		.dv = k->ptr[8],
	};

	if (n.a->d > CHANNELS)
		return st_ref_attention_grad(k);
	return backward(&n);
}

int
FAST(attention_qkv_grad)(const struct st_kernel *k)
{
	int64_t key = joint_key(&k->attention);
	int64_t value = joint_value(&k->attention);
	const float *qkv = k->ptr[0];
	float *dqkv = k->ptr[4];
	struct attention n = {
		.a = &k->attention, .q = qkv, .k = qkv + key,
		.v = qkv + value, .o = k->ptr[1], .lse = k->ptr[2],
		.dout = k->ptr[3], .dq = dqkv, .dk = dqkv + key,
		.dv = dqkv + value,
	};

	if (n.a->d > CHANNELS)
		return st_ref_attention_qkv_grad(k);
	return backward(&n);
}
