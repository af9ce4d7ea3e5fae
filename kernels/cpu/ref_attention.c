/*
 * Reference: rotary embedding and causal attention.
 *
 * With p = softmax(scale q k^T) and D = sum(do o) of a query's row:
 *   dv_j = sum_t p_tj do_t
 *   ds_tj = p_tj (do_t v_j - D_t)
 *   dq_t = scale sum_j ds_tj k_j,   dk_j = scale sum_t ds_tj q_t.
 * Sums run over a tile of the head's channels; a head wider than the tile
 * computes its scores again for each.
 */

#include "kernels/cpu/ref.h"

#include <math.h>

enum { TILE = 256 };

int
st_ref_rope(const struct st_kernel *k)
{
	const struct st_rope_args *a = &k->rope;
	struct ref x = ref_of(k, 0), y = ref_of(k, 1);
	int64_t half = a->d / 2, at = 0;

	if (!ref_supports(k->dtype))
		return ST_KERNEL_EDTYPE;
	for (int64_t n = 0; n < a->t * a->b * a->heads; n++, at += a->d) {
		int64_t t = n / (a->b * a->heads) + a->start;

		for (int64_t i = 0; i < half; i++) {
			double angle = (double)t *
				       pow(a->theta, -2.0 * (double)i /
							     (double)a->d);
			double c = cos(angle);
			double s = a->inverse ? -sin(angle) : sin(angle);
			double u = get(x, at + i), v = get(x, at + half + i);

			put(y, at + i, u * c - v * s);
			put(y, at + half + i, v * c + u * s);
		}
	}
	return ST_KERNEL_OK;
}

struct attention {
	const struct st_attention_args *a;
	struct ref q, k, v, o, lse;
	struct ref dout, dq, dk, dv;
};

static int64_t
heads(const struct attention *n)
{
	return n->a->kv_heads * n->a->group;
}

static struct ref
query(const struct attention *n, struct ref q, int64_t t, int64_t b, int64_t h)
{
	return ref_from(q, (t * n->a->b + b) * n->a->ldq + h * n->a->d);
}

static struct ref
key(const struct attention *n, struct ref k, int64_t t, int64_t b, int64_t kv)
{
	return ref_from(k, (t * n->a->b + b) * n->a->ldk + kv * n->a->d);
}

static struct ref
value(const struct attention *n, struct ref v, int64_t t, int64_t b, int64_t kv)
{
	return ref_from(v, (t * n->a->b + b) * n->a->ldv + kv * n->a->d);
}

static struct ref
output(const struct attention *n, struct ref o, int64_t t, int64_t b, int64_t h)
{
	return ref_from(o, (t * n->a->b + b) * n->a->ldo + h * n->a->d);
}

static double
dot(struct ref a, struct ref b, int64_t d)
{
	double sum = 0;

	for (int64_t i = 0; i < d; i++)
		sum += get(a, i) * get(b, i);
	return sum;
}

static double
score(const struct attention *n, int64_t t, int64_t j, int64_t b, int64_t h)
{
	return n->a->scale * dot(query(n, n->q, t, b, h),
				 key(n, n->k, j, b, h / n->a->group), n->a->d);
}

static int64_t
tile_width(const struct attention *n, int64_t first)
{
	return n->a->d - first < TILE ? n->a->d - first : TILE;
}

static void
forward_row(const struct attention *n, int64_t t, int64_t b, int64_t h)
{
	struct ref o = output(n, n->o, t, b, h);
	double m = -INFINITY, s = 0;

	for (int64_t j = 0; j <= t; j++)
		m = fmax(m, score(n, t, j, b, h));
	for (int64_t i = 0; i < n->a->d; i += TILE) {
		int64_t width = tile_width(n, i);
		double sum[TILE] = {0};

		s = 0;
		for (int64_t j = 0; j <= t; j++) {
			struct ref v = value(n, n->v, j, b, h / n->a->group);
			double e = exp(score(n, t, j, b, h) - m);

			s += e;
			for (int64_t c = 0; c < width; c++)
				sum[c] += e * get(v, i + c);
		}
		for (int64_t c = 0; c < width; c++)
			put(o, i + c, sum[c] / s);
	}
	put(n->lse, (t * n->a->b + b) * heads(n) + h, m + log(s));
}

static int
forward(const struct attention *n)
{
	if (!ref_supports(n->q.dtype))
		return ST_KERNEL_EDTYPE;
	for (int64_t t = 0; t < n->a->t; t++)
		for (int64_t b = 0; b < n->a->b; b++)
			for (int64_t h = 0; h < heads(n); h++)
				forward_row(n, t, b, h);
	return ST_KERNEL_OK;
}

/* p_tj and ds_tj */
static void
pair(const struct attention *n, int64_t t, int64_t j, int64_t b, int64_t h,
     double *p, double *ds)
{
	struct ref dout = output(n, n->dout, t, b, h);
	double lse = get(n->lse, (t * n->a->b + b) * heads(n) + h);
	double sum = dot(dout, output(n, n->o, t, b, h), n->a->d);
	struct ref v = value(n, n->v, j, b, h / n->a->group);

	*p = exp(score(n, t, j, b, h) - lse);
	*ds = *p * (dot(dout, v, n->a->d) - sum);
}

