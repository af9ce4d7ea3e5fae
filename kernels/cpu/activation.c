/*
 * Activations and their gradients, sixteen elements at a time.
 *
 * GELU with tanh is x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3), which
 * loses nothing where tanh is close to -1.
 */

#include "kernels/cpu/vector.h"

static const float TWO_SQRT_2_OVER_PI = 1.5957691216f;
static const float CUBIC = 0.044715f;
static const float SQRT_1_OVER_2PI = 0.3989422804f;

/*
 * The normal distribution function, and exp(-x^2/2).  For z = |x|/sqrt 2:
 * erfc(z) = t P(t) exp(-z^2), t = 1/(1 + 0.4 z); P is a minimax fit with
 * relative error 8e-9 for z up to 10, where erfc has long been 0 in float.
 */
INLINE vfloat
normal_cdf(vfloat x, vfloat *density)
{
	vfloat z = vselect(x < 0, -x, x) * 0.7071067812f;
	vfloat t = 1.0f / (1.0f + 0.4f * z), p, half;

	*density = vexp(-z * z);
	p = t * -0.02959421847f + 0.1980127521f;
	p = p * t - 0.4988108322f;
	p = p * t + 0.5474351211f;
	p = p * t - 0.2843668735f;
	p = p * t + 0.2720665669f;
	p = p * t + 0.1296794128f;
	p = p * t + 0.2149191557f;
	p = p * t + 0.2249520136f;
	p = p * t + 0.2257069097f;
	half = 0.5f * t * p * *density;
	return vselect(x < 0, half, 1.0f - half);
}

INLINE vfloat
value(int kind, vfloat x)
{
	vfloat density;

	switch (kind) {
	case ST_GELU_TANH:
		return x * vsigmoid(TWO_SQRT_2_OVER_PI * x *
				    (1.0f + CUBIC * x * x));
	case ST_GELU_ERF: return x * normal_cdf(x, &density);
	case ST_RELU: return vselect(x > 0, x, vsplat(0));
	default: return x * vsigmoid(x);
	}
}

/* d/dx of x s(u(x)) with s = sigmoid; inner = x du/dx. */
INLINE vfloat
gated_slope(vfloat u, vfloat inner)
{
	vfloat rest, s = vsigmoid_pair(u, &rest);

	return s + s * rest * inner;
}

INLINE vfloat
slope(int kind, vfloat x)
{
	vfloat u, inner, density, cdf;

	switch (kind) {
	case ST_GELU_TANH:
		u = TWO_SQRT_2_OVER_PI * x * (1.0f + CUBIC * x * x);
		inner = TWO_SQRT_2_OVER_PI * x * (1.0f + 3 * CUBIC * x * x);
		return gated_slope(u, inner);
	case ST_GELU_ERF:
		cdf = normal_cdf(x, &density);
		return cdf + x * (SQRT_1_OVER_2PI * density);
	case ST_RELU: return vselect(x > 0, vsplat(1), vsplat(0));
	default: return gated_slope(x, x);
	}
}

INLINE void
forward(int kind, const float *x, float *y, int64_t n)
{
	for (int64_t i = 0; i < n; i += LANES)
		vstore(y + i, value(kind, vload(x + i, n - i)), n - i);
}

/* One loop for each kind: the choice is made outside. */
static void
activate(int kind, const float *x, float *y, int64_t n)
{
	switch (kind) {
	case ST_GELU_TANH: forward(ST_GELU_TANH, x, y, n); break;
	case ST_GELU_ERF: forward(ST_GELU_ERF, x, y, n); break;
	case ST_RELU: forward(ST_RELU, x, y, n); break;
	default: forward(ST_SILU, x, y, n); break;
	}
}

INLINE void
backward(int kind, const float *x, const float *dy, float *dx, int64_t n)
{
	for (int64_t i = 0; i < n; i += LANES)
		vstore(dx + i,
		       vload(dy + i, n - i) * slope(kind, vload(x + i, n - i)),
		       n - i);
}

static void
activate_grad(int kind, const float *x, const float *dy, float *dx, int64_t n)
{
	switch (kind) {
	case ST_GELU_TANH: backward(ST_GELU_TANH, x, dy, dx, n); break;
	case ST_GELU_ERF: backward(ST_GELU_ERF, x, dy, dx, n); break;
	case ST_RELU: backward(ST_RELU, x, dy, dx, n); break;
	default: backward(ST_SILU, x, dy, dx, n); break;
	}
}

static void
swiglu(const float *gate, const float *up, float *y, int64_t n)
{
	for (int64_t i = 0; i < n; i += LANES) {
		vfloat g = vload(gate + i, n - i);

		vstore(y + i, g * vsigmoid(g) * vload(up + i, n - i), n - i);
	}
}

static void
swiglu_grad(const float *gate, const float *up, const float *dy, float *dgate,
	    float *dup, int64_t n)
{
	for (int64_t i = 0; i < n; i += LANES) {
		vfloat g = vload(gate + i, n - i), u = vload(up + i, n - i);
		vfloat d = vload(dy + i, n - i);
		vfloat rest, s = vsigmoid_pair(g, &rest);

		vstore(dgate + i, d * u * (s + s * rest * g), n - i);
		vstore(dup + i, d * (g * s), n - i);
	}
}

int
FAST(activation)(const struct st_kernel *k)
{
	activate(k->elementwise.kind, k->ptr[0], k->ptr[1],
		 k->elementwise.count);
	return ST_KERNEL_OK;
}

int
FAST(activation_grad)(const struct st_kernel *k)
{
	activate_grad(k->elementwise.kind, k->ptr[0], k->ptr[1], k->ptr[2],
		      k->elementwise.count);
	return ST_KERNEL_OK;
}

int
FAST(swiglu)(const struct st_kernel *k)
{
	swiglu(k->ptr[0], k->ptr[1], k->ptr[2], k->elementwise.count);
	return ST_KERNEL_OK;
}

int
FAST(swiglu_grad)(const struct st_kernel *k)
{
	swiglu_grad(k->ptr[0], k->ptr[1], k->ptr[2], k->ptr[3], k->ptr[4],
		    k->elementwise.count);
	return ST_KERNEL_OK;
}
