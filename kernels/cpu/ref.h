#ifndef ST_KERNELS_CPU_REF_H
#define ST_KERNELS_CPU_REF_H

/*
 * How the reference kernels see memory: a tensor is read as double and
 * rounded to its own type when written.  One source serves f64, f32 and
 * bf16; what is lost is speed, which a reference does not need.
 */

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/cpu.h"

struct ref {
	void *at;
	int32_t dtype; /* enum st_dtype */
};

static inline int
ref_supports(int32_t dtype)
{
	return dtype == ST_F64 || dtype == ST_F32 || dtype == ST_BF16;
}

/* Operand or result i in the arithmetic of the launch. */
static inline struct ref
ref_of(const struct st_kernel *k, int i)
{
	struct ref x = {k->ptr[i], k->dtype};

	return x;
}

/* One in the dtype of accumulation: f32 beside bf16 tensors. */
static inline struct ref
ref_wide(const struct st_kernel *k, int i)
{
	struct ref x = {k->ptr[i], k->dtype == ST_F64 ? ST_F64 : ST_F32};

	return x;
}

/* The same tensor, seen from element n on. */
static inline struct ref
ref_from(struct ref x, int64_t n)
{
	x.at = (char *)x.at + n * (int64_t)st_dtype_size(
					 (enum st_dtype)x.dtype);
	return x;
}

static inline double
get(struct ref x, int64_t i)
{
	switch (x.dtype) {
	case ST_F64: return ((const double *)x.at)[i];
	case ST_F32: return (double)((const float *)x.at)[i];
	case ST_BF16:
		return (double)bf16_to_float(((const uint16_t *)x.at)[i]);
	case ST_I32: return ((const int32_t *)x.at)[i];
	default: return ((const uint8_t *)x.at)[i];
	}
}

static inline void
put(struct ref x, int64_t i, double value)
{
	switch (x.dtype) {
	case ST_F64: ((double *)x.at)[i] = value; break;
	case ST_F32: ((float *)x.at)[i] = (float)value; break;
	case ST_BF16: ((uint16_t *)x.at)[i] = bf16_from_double(value); break;
	case ST_I32: ((int32_t *)x.at)[i] = (int32_t)value; break;
	default: ((uint8_t *)x.at)[i] = (uint8_t)value; break;
	}
}

#endif
