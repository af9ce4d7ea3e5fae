/* Embedding and cross-entropy over a slice of a vocabulary. */

#include "kernels/cpu/vocab.h"

#include "kernels/cpu/vector.h"

int
FAST(embedding)(const struct st_kernel *k)
{
	const struct st_vocab_args *a = &k->vocab;
	const int32_t *tokens = k->ptr[0];
	const float *w = k->ptr[1];
	float *x = k->ptr[2];
	size_t bytes = (size_t)a->c * sizeof(*x);

	if (vocab_check(a, tokens))
		return ST_KERNEL_ERANGE;
	for (int64_t r = 0; r < a->t * a->b; r++, x += a->c) {
		int64_t row = vocab_row(a, tokens, r);

		if (row < 0)
			memset(x, 0, bytes);
		else
			memcpy(x, w + row * a->c, bytes);
	}
	return ST_KERNEL_OK;
}

static void
add_to(float *y, const float *x, int64_t n)
{
	ANY_ORDER
	for (int64_t i = 0; i < n; i++)
		y[i] += x[i];
}

int
FAST(embedding_grad)(const struct st_kernel *k)
{
	const struct st_vocab_args *a = &k->vocab;
	const int32_t *tokens = k->ptr[0];
	const float *dx = k->ptr[1];
	float *dw = k->ptr[2];

	if (vocab_check(a, tokens))
		return ST_KERNEL_ERANGE;
	memset(dw, 0, (size_t)(a->v * a->c) * sizeof(*dw));
	for (int64_t r = 0; r < a->t * a->b; r++) {
		int64_t row = vocab_row(a, tokens, r);

		if (row >= 0)
			add_to(dw + row * a->c, dx + r * a->c, a->c);
	}
	return ST_KERNEL_OK;
}

/* A NaN among x must come out: it stays in `bad`, which is 0 else. */
static float
row_max(const float *x, int64_t n)
{
	vfloat even = vsplat(-INFINITY), odd = even, bad = {0};
	float most = -INFINITY;

	for (int64_t i = 0; i < n; i += 2 * LANES) {
		vfloat a = vload_or(x + i, n - i, -INFINITY);
		vfloat b = vload_or(x + i + LANES, n - i - LANES, -INFINITY);

		bad = vselect((a != a) | (b != b), a + b, bad);
		even = vmax(a, even);
		odd = vmax(b, odd);
	}
	even = vmax(even, odd) + bad;
	for (int i = 0; i < LANES; i++)
		if (even[i] > most || even[i] != even[i])
			most = even[i];
	return most;
}

static float
row_exp_sum(const float *x, int64_t n, float m)
{
	vfloat even = {0}, odd = {0};

	for (int64_t i = 0; i < n; i += 2 * LANES) {
		vfloat a = vload_or(x + i, n - i, -INFINITY);
		vfloat b = vload_or(x + i + LANES, n - i - LANES, -INFINITY);

		even += vexp(a - m);
		odd += vexp(b - m);
	}
	return vsum(even + odd);
}

static void
row_softmax(const float *x, float *y, int64_t n, float m, float factor)
{
	for (int64_t i = 0; i < n; i += LANES)
		vstore(y + i, factor * vexp(vload(x + i, n - i) - m), n - i);
}

int
FAST(xent_max)(const struct st_kernel *k)
{
	const struct st_vocab_args *a = &k->vocab;
	const float *logits = k->ptr[0];
	float *m = k->ptr[1];

	for (int64_t r = 0; r < a->t * a->b; r++)
		m[r] = row_max(logits + r * a->v, vocab_valid(a));
	return ST_KERNEL_OK;
}

int
FAST(xent_sum)(const struct st_kernel *k)
{
	const struct st_vocab_args *a = &k->vocab;
	const float *logits = k->ptr[0], *m = k->ptr[2];
	const int32_t *targets = k->ptr[1];
	float *s = k->ptr[3], *z = k->ptr[4];

	if (vocab_check(a, targets))
		return ST_KERNEL_ERANGE;
	for (int64_t r = 0; r < a->t * a->b; r++, logits += a->v) {
		int64_t target = vocab_row(a, targets, r);

		z[r] = target < 0 ? 0 : logits[target];
		s[r] = m[r] == -INFINITY
			       ? 0
			       : row_exp_sum(logits, vocab_valid(a), m[r]);
	}
	return ST_KERNEL_OK;
}

static void
grad_row(const struct st_vocab_args *a, const float *logits, float *dlogits,
	 int64_t target, float m, float s)
{
	int64_t valid = vocab_valid(a);
	size_t padding = (size_t)(a->v - valid);

	if (s == 0)
		memset(dlogits, 0, (size_t)valid * sizeof(*dlogits));
	else
		row_softmax(logits, dlogits, valid, m,
			    (float)(a->factor / (double)s));
	memset(dlogits + valid, 0, padding * sizeof(*dlogits));
	if (target >= 0)
		dlogits[target] -= (float)a->factor;
}

int
FAST(xent_grad)(const struct st_kernel *k)
{
	const struct st_vocab_args *a = &k->vocab;
	const float *logits = k->ptr[0], *m = k->ptr[2], *s = k->ptr[3];
	const int32_t *targets = k->ptr[1];
	float *dlogits = k->ptr[4];

	if (vocab_check(a, targets))
		return ST_KERNEL_ERANGE;
	for (int64_t r = 0; r < a->t * a->b; r++)
		grad_row(a, logits + r * a->v, dlogits + r * a->v,
			 vocab_row(a, targets, r), m[r], s[r]);
	return ST_KERNEL_OK;
}
