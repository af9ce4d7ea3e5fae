/* In place, out of range, empty, padded, not a number; casts; reductions. */

#include "test_kernels.h"

#include "kernels/cpu/level.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void
same_floats(const float *got, const float *want, int64_t n, const char *name)
{
	cr_expect_arr_eq(got, want, (size_t)n * sizeof(float), "%s", name);
}

/* Results over operands, as the op table allows. */
static const struct in_place {
	const char *name;
	build_fn *build;
	st_kernel_fn *ref, *cpu;
	int result[3], operand[3]; /* operand -1 ends */
	int64_t dims[MAX_DIMS];
} IN_PLACE[] = {
#define OP(op) #op, build_##op, st_ref_##op, st_cpu_##op
	{OP(add), {2}, {0, -1}, {3, 5, 37, 0, 0, 1, 37}},
	{OP(sum), {3}, {0, -1}, {2500, 3}},
	{OP(sum), {3}, {2, -1}, {2500, 3}},
	{OP(scale), {1}, {0, -1}, {1003}},
	{OP(copy), {1}, {0, -1}, {1003}},
	{OP(only), {1}, {0, -1}, {1003, 1}},
	{OP(activation), {1}, {0, -1}, {1003, ST_GELU_TANH}},
	{OP(activation_grad), {2}, {1, -1}, {1003, ST_GELU_TANH}},
	{OP(swiglu), {2}, {0, -1}, {1003}},
	{OP(swiglu_grad), {3, 4}, {0, 1, -1}, {1003}},
	{OP(layernorm), {3}, {0, -1}, {5, 131}},
	{OP(rmsnorm), {2}, {0, -1}, {5, 131}},
	{OP(layernorm_grad), {5}, {4, -1}, {70, 131}},
	{OP(layernorm_grad), {5}, {0, -1}, {70, 131}},
	{OP(rmsnorm_grad), {4}, {3, -1}, {70, 131}},
	{OP(rope), {1}, {0, -1}, {9, 2, 3, 34, 0, 0}},
	{OP(xent_grad), {4}, {0, -1}, {5, 3, 77, 0, 10, 70, 97}},
	{OP(adamw), {7, 8, 9}, {0, 2, 3}, {1003, 3}},
#undef OP
};

static void
run_in_place(const struct in_place *p, st_kernel_fn *fn, const char *which)
{
	struct launch apart = {.state = 5}, over = {.state = 5};

	p->build(&apart, p->dims);
	p->build(&over, p->dims);
	launch_narrow(&apart, fn);
	for (int i = 0; i < 3 && p->operand[i] >= 0; i++) {
		float **y = &over.buffers[p->result[i]].narrow;

		free(*y);
		*y = over.buffers[p->operand[i]].narrow;
	}
	launch_narrow(&over, fn);
	for (int i = 0; i < 3 && p->operand[i] >= 0; i++) {
		struct buffer *y = &over.buffers[p->result[i]];

		same_floats(y->narrow, apart.buffers[p->result[i]].narrow,
			    y->count, which);
		y->narrow = NULL;
	}
	launch_finish(&apart);
	launch_finish(&over);
}

Test(kernels_edge, in_place_gives_the_same_bits)
{
	for (size_t i = 0; i < sizeof(IN_PLACE) / sizeof(*IN_PLACE); i++) {
		run_in_place(&IN_PLACE[i], IN_PLACE[i].ref, IN_PLACE[i].name);
		run_in_place(&IN_PLACE[i], IN_PLACE[i].cpu, IN_PLACE[i].name);
	}
}

static int32_t *
token_buffer(struct launch *l)
{
	for (int i = 0; i < l->k.pointers; i++)
		if (l->buffers[i].ids)
			return l->buffers[i].ids;
	return NULL;
}

