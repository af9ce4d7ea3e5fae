/* Which code a kernel runs: a level of the machine's, or the reference. */

#include "kernels/cpu/level.h"

enum st_level
st_cpu_level(void)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx512f") &&
	    __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("avx512cd") &&
	    __builtin_cpu_supports("avx512dq") &&
	    __builtin_cpu_supports("avx512vl"))
		return ST_LEVEL_v4;
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
	    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2"))
		return ST_LEVEL_v3;
#endif
	return ST_LEVEL_base;
}

#define X(name)                                          \
	int st_cpu_##name(const struct st_kernel *k)     \
	{                                                \
		if (k->dtype != ST_F32)                  \
			return st_ref_##name(k);         \
		switch (st_cpu_level()) {               \
		case ST_LEVEL_v4: return st_v4_##name(k);   \
		case ST_LEVEL_v3: return st_v3_##name(k);   \
		default: return st_base_##name(k);       \
		}                                        \
	}
ST_VECTOR_OPS(X)
#undef X

int
st_cpu_reduce(int dtype, int reduction, void *out, const void *const *in,
	      int n, size_t count)
{
	st_reduce_fn *reduce = st_base_reduce;

	if (st_cpu_level() == ST_LEVEL_v4)
		reduce = st_v4_reduce;
	else if (st_cpu_level() == ST_LEVEL_v3)
		reduce = st_v3_reduce;
	return reduce(dtype, reduction, out, in, n, count);
}

int
st_cpu_sum(const struct st_kernel *k)
{
	int n = k->elementwise.operands;

	if (k->dtype != ST_F32 || n < 1)
		return st_ref_sum(k);
	return st_cpu_reduce(ST_F32, ST_CPU_SUM, k->ptr[n],
			     (const void *const *)k->ptr, n,
			     (size_t)k->elementwise.count);
}

/* The reference is as fast as it needs to be: memcpy inside, a scalar, or
 * run once. */
#define ST_PLAIN_OPS(X)  \
	X(copy)          \
	X(only)          \
	X(slice)         \
	X(unslice)       \
	X(xent_loss)     \
	X(clip)          \
	X(step_count)    \
	X(learning_rate)

#define X(name)                                      \
	int st_cpu_##name(const struct st_kernel *k) \
	{                                            \
		return st_ref_##name(k);             \
	}
ST_PLAIN_OPS(X)
#undef X
