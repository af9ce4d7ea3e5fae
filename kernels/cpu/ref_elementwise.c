/* Reference: element by element, with and without broadcasting. */

#include "kernels/cpu/ref.h"

#include <math.h>

static const double SQRT_2_OVER_PI = 0.79788456080286535588;
static const double SQRT_1_OVER_2 = 0.70710678118654752440;
static const double SQRT_1_OVER_2PI = 0.39894228040143267794;
static const double GELU_CUBIC = 0.044715;

int
st_ref_add(const struct st_kernel *k)
{
	const struct st_broadcast_args *s = &k->broadcast;
	struct ref a = ref_of(k, 0), b = ref_of(k, 1), y = ref_of(k, 2);
	int64_t i = 0;

	if (!ref_supports(k->dtype))
		return ST_KERNEL_EDTYPE;
	for (int64_t p = 0; p < s->p; p++)
		for (int64_t q = 0; q < s->q; q++)
			for (int64_t r = 0; r < s->r; r++, i++)
				put(y, i,
				    get(a, i) + get(b, p * s->sp + q * s->sq +
							       r * s->sr));
	return ST_KERNEL_OK;
}

/* The sum over the axes that y does not have, at (p, q, r) of y. */
static double
reduced(const struct st_broadcast_args *s, struct ref a, int64_t p0,
	int64_t q0, int64_t r0)
{
	int64_t p1 = s->sp ? p0 + 1 : s->p;
	int64_t q1 = s->sq ? q0 + 1 : s->q;
	int64_t r1 = s->sr ? r0 + 1 : s->r;
	double sum = 0;

	for (int64_t p = p0; p < p1; p++)
		for (int64_t q = q0; q < q1; q++)
			for (int64_t r = r0; r < r1; r++)
				sum += get(a, (p * s->q + q) * s->r + r);
	return sum;
}

int
st_ref_reduce_sum(const struct st_kernel *k)
{
	const struct st_broadcast_args *s = &k->broadcast;
	struct ref a = ref_of(k, 0), y = ref_of(k, 1);
	int64_t pn = s->sp ? s->p : 1;
	int64_t qn = s->sq ? s->q : 1;
	int64_t rn = s->sr ? s->r : 1;

	if (!ref_supports(k->dtype))
		return ST_KERNEL_EDTYPE;
	for (int64_t i = 0; i < s->count; i++)
		put(y, i, 0);
	for (int64_t p = 0; p < pn; p++)
		for (int64_t q = 0; q < qn; q++)
			for (int64_t r = 0; r < rn; r++)
				put(y, p * s->sp + q * s->sq + r * s->sr,
				    reduced(s, a, p, q, r));
	return ST_KERNEL_OK;
}

int
st_ref_sum(const struct st_kernel *k)
{
	int n = k->elementwise.operands;
	struct ref y = ref_of(k, n);

	if (!ref_supports(k->dtype))
		return ST_KERNEL_EDTYPE;
	for (int64_t i = 0; i < k->elementwise.count; i++) {
		double sum = 0;

		for (int j = 0; j < n; j++)
			sum += get(ref_of(k, j), i);
		put(y, i, sum);
	}
	return ST_KERNEL_OK;
}

int
st_ref_scale(const struct st_kernel *k)
{
	struct ref x = ref_of(k, 0), y = ref_of(k, 1);

	if (!ref_supports(k->dtype))
		return ST_KERNEL_EDTYPE;
	for (int64_t i = 0; i < k->elementwise.count; i++)
		put(y, i, k->elementwise.factor * get(x, i));
	return ST_KERNEL_OK;
}

static double
sigmoid(double x)
{
	return 1 / (1 + exp(-x));
}

static double
activate(int kind, double x)
{
	switch (kind) {
	case ST_GELU_TANH:
		return 0.5 * x *
		       (1 + tanh(SQRT_2_OVER_PI *
				 (x + GELU_CUBIC * x * x * x)));
	case ST_GELU_ERF: return 0.5 * x * (1 + erf(x * SQRT_1_OVER_2));
	case ST_RELU: return x > 0 ? x : 0;
	default: return x * sigmoid(x);
	}
}

static double
gelu_tanh_slope(double x)
{
	double t = tanh(SQRT_2_OVER_PI * (x + GELU_CUBIC * x * x * x));
	double inner = SQRT_2_OVER_PI * (1 + 3 * GELU_CUBIC * x * x);

	return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner;
}

static double
silu_slope(double x)
{
	double s = sigmoid(x);

	return s * (1 + x * (1 - s));
}

static double
slope(int kind, double x)
{
	switch (kind) {
	case ST_GELU_TANH: return gelu_tanh_slope(x);
	case ST_GELU_ERF:
		return 0.5 * (1 + erf(x * SQRT_1_OVER_2)) +
		       x * SQRT_1_OVER_2PI * exp(-0.5 * x * x);
	case ST_RELU: return x > 0;
	default: return silu_slope(x);
	}
}

int
st_ref_activation(const struct st_kernel *k)
{
	struct ref x = ref_of(k, 0), y = ref_of(k, 1);

	if (!ref_supports(k->dtype))
		return ST_KERNEL_EDTYPE;
	for (int64_t i = 0; i < k->elementwise.count; i++)
		put(y, i, activate(k->elementwise.kind, get(x, i)));
	return ST_KERNEL_OK;
}

int
st_ref_activation_grad(const struct st_kernel *k)
{
	struct ref x = ref_of(k, 0), dy = ref_of(k, 1), dx = ref_of(k, 2);

	if (!ref_supports(k->dtype))
		return ST_KERNEL_EDTYPE;
	for (int64_t i = 0; i < k->elementwise.count; i++)
		put(dx, i, get(dy, i) * slope(k->elementwise.kind, get(x, i)));
	return ST_KERNEL_OK;
}

int
st_ref_swiglu(const struct st_kernel *k)
{
	struct ref gate = ref_of(k, 0), up = ref_of(k, 1), y = ref_of(k, 2);

	if (!ref_supports(k->dtype))
		return ST_KERNEL_EDTYPE;
	for (int64_t i = 0; i < k->elementwise.count; i++)
		put(y, i, activate(ST_SILU, get(gate, i)) * get(up, i));
	return ST_KERNEL_OK;
}

int
st_ref_swiglu_grad(const struct st_kernel *k)
{
	struct ref gate = ref_of(k, 0), up = ref_of(k, 1), dy = ref_of(k, 2);
	struct ref dgate = ref_of(k, 3), dup = ref_of(k, 4);

	if (!ref_supports(k->dtype))
		return ST_KERNEL_EDTYPE;
	for (int64_t i = 0; i < k->elementwise.count; i++) {
		double g = get(gate, i), u = get(up, i), d = get(dy, i);

		put(dgate, i, d * u * silu_slope(g));
		put(dup, i, d * activate(ST_SILU, g));
	}
	return ST_KERNEL_OK;
}