Test(kernels_edge, ids_outside_the_vocabulary_are_refused)
{
	static const int64_t dims[MAX_DIMS] = {4, 3, 10, 5, 5, 10, 20};
	static const int32_t bad[] = {-1, 20, INT32_MIN, INT32_MAX};
	static const struct {
		build_fn *build;
		st_kernel_fn *ref, *cpu;
	} ops[] = {
		{build_embedding, st_ref_embedding, st_cpu_embedding},
		{build_embedding_grad, st_ref_embedding_grad,
		 st_cpu_embedding_grad},
		{build_xent_sum, st_ref_xent_sum, st_cpu_xent_sum},
		{build_xent_grad, st_ref_xent_grad, st_cpu_xent_grad},
	};

	for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
		for (size_t j = 0; j < sizeof(bad) / sizeof(*bad); j++) {
			struct launch l = {.state = 1};

			ops[i].build(&l, dims);
			cr_expect_eq(launch_narrow(&l, ops[i].cpu), 0);
			token_buffer(&l)[11] = bad[j];
			cr_expect_eq(launch_narrow(&l, ops[i].cpu),
				     ST_KERNEL_ERANGE, "%zu %zu", i, j);
			cr_expect_eq(launch_wide(&l, ops[i].ref),
				     ST_KERNEL_ERANGE, "%zu %zu", i, j);
			launch_finish(&l);
		}
	}
}

Test(kernels_edge, arithmetic_that_is_not_built_is_refused)
{
	struct launch l = {.state = 1};
	static const int64_t dims[MAX_DIMS] = {4};

	build_scale(&l, dims);
	launch_narrow(&l, st_cpu_scale);
	l.k.dtype = ST_I32;
	cr_expect_eq(st_cpu_scale(&l.k), ST_KERNEL_EDTYPE);
	cr_expect_eq(st_ref_scale(&l.k), ST_KERNEL_EDTYPE);
	cr_expect_eq(st_cpu_reduce(ST_U8, ST_CPU_SUM, NULL, NULL, 1, 0),
		     ST_KERNEL_EDTYPE);
	launch_finish(&l);
}

/* k = 0: nothing is added, and what is not accumulated becomes zero. */
Test(kernels_edge, empty_product)
{
	float a = 1, b = 1, c[4] = {NAN, NAN, 7, 7};
	void *ptr[] = {&a, &b, c};
	struct st_kernel k = {.dtype = ST_F32, .ptr = ptr};

	k.matmul.m = 1;
	k.matmul.n = 2;
	k.matmul.ldc = 2;
	cr_expect_eq(st_cpu_matmul(&k), 0);
	cr_expect_eq(c[0], 0);
	cr_expect_eq(c[1], 0);
	k.matmul.accumulate = 1;
	ptr[2] = c + 2;
	cr_expect_eq(st_cpu_matmul(&k), 0);
	cr_expect_eq(c[2], 7);
}

/* A shard of padding only, or of columns that are all forbidden: nothing to
 * take the maximum of. */
static void
check_no_column(st_kernel_fn *max, st_kernel_fn *sum, st_kernel_fn *grad,
		int64_t valid, float logit)
{
	float logits[20], m[2] = {NAN, NAN}, s[2] = {NAN, NAN};
	float z[2] = {NAN, NAN}, d[20];
	int32_t targets[2] = {0, 3};
	void *max_ptr[] = {logits, m};
	void *sum_ptr[] = {logits, targets, m, s, z};
	void *grad_ptr[] = {logits, targets, m, s, d};
	struct st_kernel k = {.dtype = ST_F32};

	for (int i = 0; i < 20; i++)
		logits[i] = i % 10 < valid ? logit : NAN;
	k.vocab = (struct st_vocab_args){
		.t = 2, .b = 1, .v = 10, .start = 10,
		.valid = valid, .total = 20, .factor = 1};
	k.ptr = max_ptr;
	cr_expect_eq(max(&k), 0);
	k.ptr = sum_ptr;
	cr_expect_eq(sum(&k), 0);
	k.ptr = grad_ptr;
	cr_expect_eq(grad(&k), 0);
	for (int i = 0; i < 2; i++) {
		cr_expect_eq(m[i], -INFINITY);
		cr_expect_eq(s[i], 0);
		cr_expect_eq(z[i], 0);
	}
	for (int i = 0; i < 20; i++)
		cr_expect_eq(d[i], 0);
}

