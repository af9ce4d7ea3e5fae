#ifndef ST_KERNELS_CPU_H
#define ST_KERNELS_CPU_H

/*
 * The CPU kernels: for each op X of ST_CPU_OPS
 *
 *   st_ref_X   plain loops, arithmetic in double whatever the storage (f64,
 *              f32, bf16), rounded once where a result is stored; it decides
 *              golden numbers
 *   st_cpu_X   fast, f32; hands every other dtype to the reference
 *
 * kernels.h says what an op does.  All of them may be called from any number
 * of threads at once; none allocates, none starts a thread, none needs
 * kernel->work: scratch is tiles on the stack, below 256 KiB a call.  So no
 * op has a workspace function here.
 */

#include "kernels/kernels.h"

#define ST_CPU_OPS(X)       \
	X(matmul)           \
	X(add)              \
	X(reduce_sum)       \
	X(sum)              \
	X(scale)            \
	X(fill)             \
	X(copy)             \
	X(only)             \
	X(activation)       \
	X(activation_grad)  \
	X(swiglu)           \
	X(swiglu_grad)      \
	X(cast)             \
	X(layernorm)        \
	X(layernorm_grad)   \
	X(rmsnorm)          \
	X(rmsnorm_grad)     \
	X(rope)             \
	X(attention)        \
	X(attention_grad)   \
	X(attention_qkv)    \
	X(attention_qkv_grad) \
	X(embedding)        \
	X(embedding_grad)   \
	X(xent_max)         \
	X(xent_sum)         \
	X(xent_loss)        \
	X(xent_grad)        \
	X(sumsq)            \
	X(clip)             \
	X(step_count)       \
	X(learning_rate)    \
	X(adamw)            \
	X(random)           \
	X(slice)            \
	X(unslice)

#define X(name)                  \
	st_kernel_fn st_ref_##name; \
	st_kernel_fn st_cpu_##name;
ST_CPU_OPS(X)
#undef X

enum st_cpu_reduction { ST_CPU_SUM, ST_CPU_MAX };

/* out[i] = in[0][i] op in[1][i] op ... op in[n-1][i], from left to right:
 * ranks in their order, so the result does not depend on who arrived first.
 * bf16 is accumulated in float and rounded once.  A NaN survives max.  out
 * may be one of the inputs; n is at least 1.  f64, f32, bf16 and i32. */
int st_cpu_reduce(int dtype, int reduction, void *out, const void *const *in,
		  int n, size_t count);

#endif
