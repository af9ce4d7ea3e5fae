/* Gradient norm and AdamW. */

#include "kernels/cpu/vector.h"

enum { BLOCK = 4096 }; /* floats before a double takes over */

static double
square_sum(const float *x, int64_t n)
{
	double total = 0;

	for (int64_t first = 0; first < n; first += BLOCK) {
		int64_t end = n - first < BLOCK ? n : first + BLOCK;
		vfloat even = {0}, odd = {0};

		for (int64_t i = first; i < end; i += 2 * LANES) {
			vfloat a = vload(x + i, end - i);
			vfloat b = vload(x + i + LANES, end - i - LANES);

			even += a * a;
			odd += b * b;
		}
		total += (double)vsum(even + odd);
	}
	return total;
}

int
FAST(sumsq)(const struct st_kernel *k)
{
	float *s = k->ptr[1];

	*s = (float)square_sum(k->ptr[0], k->optimizer.count);
	return ST_KERNEL_OK;
}

struct adamw {
	const float *w, *g, *m, *v;
	float *w_next, *m_next, *v_next;
	float coefficient, beta1, rest1, beta2, rest2;
	float m_scale, v_scale; /* 1 / (1 - beta^t) */
	float epsilon, lr, keep; /* keep = 1 - lr decay */
};

static void
adamw(const struct adamw *a, int64_t n)
{
	for (int64_t i = 0; i < n; i += LANES) {
		int64_t left = n - i;
		vfloat g = vload(a->g + i, left) * a->coefficient;
		vfloat m = vload(a->m + i, left) * a->beta1 + g * a->rest1;
		vfloat v = vload(a->v + i, left) * a->beta2 +
			   g * g * a->rest2;
		vfloat w = vload(a->w + i, left) * a->keep;
		vfloat root = vsqrt(v * a->v_scale) + a->epsilon;

		w -= a->lr * (m * a->m_scale / root);
		vstore(a->w_next + i, w, left);
		vstore(a->m_next + i, m, left);
		vstore(a->v_next + i, v, left);
	}
}

int
FAST(adamw)(const struct st_kernel *k)
{
	const struct st_optimizer_args *o = &k->optimizer;
	const float *coefficient = k->ptr[4], *lr = k->ptr[5];
	const int32_t *t = k->ptr[6];
	struct adamw a = {
		.w = k->ptr[0], .g = k->ptr[1], .m = k->ptr[2],
		.v = k->ptr[3], .w_next = k->ptr[7], .m_next = k->ptr[8],
		.v_next = k->ptr[9],
		.beta1 = (float)o->beta1, .rest1 = (float)(1 - o->beta1),
		.beta2 = (float)o->beta2, .rest2 = (float)(1 - o->beta2),
		.epsilon = (float)o->epsilon,
	};

	a.coefficient = *coefficient;
	a.lr = *lr;
	a.keep = (float)(1 - (double)*lr * o->decay);
	a.m_scale = (float)(1 / (1 - pow(o->beta1, *t)));
	a.v_scale = (float)(1 / (1 - pow(o->beta2, *t)));
	adamw(&a, o->count);
	return ST_KERNEL_OK;
}
