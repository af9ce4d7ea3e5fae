#ifndef ST_KERNELS_CPU_BF16_H
#define ST_KERNELS_CPU_BF16_H

/* bfloat16 is the upper half of a float; rounding is to nearest even. */

#include <stdint.h>
#include <string.h>

static inline uint32_t
float_bits(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static inline float
bits_float(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

static inline float
bf16_to_float(uint16_t half)
{
	return bits_float((uint32_t)half << 16);
}

static inline uint16_t
bf16_from_float(float x)
{
	uint32_t bits = float_bits(x);
	uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
	uint32_t quiet = bits | 0x400000;

	return (uint16_t)((x == x ? rounded : quiet) >> 16);
}

/* Through a float that is rounded to odd: an inexact value never looks like
 * a tie to the second rounding. */
static inline uint16_t
bf16_from_double(double x)
{
	float near = (float)x;
	uint32_t bits = float_bits(near);

	if (x != x || (double)near == x)
		return bf16_from_float(near);
	if (x > 0 ? (double)near > x : (double)near < x)
		bits--; /* towards zero */
	return bf16_from_float(bits_float(bits | 1));
}

#endif
