#ifndef ST_KERNELS_CPU_VECTOR_H
#define ST_KERNELS_CPU_VECTOR_H

/*
 * As many floats at a time as the machine's registers hold, in the vector
 * extension that gcc and clang share on every machine.
 *
 * A source file that includes this is built once for each level of ST_LEVELS,
 * with -DLEVEL=v4 -march=x86-64-v4 and so on; FAST(x) is st_v4_x there, and
 * dispatch.c picks a level when a kernel is called.  Such a kernel may take
 * for granted that its arithmetic is f32.
 *
 * Build with -O3 -fno-math-errno -fno-trapping-math (or sqrt and selections
 * stay scalar) and -Wno-psabi: vectors as arguments have no stable calling
 * convention, but every function here that takes one is inlined.
 */

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/cpu/level.h"

#ifndef LEVEL
#define LEVEL base
#endif
#define FAST(name) FAST_(LEVEL, name)
#define FAST_(level, name) FAST__(level, name)
#define FAST__(level, name) st_##level##_##name

#define INLINE static inline __attribute__((always_inline))

/* The next loop may run in any order: in place means the same element. */
#if defined(__clang__)
#define ANY_ORDER _Pragma("clang loop vectorize(assume_safety)")
#else
#define ANY_ORDER _Pragma("GCC ivdep")
#endif

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX2__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif

typedef float vfloat __attribute__((vector_size(4 * LANES)));
typedef int32_t vint __attribute__((vector_size(4 * LANES)));

INLINE vfloat
vsplat(float x)
{
	return x - (vfloat){0};
}

/* The first `left` lanes from memory if there are not enough for all; the
 * rest is `other`. */
INLINE vfloat
vload_or(const float *x, int64_t left, float other)
{
	vfloat v = vsplat(other);

	if (left >= LANES)
		memcpy(&v, x, sizeof(v));
	else
		for (int64_t i = 0; i < left; i++)
			v[i] = x[i];
	return v;
}

INLINE vfloat
vload(const float *x, int64_t left)
{
	return vload_or(x, left, 0);
}

INLINE void
vstore(float *y, vfloat v, int64_t left)
{
	if (left >= LANES)
		memcpy(y, &v, sizeof(v));
	else
		for (int64_t i = 0; i < left; i++)
			y[i] = v[i];
}

/* mask: 0 or -1 in each lane, as a comparison gives. */
INLINE vfloat
vselect(vint mask, vfloat yes, vfloat no)
{
	return (vfloat)((mask & (vint)yes) | (~mask & (vint)no));
}

/* y where either is NaN, as is usual of the machine's own instruction. */
INLINE vfloat
vmax(vfloat x, vfloat y)
{
	return vselect(x > y, x, y);
}

INLINE float
vsum(vfloat v)
{
	float part[LANES];

	memcpy(part, &v, sizeof(v));
	for (int width = LANES / 2; width > 0; width /= 2)
		for (int i = 0; i < width; i++)
			part[i] += part[i + width];
	return part[0];
}

INLINE vfloat
vsqrt(vfloat v)
{
	vfloat y;

	for (int i = 0; i < LANES; i++)
		y[i] = sqrtf(v[i]);
	return y;
}

/*
 * exp within 1.5 ulp; 0 below -87.33 (no denormals), infinity above 88.37,
 * NaN for NaN.  x = n ln 2 + r: adding 1.5 * 2^23 leaves n, rounded, in the
 * low bits.  The polynomial is a minimax fit of (exp(r) - 1 - r) / r^2 with
 * the weight of the relative error of exp; error of the fit 3e-9.
 */
INLINE vfloat
vexp(vfloat x)
{
	const float shift = 12582912.0f;
	vint zero = x < -87.33f;
	vfloat at = vselect(x < -87.4f, vsplat(-87.4f), x);
	vfloat n, r, p;
	vint bits;

	at = vselect(at > 88.8f, vsplat(88.8f), at);
	n = at * 1.44269504f + shift;
	bits = ((vint)n << 23) + (127 << 23);
	n = n - shift;
	r = at - n * 0.693359375f;
	r = r + n * 2.12194440e-4f;
	p = r * 0.001381446935f + 0.00836878034f;
	p = p * r + 0.04166839416f;
	p = p * r + 0.1666652011f;
	p = p * r + 0.4999999341f;
	p = p * (r * r) + (r + 1.0f);
	return (vfloat)(~zero & (vint)(p * (vfloat)bits));
}

INLINE vfloat
vsigmoid(vfloat x)
{
	return 1.0f / (1.0f + vexp(-x));
}

/* sigmoid(x), and 1 - sigmoid(x) without cancellation. */
INLINE vfloat
vsigmoid_pair(vfloat x, vfloat *rest)
{
	vint negative = x < 0;
	vfloat e = vexp(vselect(negative, x, -x));
	vfloat large = 1.0f / (1.0f + e), small = e * large;

	*rest = vselect(negative, large, small);
	return vselect(negative, small, large);
}

#endif
