#ifndef ST_KERNELS_CPU_LEVEL_H
#define ST_KERNELS_CPU_LEVEL_H

/* Kernels that are built once for each level of the instruction set. */

#include "kernels/cpu/cpu.h"

/* Best last.  v3 has AVX2 and FMA, v4 has AVX-512; elsewhere than on x86-64
 * all three are the same. */
#define ST_LEVELS(X) \
	X(base)      \
	X(v3)        \
	X(v4)

#define ST_VECTOR_OPS(X)      \
	X(add)                \
	X(reduce_sum)         \
	X(scale)              \
	X(activation)         \
	X(activation_grad)    \
	X(swiglu)             \
	X(swiglu_grad)        \
	X(layernorm)          \
	X(layernorm_grad)     \
	X(rmsnorm)            \
	X(rmsnorm_grad)       \
	X(rope)               \
	X(attention)          \
	X(attention_grad)     \
	X(attention_qkv)      \
	X(attention_qkv_grad) \
	X(embedding)          \
	X(embedding_grad)     \
	X(xent_max)           \
	X(xent_sum)           \
	X(xent_grad)          \
	X(sumsq)              \
	X(adamw)              \
	X(random)

typedef int st_reduce_fn(int dtype, int reduction, void *out,
			 const void *const *in, int n, size_t count);

#define X(name)                      \
	st_kernel_fn st_base_##name; \
	st_kernel_fn st_v3_##name;   \
	st_kernel_fn st_v4_##name;
ST_VECTOR_OPS(X)
#undef X
st_reduce_fn st_base_reduce, st_v3_reduce, st_v4_reduce;

enum st_level {
#define X(level) ST_LEVEL_##level,
	ST_LEVELS(X)
#undef X
	ST_LEVEL_COUNT
};

/* The best level that this machine can run. */
enum st_level st_cpu_level(void);

#endif
