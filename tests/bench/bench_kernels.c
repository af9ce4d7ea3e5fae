/*
 * How fast the CPU kernels are on this machine, on one thread.
 *
 * A row is the fastest and the median of SAMPLES samples, each of at least
 * 20 ms.  GFLOP/s counts multiplications and additions that the mathematics
 * needs (causal attention: half of the square); GB/s counts each operand and
 * each result once.
 */

#include "kernels/cpu/level.h"

#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SAMPLES = 15, POINTERS = 10 };

struct bench {
	const char *name;
	st_kernel_fn *fn;
	struct st_kernel k;
	int64_t floats[POINTERS]; /* extent of each pointer; 0: integers */
	int over[POINTERS];       /* 1 + the pointer whose buffer it shares */
	double flop;              /* 0: bound by memory */
};

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int
ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double
sample(const struct bench *b, const struct st_kernel *k, int times)
{
	double start = now();

	for (int i = 0; i < times; i++)
		b->fn(k);
	return (now() - start) / times;
}

static void
fill(float *x, int64_t n, int which)
{
	uint32_t state = (uint32_t)which + 1;

	for (int64_t i = 0; i < n; i++) {
		state = state * 1664525u + 1013904223u;
		x[i] = (float)(state >> 8) * 0x1p-24f + 1e-3f;
	}
}

static void
report(const struct bench *b, double best, double median, double bytes)
{
	if (b->flop > 0)
		printf("%-34s %8.3f ms  median %8.3f  %7.1f GFLOP/s\n", b->name,
		       best * 1e3, median * 1e3, b->flop / best * 1e-9);
	else
		printf("%-34s %8.3f ms  median %8.3f  %7.1f GB/s\n", b->name,
		       best * 1e3, median * 1e3, bytes / best * 1e-9);
}

static void
measure(const struct bench *b)
{
	struct st_kernel k = b->k;
	double seconds[SAMPLES], bytes = 0;
	void *ptr[POINTERS];
	int times;

	for (int i = 0; i < POINTERS; i++) {
		int64_t n = b->floats[i] ? b->floats[i] : 1 << 16;

		bytes += 4 * (double)b->floats[i];
		ptr[i] = b->over[i] ? ptr[b->over[i] - 1]
				    : calloc((size_t)n, sizeof(float));
		if (!ptr[i])
			exit(1);
		if (b->floats[i] && !b->over[i])
			fill(ptr[i], n, i);
	}
	k.ptr = ptr;
	k.dtype = ST_F32;
	sample(b, &k, 1);
	times = 1 + (int)(0.02 / sample(b, &k, 1));
	for (int i = 0; i < SAMPLES; i++)
		seconds[i] = sample(b, &k, times);
	qsort(seconds, SAMPLES, sizeof(*seconds), ascending);
	report(b, seconds[0], seconds[SAMPLES / 2], bytes);
	for (int i = 0; i < POINTERS; i++)
		if (!b->over[i])
			free(ptr[i]);
}

static int
raw_sgemm(const struct st_kernel *k)
{
	const struct st_matmul_args *g = &k->matmul;

	cblas_sgemm(CblasRowMajor, CblasNoTrans,
		    g->trans_b ? CblasTrans : CblasNoTrans, (int)g->m,
		    (int)g->n, (int)g->k, 1, k->ptr[0], (int)g->lda, k->ptr[1],
		    (int)g->ldb, 0, k->ptr[2], (int)g->ldc);
	return 0;
}

static void
bench_matmul(const char *name, st_kernel_fn *fn, int64_t m, int64_t n,
	     int64_t k)
{
	struct bench b = {.name = name, .fn = fn, .floats = {m * k, k * n,
							     m * n}};

	b.k.matmul = (struct st_matmul_args){m, n, k, k, k, n, 0, 1, 0};
	b.flop = 2 * (double)m * (double)n * (double)k;
	measure(&b);
}

static void
bench_elementwise(const char *name, st_kernel_fn *fn, int kind, int pointers)
{
	struct bench b = {.name = name, .fn = fn};

	b.k.elementwise.count = 1 << 20;
	b.k.elementwise.factor = 1.5;
	b.k.elementwise.kind = kind;
	b.k.elementwise.operands = pointers - 1;
	for (int i = 0; i < pointers; i++)
		b.floats[i] = 1 << 20;
	measure(&b);
}

static void
bench_broadcast(const char *name, st_kernel_fn *fn, int result_first)
{
	struct bench b = {.name = name, .fn = fn,
			  .floats = {2048 * 768, 768, 2048 * 768}};

	if (result_first)
		b.floats[2] = 0;
	b.k.broadcast = (struct st_broadcast_args){1, 2048, 768, 0, 0, 1, 768};
	measure(&b);
}

static void
bench_norms(void)
{
	enum { R = 2048, C = 768, N = R * C };
	struct bench rows[] = {
		{.name = "layernorm 2048x768", .fn = st_cpu_layernorm,
		 .floats = {N, C, C, N, R, R}},
		{.name = "layernorm_grad 2048x768",
		 .fn = st_cpu_layernorm_grad,
		 .floats = {N, C, R, R, N, N, C, C}},
		{.name = "rmsnorm 2048x768", .fn = st_cpu_rmsnorm,
		 .floats = {N, C, N, R}},
		{.name = "rmsnorm_grad 2048x768", .fn = st_cpu_rmsnorm_grad,
		 .floats = {N, C, R, N, N, C}},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		rows[i].k.norm = (struct st_norm_args){R, C, 1e-5};
		measure(&rows[i]);
	}
}

