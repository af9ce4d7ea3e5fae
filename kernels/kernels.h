#ifndef ST_KERNELS_H
#define ST_KERNELS_H

/*
 * The one door to every kernel, on any device.
 *
 * A launch is a flat record: which op, which arithmetic, where the operands
 * and results lie, and the op's own numbers.  The record holds no pointer
 * into the compiler, so it can cross a plug-in boundary unchanged.
 *
 * ptr[] holds the operands in the order of the op's row in ir/ops.def, then
 * its results.  `work` is scratch of the size that the op's workspace
 * function asked for.  Tensors are dense and row-major; activations are
 * [T x B x C]: position, sequence of the batch, channel ("row" r = t*B + b).
 * Token ids and targets are int32 [B x T].  Scalars are tensors of one
 * element.  A kernel never allocates, prints or blocks, writes every element
 * of its results, and may be given a result that is the same buffer as the
 * operand which the op's row declares as in place.
 *
 * Two functions an op on the CPU: st_ref_<op> (plain, readable, float and
 * double: it decides golden numbers) and st_cpu_<op> (fast, float; hands
 * double to the reference).  Both return 0 or one of st_kernel_error.
 */

#include <stddef.h>
#include <stdint.h>

enum st_dtype {
	ST_F64,
	ST_F32,
	ST_BF16,
	ST_I32,
	ST_U8,
	ST_DTYPE_COUNT
};

enum st_kernel_error {
	ST_KERNEL_OK,
	ST_KERNEL_ERANGE = 1, /* a token id or target outside the vocabulary */
	ST_KERNEL_EDTYPE = 2, /* this arithmetic is not built */
};

enum st_activation {
	ST_GELU_TANH, /* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
	ST_GELU_ERF,  /* 0.5 x (1 + erf(x / sqrt 2)) */
	ST_RELU,
	ST_SILU,
};

/* c[m x n] = op(a) op(b), or += where accumulate is set.
 * op(a) is m x k: a is stored [m x lda] (trans_a 0) or [k x lda]
 * (trans_a 1).  op(b) is k x n: b is stored [k x ldb] (0) or [n x ldb] (1).
 * ptr: a, b, c. */
struct st_matmul_args {
	int64_t m, n, k, lda, ldb, ldc;
	int32_t trans_a, trans_b, accumulate;
};

/* y[p][q][r] = a[p][q][r] + b[p*sp + q*sq + r*sr]; ptr: a, b, y.
 * reduce_sum is its transpose: y[p*sp + q*sq + r*sr] = sum of a[p][q][r]
 * over the axes whose stride is 0; `count` elements in y; ptr: a, y. */
struct st_broadcast_args {
	int64_t p, q, r, sp, sq, sr, count;
};

/* Element by element over count.  activation: x -> y; activation_grad:
 * x, dy -> dx.  swiglu: gate, up -> silu(gate)*up; swiglu_grad: gate, up,
 * dy -> dgate, dup.  sum: n operands -> y.  scale: x -> factor*x.
 * fill: -> factor everywhere.  copy: x -> y, any dtype.
 * only: x -> y = keep ? x : 0. */
struct st_elementwise_args {
	int64_t count;
	double factor;
	int32_t kind; /* enum st_activation */
	int32_t operands;
	int32_t keep;
};

/* cast: x of dtype `from` -> y of dtype `to`, round to nearest even. */
struct st_cast_args {
	int64_t count;
	int32_t from, to;
};

/* Over the last extent.  layernorm: x[rows x c], w[c], b[c] -> y, mean[rows],
 * rstd[rows].  layernorm_grad: x, w, mean, rstd, dy -> dx, dw[c], db[c].
 * rmsnorm: x, w -> y, rstd.  rmsnorm_grad: x, w, rstd, dy -> dx, dw.
 * rstd = 1/sqrt(variance + epsilon), biased variance; rmsnorm: mean square. */
struct st_norm_args {
	int64_t rows, c;
	double epsilon;
};

/* Rotary embedding of x[t x b x heads x d] -> y, position = t + start:
 * element i < d/2 is paired with i + d/2 (the "rotate half" layout of HF
 * Llama), angle = position * theta^(-2i/d).  inverse turns by -angle: the
 * gradient. */
struct st_rope_args {
	int64_t t, b, heads, d, start;
	double theta;
	int32_t inverse;
};