Test(kernels_edge, rows_without_a_valid_column)
{
	static const int64_t valid[] = {0, 7};

	for (int i = 0; i < 2; i++) {
		check_no_column(st_ref_xent_max, st_ref_xent_sum,
				st_ref_xent_grad, valid[i], -INFINITY);
		check_no_column(st_cpu_xent_max, st_cpu_xent_sum,
				st_cpu_xent_grad, valid[i], -INFINITY);
	}
}

/* One column: softmax is 1, the gradient is rounding. */
Test(kernels_edge, vocabulary_of_one)
{
	static const int64_t dims[MAX_DIMS] = {3, 2, 1, 0, 0, 1, 1};
	struct launch l = {.state = 4};

	build_xent_grad(&l, dims);
	launch_narrow(&l, st_cpu_xent_grad);
	for (int i = 0; i < 6; i++)
		cr_expect_float_eq(l.buffers[4].narrow[i], 0, 1e-7f);
	launch_finish(&l);
}

/* One channel: layer norm has nothing to say about x. */
Test(kernels_edge, norm_of_one_channel)
{
	static const int64_t dims[MAX_DIMS] = {3, 1};
	struct launch y = {.state = 4}, d = {.state = 4};

	build_layernorm(&y, dims);
	build_layernorm_grad(&d, dims);
	launch_narrow(&y, st_cpu_layernorm);
	launch_narrow(&d, st_cpu_layernorm_grad);
	for (int i = 0; i < 3; i++) {
		cr_expect_eq(y.buffers[3].narrow[i], y.buffers[2].narrow[0]);
		/* rstd = 1/sqrt(1e-5) = 316 times a rounding of g */
		cr_expect_float_eq(d.buffers[5].narrow[i], 0, 316 * 1.2e-7f);
	}
	launch_finish(&y);
	launch_finish(&d);
}

/* A NaN is passed on, not swallowed. */
Test(kernels_edge, not_a_number_survives)
{
	for (int at = 0; at < 77; at++) {
		static const int64_t dims[MAX_DIMS] = {1, 1, 77, 0, 0, 77, 77};
		struct launch l = {.state = 2};

		build_xent_max(&l, dims);
		l.buffers[0].narrow[at] = NAN;
		l.buffers[0].wide[at] = (double)NAN;
		launch_narrow(&l, st_cpu_xent_max);
		launch_wide(&l, st_ref_xent_max);
		cr_expect(isnan(l.buffers[1].narrow[0]), "at %d", at);
		cr_expect(isnan(l.buffers[1].wide[0]), "at %d", at);
		launch_finish(&l);
	}
	for (int kind = ST_GELU_TANH; kind <= ST_SILU; kind++) {
		float x = NAN, y = 0;
		void *ptr[] = {&x, &y};
		struct st_kernel k = {.dtype = ST_F32, .ptr = ptr};

		k.elementwise.count = 1;
		k.elementwise.kind = kind;
		st_cpu_activation(&k);
		cr_expect(kind == ST_RELU || isnan(y), "kind %d", kind);
	}
}

