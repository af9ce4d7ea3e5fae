/* Filling and casting.  Bound by memory: one level of code is enough. */

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/cpu.h"

static void
widen(const uint16_t *x, float *y, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = bf16_to_float(x[i]);
}

static void
narrow(const float *x, uint16_t *y, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = bf16_from_float(x[i]);
}

int
st_cpu_cast(const struct st_kernel *k)
{
	const struct st_cast_args *a = &k->cast;

	if (a->from == ST_BF16 && a->to == ST_F32)
		widen(k->ptr[0], k->ptr[1], a->count);
	else if (a->from == ST_F32 && a->to == ST_BF16)
		narrow(k->ptr[0], k->ptr[1], a->count);
	else
		return st_ref_cast(k);
	return ST_KERNEL_OK;
}

int
st_cpu_fill(const struct st_kernel *k)
{
	float factor = (float)k->elementwise.factor, *y = k->ptr[0];

	if (k->dtype != ST_F32)
		return st_ref_fill(k);
	for (int64_t i = 0; i < k->elementwise.count; i++)
		y[i] = factor;
	return ST_KERNEL_OK;
}