static void
bench_vocab(void)
{
	enum { T = 64, B = 4, R = T * B, V = 50304, C = 768, N = R * V };
	struct bench rows[] = {
		{.name = "xent_max 256x50304", .fn = st_cpu_xent_max,
		 .floats = {N, R}},
		{.name = "xent_sum 256x50304", .fn = st_cpu_xent_sum,
		 .floats = {N, 0, R, R, R}},
		{.name = "xent_grad 256x50304", .fn = st_cpu_xent_grad,
		 .floats = {N, 0, R, R, N}, .over = {[4] = 1}},
		{.name = "embedding 256x768", .fn = st_cpu_embedding,
		 .floats = {0, V * C, R * C}},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		rows[i].k.vocab = (struct st_vocab_args){
			T, B, V, C, 0, 50257, 50257, 1.0 / R};
		measure(&rows[i]);
	}
}

static void
bench_optimizer(void)
{
	enum { N = 1 << 22 };
	struct bench rows[] = {
		{.name = "sumsq 4M", .fn = st_cpu_sumsq, .floats = {N, 1}},
		{.name = "adamw 4M", .fn = st_cpu_adamw,
		 .floats = {N, N, N, N, 1, 1, 0, N, N, N},
		 .over = {[7] = 1, [8] = 3, [9] = 4}},
		{.name = "random 1M", .fn = st_cpu_random,
		 .floats = {1 << 20}},
	};

	for (size_t i = 0; i < 2; i++) {
		rows[i].k.optimizer = (struct st_optimizer_args){
			.count = N, .beta1 = 0.9, .beta2 = 0.95,
			.epsilon = 1e-8, .decay = 0.1};
		measure(&rows[i]);
	}
	rows[2].k.random = (struct st_random_args){
		.deviation = 1, .dims = 1, .extent = {1 << 20},
		.limit = {1 << 20}, .stride = {1}, .count = 1 << 20};
	measure(&rows[2]);
}

static void
bench_rope(void)
{
	enum { T = 256, B = 4, H = 12, D = 64, N = T * B * H * D };
	struct bench b = {.name = "rope 256x4x12x64", .fn = st_cpu_rope,
			  .floats = {N, N}};

	b.k.rope = (struct st_rope_args){T, B, H, D, 0, 10000, 0};
	measure(&b);
}

/* Forward: two products of t*t*d/2 for each head and sequence; backward:
 * five. */
static void
bench_attention(int64_t t, int64_t heads, int64_t d, int backward)
{
	enum { B = 2 };
	int64_t c = heads * d, rows = t * B;
	char name[64];
	struct bench b = {.name = name,
			  .fn = backward ? st_cpu_attention_qkv_grad
					 : st_cpu_attention_qkv};

	snprintf(name, sizeof(name), "attention%s T=%d d=%d",
		 backward ? "_grad" : "", (int)t, (int)d);
	b.floats[0] = 3 * rows * c;
	b.floats[1] = rows * c;
	b.floats[2] = rows * heads;
	b.floats[3] = backward ? rows * c : 0;
	b.floats[4] = backward ? 3 * rows * c : 0;
	b.k.attention = (struct st_attention_args){
		t, B, heads, 1, d, 3 * c, 3 * c, 3 * c, c,
		1 / sqrt((double)d)};
	b.flop = (backward ? 5 : 2) * (double)(t * (t + 1) * d) *
		 (double)(heads * B);
	measure(&b);
}

static int
reduce4(const struct st_kernel *k)
{
	return st_cpu_reduce(ST_F32, ST_CPU_SUM, k->ptr[4],
			     (const void *const *)k->ptr, 4, 1 << 20);
}

static void
bench_all(void)
{
	bench_matmul("matmul 256x768x768 (raw sgemm)", raw_sgemm, 256, 768,
		     768);
	bench_matmul("matmul 256x768x768", st_cpu_matmul, 256, 768, 768);
	bench_matmul("matmul 1024^3 (raw sgemm)", raw_sgemm, 1024, 1024, 1024);
	bench_matmul("matmul 1024^3", st_cpu_matmul, 1024, 1024, 1024);
	bench_elementwise("scale 1M", st_cpu_scale, 0, 2);
	bench_elementwise("sum of 3, 1M", st_cpu_sum, 0, 4);
	bench_broadcast("add bias 2048x768", st_cpu_add, 0);
	bench_broadcast("reduce_sum 2048x768", st_cpu_reduce_sum, 1);
	bench_elementwise("gelu_tanh 1M", st_cpu_activation, ST_GELU_TANH, 2);
	bench_elementwise("gelu_tanh grad 1M", st_cpu_activation_grad,
			  ST_GELU_TANH, 3);
	bench_elementwise("gelu_erf 1M", st_cpu_activation, ST_GELU_ERF, 2);
	bench_elementwise("swiglu 1M", st_cpu_swiglu, 0, 3);
	bench_elementwise("swiglu_grad 1M", st_cpu_swiglu_grad, 0, 5);
	bench_elementwise("reduce 4 ranks, 1M", reduce4, 0, 5);
	bench_norms();
	bench_rope();
	bench_vocab();
	bench_optimizer();
	for (int64_t d = 32; d <= 128; d *= 2)
		for (int64_t t = 64; t <= 1024; t *= 4)
			for (int backward = 0; backward < 2; backward++)
				bench_attention(t, 4, d, backward);
}

int
main(void)
{
	printf("instruction set level %d of 0..2, one thread\n",
	       (int)st_cpu_level());
	bench_all();
	return 0;
}
