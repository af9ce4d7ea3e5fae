/*
 * Normal numbers from counters.
 *
 * The generator of the reference, in vectors of double; log and cos are
 * series with an error of 1e-12, so that a float differs from the
 * reference's in its last bit at most, and seldom.  Only + - * / and sqrt
 * are used, and this file is built with -ffp-contract=off: every level of
 * the instruction set, and every shard, gets the same bits.
 */

#include "kernels/cpu/vector.h"

enum { HALF = LANES / 2 };

typedef double vdouble __attribute__((vector_size(8 * HALF)));
typedef uint64_t vword __attribute__((vector_size(8 * HALF)));

/* Value n of the splitmix64 sequence from state. */
INLINE vword
splitmix64(vword state, uint64_t n)
{
	vword z = state + n * 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* Exact for x <= 2^53: both halves become the low bits of a large double. */
INLINE vdouble
to_double(vword x)
{
	vword low = (x & 0xffffffffu) | 0x4330000000000000u;  /* 2^52 */
	vword high = x >> 32 | 0x4530000000000000u;           /* 2^84 */

	return ((vdouble)high - 0x1.00000001p84) + (vdouble)low;
}

INLINE vdouble
vsqrt_double(vdouble x)
{
	for (int i = 0; i < HALF; i++)
		x[i] = sqrt(x[i]);
	return x;
}

/* x = 2^e m, m from sqrt(1/2) to sqrt 2; log m = 2 atanh((m-1)/(m+1)). */
INLINE vdouble
vlog(vdouble x)
{
	vword bits = (vword)x - 0x3fe6a09e667f3bcdu; /* less sqrt(1/2) */
	vword power = ((bits >> 52) + 1024) & 0xfff;
	vdouble e = to_double(power) - 1024.0, s, z, p;
	vword mantissa = (vword)x - ((power - 1024) << 52);

	s = ((vdouble)mantissa - 1.0) / ((vdouble)mantissa + 1.0);
	z = s * s;
	p = z * (1 / 15.0) + 1 / 13.0;
	p = p * z + 1 / 11.0;
	p = p * z + 1 / 9.0;
	p = p * z + 1 / 7.0;
	p = p * z + 1 / 5.0;
	p = p * z + 1 / 3.0;
	return e * 0.69314718055994530942 + 2.0 * s * (p * z + 1.0);
}

/* cos(2 pi v) for v in [0, 1]: v = k/4 + r, and the quarter k selects one
 * of cos, -sin, -cos, sin of 2 pi r. */
INLINE vdouble
vcos_turn(vdouble v)
{
	const double shift = 0x1.8p52;
	vdouble k = v * 4.0 + shift;
	vword quarter = (vword)k, odd = -(quarter & 1);
	vword negative = ((quarter + 1) & 2) << 62;
	vdouble x = (v - (k - shift) * 0.25) * 6.28318530717958647693;
	vdouble z = x * x, c, s;

	c = z * (1 / 479001600.0) - 1 / 3628800.0;
	c = c * z + 1 / 40320.0;
	c = c * z - 1 / 720.0;
	c = c * z + 1 / 24.0;
	c = c * z - 0.5;
	c = c * z + 1.0;
	s = z * (1 / 6227020800.0) - 1 / 39916800.0;
	s = s * z + 1 / 362880.0;
	s = s * z - 1 / 5040.0;
	s = s * z + 1 / 120.0;
	s = s * z - 1 / 6.0;
	s = (s * z + 1.0) * x;
	return (vdouble)(((odd & (vword)s) | (~odd & (vword)c)) ^ negative);
}

INLINE vdouble
vnormal(vword state)
{
	vdouble u = to_double((splitmix64(state, 1) >> 11) + 1) * 0x1p-53;
	vdouble v = to_double(splitmix64(state, 2) >> 11) * 0x1p-53;

	return vsqrt_double(-2.0 * vlog(u)) * vcos_turn(v);
}

/* y[i] for the elements index + i * stride of the global tensor. */
static void
draw(const struct st_random_args *a, int64_t index, int64_t stride, float *y,
     int64_t n)
{
	for (int64_t i = 0; i < n; i += HALF) {
		int64_t left = n - i < HALF ? n - i : HALF;
		vword at;
		vdouble x;

		for (int j = 0; j < HALF; j++)
			at[j] = (uint64_t)(index + (i + j) * stride);
		x = a->mean +
		    a->deviation * vnormal(a->seed ^ a->stream ^ at);
		for (int64_t j = 0; j < left; j++)
			y[i + j] = (float)x[j];
	}
}

/* The row that local element i lies in: global index of its first element,
 * or -1 where the whole row is padding. */
static int64_t
row_index(const struct st_random_args *a, int64_t i)
{
	int32_t last = a->dims - 1;
	int64_t index = a->begin[last] * a->stride[last];

	i /= a->extent[last];
	for (int32_t j = last - 1; j >= 0; j--) {
		int64_t at = a->begin[j] + i % a->extent[j];

		if (at >= a->limit[j])
			return -1;
		index += at * a->stride[j];
		i /= a->extent[j];
	}
	return i > 0 ? -1 : index;
}

int
FAST(random)(const struct st_kernel *k)
{
	const struct st_random_args *a = &k->random;
	int32_t last = a->dims - 1;
	float *y = k->ptr[0];

	if (a->dims < 1)
		return st_ref_random(k);
	for (int64_t i = 0; i < a->count;) {
		int64_t at = (a->first + i) % a->extent[last];
		int64_t n = a->extent[last] - at, index, valid;

		if (n > a->count - i)
			n = a->count - i;
		index = row_index(a, a->first + i);
		valid = a->limit[last] - a->begin[last] - at;
		if (index < 0 || valid < 0)
			valid = 0;
		if (valid > n)
			valid = n;
		draw(a, index + at * a->stride[last], a->stride[last], y + i,
		     valid);
		memset(y + i + valid, 0, (size_t)(n - valid) * sizeof(*y));
		i += n;
	}
	return ST_KERNEL_OK;
}