/*
 * Causal attention with grouped queries.  Query head kv*group + g reads
 * key/value head kv.  Row r of q starts at q + r*ldq and holds
 * kv_heads*group*d elements; rows of k and v hold kv_heads*d.
 * attention: q, k, v -> o (row stride ldo), lse[t x b x heads], the natural
 * logarithm of the sum of exponentials of the scaled scores.
 * attention_grad: q, k, v, o, lse, do -> dq, dk, dv with the strides of
 * q, k, v; do has that of o.
 * attention_qkv and attention_qkv_grad have q, k, v behind one another in
 * each row of one tensor (kv_heads*group*d, kv_heads*d, kv_heads*d):
 * qkv -> o, lse; and qkv, o, lse, do -> dqkv.  Their strides are set
 * likewise.  The score matrix is never stored.
 */
struct st_attention_args {
	int64_t t, b, kv_heads, group, d;
	int64_t ldq, ldk, ldv, ldo;
	double scale;
};

/*
 * Rows [start, start + v) of a vocabulary of `total` rows; rows from
 * `valid` on (local index) are padding.
 * embedding: tokens, w[v x c] -> x[t x b x c], zeros where the token lies in
 * another rank's rows.  embedding_grad: tokens, dx -> dw[v x c], summed in
 * the order of t, then b.
 * Loss, over logits[t x b x v]:
 * xent_max: logits -> m[t x b] over valid columns (-inf if there is none).
 * xent_sum: logits, targets, m -> s = sum exp(logit - m), z = the target's
 * logit if it is one of these rows, else 0.
 * xent_loss: m, s, z -> loss[1] = factor * sum over rows of m + log s - z.
 * xent_grad: logits, targets, m, s -> dlogits = factor * (softmax - onehot),
 * padding 0; in place over logits.
 */
struct st_vocab_args {
	int64_t t, b, v, c, start, valid, total;
	double factor;
};

/*
 * sumsq: g[count] -> s[1].
 * clip: s[1] -> coefficient[1] = min(1, max_norm / (norm + 1e-6)), norm[1];
 * max_norm <= 0 clips nothing.
 * step_count: t (int32[1]) -> t + 1.
 * learning_rate: t (int32[1], from 1) -> lr[1]: linear warm-up over
 * `warmup` steps to `rate`, then a cosine down to `floor` at step `total`
 * (total 0: constant), `floor` after it.
 * adamw: w, g, m, v, coefficient[1], lr[1], t (int32[1], from 1)
 * -> w, m, v, in place:
 *   g *= coefficient; m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2
 *   w = w - lr (m/(1-b1^t) / (sqrt(v/(1-b2^t)) + epsilon) + decay w).
 */
struct st_optimizer_args {
	int64_t count;
	double max_norm;
	double rate, floor, warmup, total;
	double beta1, beta2, epsilon, decay;
};

/*
 * random: -> y, normal with mean and standard deviation, drawn from
 * (seed, stream, global index) so that any sharding starts alike.  `dims`
 * local extents, outermost first; local index i of dimension j is global
 * index begin[j] + i, which is padding from limit[j] on and is written 0;
 * global row-major strides stride[j].  Elements [first, first + count) of the
 * local row-major order are written: a flat piece is a part of it.  With
 * deviation 0 it fills with `mean` whatever is not padding.
 * The generator: splitmix64 over seed ^ stream ^ index, Box-Muller.
 */
enum { ST_RANDOM_DIMS = 8 };
struct st_random_args {
	uint64_t seed, stream;
	double mean, deviation;
	int32_t dims;
	int64_t extent[ST_RANDOM_DIMS], begin[ST_RANDOM_DIMS];
	int64_t limit[ST_RANDOM_DIMS], stride[ST_RANDOM_DIMS];
	int64_t first, count; /* the part of the local row-major order */
};

/*
 * slice: x[p][q][r] -> y[p][n][r], y = x[.][at + i][.], zeros where
 * at + i >= q.  unslice is its transpose: x[p][n][r] -> y[p][q][r], zeros
 * outside [at, at + n).  Elements of `size` bytes.
 */
struct st_slice_args {
	int64_t p, q, r, at, n;
	int64_t size;
};

struct st_kernel {
	int32_t op;    /* enum st_op */
	int32_t dtype; /* enum st_dtype of the arithmetic */
	int32_t pointers;
	int32_t reserved;
	void **ptr;
	void *work;
	union {
		struct st_matmul_args matmul;
		struct st_broadcast_args broadcast;
		struct st_elementwise_args elementwise;
		struct st_cast_args cast;
		struct st_norm_args norm;
		struct st_rope_args rope;
		struct st_attention_args attention;
		struct st_vocab_args vocab;
		struct st_optimizer_args optimizer;
		struct st_random_args random;
		struct st_slice_args slice;
	};
};

typedef int st_kernel_fn(const struct st_kernel *kernel);

static inline size_t
st_dtype_size(enum st_dtype dtype)
{
	static const unsigned char sizes[] = {8, 4, 2, 4, 1};

	return sizes[dtype];
}

#endif