/* Where exp runs out of numbers. */
Test(kernels_edge, activations_of_large_arguments)
{
	static const float far[] = {-1e30f, -1000, -100, -90, 90,
				    100,    1000,  1e10f};

	for (int kind = ST_GELU_TANH; kind <= ST_SILU; kind++) {
		for (size_t i = 0; i < sizeof(far) / sizeof(*far); i++) {
			float x = far[i], one = 1, y, d;
			void *ptr[] = {&x, &y}, *grad[] = {&x, &one, &d};
			struct st_kernel k = {.dtype = ST_F32, .ptr = ptr};

			k.elementwise.count = 1;
			k.elementwise.kind = kind;
			st_cpu_activation(&k);
			cr_expect_float_eq(y, x > 0 ? x : 0, 1e-6f,
					   "kind %d at %g: %g", kind,
					   (double)x, (double)y);
			k.ptr = grad;
			st_cpu_activation_grad(&k);
			cr_expect(kind == ST_GELU_TANH && fabsf(x) > 1e10f
					  ? !(fabsf(d) > 1)
					  : d == (x > 0 ? 1 : 0) ||
						    fabsf(d) < 1e-6f,
				  "kind %d at %g: slope %g", kind, (double)x,
				  (double)d);
		}
	}
}

Test(kernels_edge, clip)
{
	static const struct {
		double most, sumsq, want;
	} rows[] = {
		{1, 0.25, 1}, {1, 4, 1 / (2 + 1e-6)}, {0, 100, 1},
		{-1, 100, 1}, {1, 0, 1},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		double s = rows[i].sumsq, coefficient, norm;
		void *ptr[] = {&s, &coefficient, &norm};
		struct st_kernel k = {.dtype = ST_F64, .ptr = ptr};

		k.optimizer.max_norm = rows[i].most;
		st_cpu_clip(&k);
		cr_expect_float_eq(coefficient, rows[i].want, 1e-15, "%zu", i);
		cr_expect_float_eq(norm, sqrt(s), 1e-15, "%zu", i);
	}
}

Test(kernels_edge, schedule)
{
	static const struct {
		int32_t t;
		double warmup, total, want;
	} rows[] = {
		{1, 10, 110, 0.1},    {10, 10, 110, 1}, {60, 10, 110, 0.6},
		{110, 10, 110, 0.2},  {111, 10, 110, 0.2}, {5, 0, 0, 1},
		{5000, 10, 0, 1},     {1, 0, 100, 0.999802624},
		{100, 100, 100, 0.2},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		int32_t t = rows[i].t;
		double lr;
		void *ptr[] = {&t, &lr};
		struct st_kernel k = {.dtype = ST_F64, .ptr = ptr};

		k.optimizer.rate = 1;
		k.optimizer.floor = 0.2;
		k.optimizer.warmup = rows[i].warmup;
		k.optimizer.total = rows[i].total;
		st_cpu_learning_rate(&k);
		cr_expect_float_eq(lr, rows[i].want, 1e-8, "%zu: %.9g", i, lr);
	}
}

Test(kernels_edge, step_count)
{
	int32_t t = 41;
	void *ptr[] = {&t, &t};
	struct st_kernel k = {.ptr = ptr};

	st_cpu_step_count(&k);
	cr_expect_eq(t, 42);
}

/* Any shard of a matrix starts from the numbers of the whole. */
Test(kernels_edge, random_shards_alike)
{
	float whole[6 * 8], shard[3 * 5], part[7];
	void *ptr[] = {whole};
	struct st_kernel k = {.dtype = ST_F32, .ptr = ptr};
	struct st_random_args a = {.seed = 1, .stream = 2, .deviation = 1,
				   .dims = 2, .extent = {6, 8},
				   .limit = {6, 8}, .stride = {8, 1},
				   .count = 48};

	k.random = a;
	st_cpu_random(&k);
	/* rows 4..6, columns 5..9: row 6 and columns from 8 on are padding */
	a.extent[0] = 3;
	a.extent[1] = 5;
	a.begin[0] = 4;
	a.begin[1] = 5;
	a.count = 15;
	k.random = a;
	ptr[0] = shard;
	st_cpu_random(&k);
	for (int i = 0; i < 15; i++) {
		int row = 4 + i / 5, column = 5 + i % 5;
		float want = row < 6 && column < 8 ? whole[row * 8 + column]
						   : 0;

		cr_expect_eq(shard[i], want, "%d", i);
	}
	/* and a flat part of that shard, which runs over its end */
	a.first = 2;
	a.count = 7;
	k.random = a;
	ptr[0] = part;
	st_cpu_random(&k);
	same_floats(part, shard + 2, 7, "part");
	k.random.first = 12;
	st_cpu_random(&k);
	same_floats(part, shard + 12, 3, "end");
	for (int i = 3; i < 7; i++)
		cr_expect_eq(part[i], 0);
}