static void
grad_query(const struct attention *n, int64_t t, int64_t b, int64_t h)
{
	struct ref dq = query(n, n->dq, t, b, h);

	for (int64_t i = 0; i < n->a->d; i += TILE) {
		int64_t width = tile_width(n, i);
		double sum[TILE] = {0};

		for (int64_t j = 0; j <= t; j++) {
			struct ref k = key(n, n->k, j, b, h / n->a->group);
			double p, ds;

			pair(n, t, j, b, h, &p, &ds);
			for (int64_t c = 0; c < width; c++)
				sum[c] += ds * get(k, i + c);
		}
		for (int64_t c = 0; c < width; c++)
			put(dq, i + c, n->a->scale * sum[c]);
	}
}

/* What query (t, h) adds to one tile of dk_j and dv_j. */
static void
add_to_key(const struct attention *n, int64_t t, int64_t j, int64_t b,
	   int64_t h, int64_t first, double *dk, double *dv)
{
	struct ref q = query(n, n->q, t, b, h);
	struct ref dout = output(n, n->dout, t, b, h);
	double p, ds;

	pair(n, t, j, b, h, &p, &ds);
	for (int64_t c = 0; c < tile_width(n, first); c++) {
		dk[c] += ds * get(q, first + c);
		dv[c] += p * get(dout, first + c);
	}
}

static void
grad_key(const struct attention *n, int64_t j, int64_t b, int64_t kv)
{
	int64_t group = n->a->group;

	for (int64_t i = 0; i < n->a->d; i += TILE) {
		double dk[TILE] = {0}, dv[TILE] = {0};

		for (int64_t h = kv * group; h < (kv + 1) * group; h++)
			for (int64_t t = j; t < n->a->t; t++)
				add_to_key(n, t, j, b, h, i, dk, dv);
		for (int64_t c = 0; c < tile_width(n, i); c++) {
			put(key(n, n->dk, j, b, kv), i + c,
			    n->a->scale * dk[c]);
			put(value(n, n->dv, j, b, kv), i + c, dv[c]);
		}
	}
}

static int
backward(const struct attention *n)
{
	if (!ref_supports(n->q.dtype))
		return ST_KERNEL_EDTYPE;
	for (int64_t t = 0; t < n->a->t; t++) {
		for (int64_t b = 0; b < n->a->b; b++) {
			for (int64_t h = 0; h < heads(n); h++)
				grad_query(n, t, b, h);
			for (int64_t kv = 0; kv < n->a->kv_heads; kv++)
				grad_key(n, t, b, kv);
		}
	}
	return ST_KERNEL_OK;
}

int
st_ref_attention(const struct st_kernel *k)
{
	struct attention n = {
		.a = &k->attention, .q = ref_of(k, 0), .k = ref_of(k, 1),
		.v = ref_of(k, 2), .o = ref_of(k, 3), .lse = ref_wide(k, 4),
	};

	return forward(&n);
}

int
st_ref_attention_grad(const struct st_kernel *k)
{
	struct attention n = {
		.a = &k->attention, .q = ref_of(k, 0), .k = ref_of(k, 1),
		.v = ref_of(k, 2), .o = ref_of(k, 3), .lse = ref_wide(k, 4),
		.dout = ref_of(k, 5), .dq = ref_of(k, 6), .dk = ref_of(k, 7),
		.dv = ref_of(k, 8),
	};

	return backward(&n);
}

/* Where k and v begin in a row that holds q, k and v. */
static struct ref
joint_key(const struct st_kernel *k, int i)
{
	const struct st_attention_args *a = &k->attention;

	return ref_from(ref_of(k, i), a->kv_heads * a->group * a->d);
}

static struct ref
joint_value(const struct st_kernel *k, int i)
{
	const struct st_attention_args *a = &k->attention;

	return ref_from(joint_key(k, i), a->kv_heads * a->d);
}

int
st_ref_attention_qkv(const struct st_kernel *k)
{
	struct attention n = {
		.a = &k->attention, .q = ref_of(k, 0), .k = joint_key(k, 0),
		.v = joint_value(k, 0), .o = ref_of(k, 1),
		.lse = ref_wide(k, 2),
	};

	return forward(&n);
}

int
st_ref_attention_qkv_grad(const struct st_kernel *k)
{
	struct attention n = {
		.a = &k->attention, .q = ref_of(k, 0), .k = joint_key(k, 0),
		.v = joint_value(k, 0), .o = ref_of(k, 1),
		.lse = ref_wide(k, 2), .dout = ref_of(k, 3),
		.dq = ref_of(k, 4), .dk = joint_key(k, 4),
		.dv = joint_value(k, 4),
	};

	return backward(&n);
}