Test(kernels_edge, random_is_the_same_at_every_level)
{
	enum { N = 100003 };
	static st_kernel_fn *const levels[] = {st_base_random, st_v3_random,
					       st_v4_random};
	static float x[2][N];
	void *ptr[1];
	struct st_kernel k = {.dtype = ST_F32, .ptr = ptr};

	k.random = (struct st_random_args){.seed = 7, .deviation = 0.02,
					   .dims = 1, .extent = {N},
					   .limit = {N}, .stride = {1},
					   .count = N};
	ptr[0] = x[0];
	levels[0](&k);
	ptr[0] = x[1];
	for (int v = 1; v <= (int)st_cpu_level(); v++) {
		levels[v](&k);
		same_floats(x[1], x[0], N, "random");
	}
}

Test(kernels_edge, random_is_normal)
{
	enum { N = 1 << 16 };
	static double x[N];
	double moment[5] = {0};
	void *ptr[] = {x};
	struct st_kernel k = {.dtype = ST_F64, .ptr = ptr};

	k.random = (struct st_random_args){.seed = 9, .deviation = 2,
					   .dims = 1, .extent = {N},
					   .limit = {N}, .stride = {1},
					   .count = N};
	st_cpu_random(&k);
	for (int i = 0; i < N; i++)
		for (int j = 1; j < 5; j++)
			moment[j] += pow(x[i] / 2, j) / N;
	/* four standard errors: sqrt(1, 2, 15, 96) / sqrt(N) */
	cr_expect_float_eq(moment[1], 0, 4 / 256.0);
	cr_expect_float_eq(moment[2], 1, 4 * 1.414 / 256);
	cr_expect_float_eq(moment[3], 0, 4 * 3.873 / 256);
	cr_expect_float_eq(moment[4], 3, 4 * 9.798 / 256);
}

static uint16_t
to_bf16(double x, int32_t from, st_kernel_fn *cast)
{
	float narrow = (float)x;
	uint16_t y = 0;
	void *ptr[] = {from == ST_F64 ? (void *)&x : &narrow, &y};
	struct st_kernel k = {.ptr = ptr};

	k.cast.count = 1;
	k.cast.from = from;
	k.cast.to = ST_BF16;
	cr_expect_eq(cast(&k), 0);
	return y;
}

Test(kernels_edge, bf16_rounds_to_nearest_even)
{
	static const struct {
		double x;
		uint16_t want;
	} rows[] = {
		{0, 0}, {-0.0, 0x8000}, {1, 0x3f80}, {-2.5, 0xc020},
		{0x1.01p0, 0x3f80}, {0x1.03p0, 0x3f82},       /* ties */
		{0x1.010002p0, 0x3f81}, {0x1.00fffep0, 0x3f80},
		{0x1.fffffep127, 0x7f80}, {0x1.fep127, 0x7f7f},
		{INFINITY, 0x7f80}, {-INFINITY, 0xff80},
		{0x1p-133, 0x0001}, {0x1p-134, 0x0000}, {0x1.8p-133, 0x0002},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		cr_expect_eq(to_bf16(rows[i].x, ST_F32, st_ref_cast),
			     rows[i].want, "%zu", i);
		cr_expect_eq(to_bf16(rows[i].x, ST_F32, st_cpu_cast),
			     rows[i].want, "%zu", i);
		cr_expect_eq(to_bf16(rows[i].x, ST_F64, st_cpu_cast),
			     rows[i].want, "%zu", i);
	}
	/* Above a tie by less than a float shows, and below one. */
	cr_expect_eq(to_bf16(0x1.0100000001p0, ST_F64, st_cpu_cast), 0x3f81);
	cr_expect_eq(to_bf16(-0x1.0100000001p0, ST_F64, st_cpu_cast), 0xbf81);
	cr_expect_eq(to_bf16(0x1.02ffffffffp0, ST_F64, st_cpu_cast), 0x3f81);
	cr_expect_eq(to_bf16(1e300, ST_F64, st_cpu_cast), 0x7f80);
	cr_expect_eq(to_bf16((double)NAN, ST_F64, st_cpu_cast) & 0x7fc0,
		     0x7fc0);
}

Test(kernels_edge, casts_between_all_pairs)
{
	static const double values[] = {0, -1, 2.5, 1024, -3};
	static const int32_t types[] = {ST_F64, ST_F32, ST_BF16, ST_I32};

	for (int from = 0; from < 4; from++) {
		for (int to = 0; to < 3; to++) {
			double buffers[3][5] = {{0}};
			void *ptr[2];
			struct st_kernel k = {.ptr = ptr};
			int32_t path[] = {ST_F64, types[from], types[to],
					  ST_F64};
			int32_t whole[] = {0, -1, 2, 1024, -3};

			k.cast.count = 5;
			memcpy(buffers[0], values, sizeof(values));
			for (int i = 0; i < 3; i++) {
				ptr[0] = buffers[i];
				ptr[1] = i == 2 ? buffers[0] : buffers[i + 1];
				k.cast.from = path[i];
				k.cast.to = path[i + 1];
				if (path[i + 1] == ST_I32)
					memcpy(ptr[1], whole, sizeof(whole));
				else
					cr_expect_eq(st_cpu_cast(&k), 0);
			}
			for (int i = 0; i < 5; i++)
				cr_expect_eq(buffers[0][i],
					     types[from] == ST_I32
						     ? whole[i]
						     : values[i],
					     "%d -> %d", from, to);
		}
	}
}

static st_reduce_fn *const REDUCE[] = {st_cpu_reduce, st_base_reduce,
				       st_v3_reduce, st_v4_reduce};

/* Those that this machine runs, the dispatcher first. */
static int
reduce_count(void)
{
	return (int)st_cpu_level() + 2;
}

/* (2^24 + 1) - 2^24: what comes out tells the order. */
Test(kernels_edge, reduce_in_the_order_of_ranks)
{
	enum { N = 2500 };
	static float x[3][N], y[N];
	const void *order[][3] = {{x[0], x[1], x[2]}, {x[0], x[2], x[1]}};

	for (int i = 0; i < N; i++) {
		x[0][i] = 16777216;
		x[1][i] = 1;
		x[2][i] = -16777216;
	}
	for (int r = 0; r < reduce_count(); r++) {
		for (int o = 0; o < 2; o++) {
			REDUCE[r](ST_F32, ST_CPU_SUM, y, order[o], 3, N);
			for (int i = 0; i < N; i++)
				cr_expect_eq(y[i], (float)o, "%d %d", r, o);
		}
	}
}

Test(kernels_edge, reduce_over_an_input)
{
	enum { N = 2500 };
	static double x[3][N], want[N];
	const void *in[] = {x[0], x[1], x[2]};

	for (int r = 0; r < reduce_count(); r++) {
		for (int over = 0; over < 3; over++) {
			for (int i = 0; i < N; i++) {
				x[0][i] = i * 0.1;
				x[1][i] = 1.0 / (i + 1);
				x[2][i] = -i * 0.01;
				want[i] = x[0][i] + x[1][i] + x[2][i];
			}
			REDUCE[r](ST_F64, ST_CPU_SUM, x[over], in, 3, N);
			cr_expect_arr_eq(x[over], want, sizeof(want), "%d %d",
					 r, over);
		}
	}
}

/* 1 + 2^-8 + 2^-8 is 1 + 2^-7 in float and 1 if each step is rounded. */
Test(kernels_edge, reduce_bf16_in_float)
{
	uint16_t one = 0x3f80, small = 0x3b80, nan = 0x7fc0, y;
	const void *in[] = {&one, &small, &small};
	const void *bad[] = {&nan, &one, &small};

	for (int r = 0; r < reduce_count(); r++) {
		REDUCE[r](ST_BF16, ST_CPU_SUM, &y, in, 3, 1);
		cr_expect_eq(y, 0x3f81);
		REDUCE[r](ST_BF16, ST_CPU_MAX, &y, in, 3, 1);
		cr_expect_eq(y, one);
		REDUCE[r](ST_BF16, ST_CPU_MAX, &y, bad, 3, 1);
		cr_expect_eq(y & 0x7fc0, 0x7fc0);
	}
}

Test(kernels_edge, reduce_integers_and_maxima)
{
	int32_t a[] = {1, -5, INT32_MAX}, b[] = {2, -7, 1}, y[3];
	float u[] = {1, NAN, -INFINITY}, v[] = {2, 0, -3}, w[3];
	const void *ints[] = {a, b}, *floats[] = {u, v}, *turned[] = {v, u};

	for (int r = 0; r < reduce_count(); r++) {
		REDUCE[r](ST_I32, ST_CPU_SUM, y, ints, 2, 3);
		cr_expect_eq(y[0], 3);
		cr_expect_eq(y[1], -12);
		cr_expect_eq(y[2], INT32_MIN);
		REDUCE[r](ST_I32, ST_CPU_MAX, y, ints, 2, 3);
		cr_expect_eq(y[1], -5);
		REDUCE[r](ST_F32, ST_CPU_MAX, w, floats, 2, 3);
		cr_expect_eq(w[0], 2);
		cr_expect(isnan(w[1]));
		cr_expect_eq(w[2], -3);
		REDUCE[r](ST_F32, ST_CPU_MAX, w, turned, 2, 3);
		cr_expect(isnan(w[1]));
	}
}

struct worker {
	pthread_t thread;
	struct launch matmul, attention;
};

static void *
work(void *user)
{
	struct worker *w = user;

	for (int i = 0; i < 20; i++) {
		launch_narrow(&w->matmul, st_cpu_matmul);
		launch_narrow(&w->attention, st_cpu_attention_grad);
	}
	return NULL;
}

/* Eight ranks at once compute what one does alone. */
Test(kernels_edge, many_threads)
{
	static const int64_t product[MAX_DIMS] = {100, 70, 130, 0, 1, 0, 0};
	static const int64_t heads[MAX_DIMS] = {70, 1, 2, 1, 32, 0};
	struct worker w[9];

	memset(w, 0, sizeof(w));
	for (int i = 0; i < 9; i++) {
		w[i].matmul.state = w[i].attention.state = 3;
		build_matmul(&w[i].matmul, product);
		build_attention_grad(&w[i].attention, heads);
	}
	work(&w[8]);
	for (int i = 0; i < 8; i++)
		cr_assert_eq(pthread_create(&w[i].thread, NULL, work, &w[i]),
			     0);
	for (int i = 0; i < 8; i++) {
		pthread_join(w[i].thread, NULL);
		same_floats(w[i].matmul.buffers[2].narrow,
			    w[8].matmul.buffers[2].narrow, 100 * 70, "matmul");
		same_floats(w[i].attention.buffers[7].narrow,
			    w[8].attention.buffers[7].narrow,
			    w[8].attention.buffers[7].count, "attention");
	}
	for (int i = 0; i < 9; i++) {
		launch_finish(&w[i].matmul);
		launch_finish(&w[i].attention);
	}
}
