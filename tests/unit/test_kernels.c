/*
 * Every fast kernel at every level that this machine runs, against the
 * reference in double, over shapes that are odd, tiny, padded and cut.
 */

#include "test_kernels.h"

#include "kernels/cpu/level.h"

#include <criterion/criterion.h>
#include <math.h>

enum { SHAPES = 9 };

struct row {
	const char *name;
	build_fn *build;
	st_kernel_fn *ref, *levels[ST_LEVEL_COUNT], *cpu;
	/* Largest sqrt(sum (fast - double)^2 / sum double^2) of a result.  One
	 * rounding of a result gives at most 6e-8, typically 3e-8. */
	double tolerance;
	int64_t shapes[SHAPES][MAX_DIMS]; /* until one that begins with 0 */
};

#define LEVELS(op)                                                         \
	#op, build_##op, st_ref_##op,                                      \
		{st_base_##op, st_v3_##op, st_v4_##op}, st_cpu_##op
#define PLAIN(op) #op, build_##op, st_ref_##op, {0}, st_cpu_##op

#define ATTENTION_SHAPES                                                   \
	{                                                                  \
		{1, 1, 1, 1, 1, 0}, {3, 2, 1, 1, 5, 0},                    \
		{16, 1, 2, 1, 32, 0}, {65, 2, 1, 3, 16, 3},                \
		{64, 1, 1, 2, 64, 0}, {130, 1, 2, 2, 33, 1},               \
		{97, 3, 1, 1, 128, 0}, {200, 1, 1, 1, 8, 0}                \
	}
#define NORM_SHAPES                                                        \
	{                                                                  \
		{1, 3}, {1, 7}, {5, 16}, {33, 33}, {70, 768}, {3, 1025},   \
		{40, 600}                                                  \
	}
#define COUNTS {{1}, {15}, {16}, {17}, {1000}, {4099}}
#define KINDS                                                              \
	{                                                                  \
		{1000, ST_GELU_TANH}, {1000, ST_GELU_ERF},                 \
		{1000, ST_RELU}, {1000, ST_SILU}, {1, ST_GELU_TANH},       \
		{17, ST_GELU_ERF}, {16, ST_SILU}, {3, ST_RELU}             \
	}
/* t b v c start valid total */
#define VOCAB_SHAPES                                                       \
	{                                                                  \
		{1, 1, 2, 1, 0, 2, 2}, {4, 3, 10, 5, 0, 10, 10},           \
		{7, 2, 16, 33, 10, 16, 40}, {5, 2, 40, 8, 30, 27, 57},     \
		{3, 3, 1031, 65, 0, 1000, 1000},                           \
		{6, 1, 12, 4, 60, 0, 60}                                   \
	}

static const struct row ROWS[] = {
	/* A sum of k <= 300 products: rounding errors grow like sqrt k. */
	{PLAIN(matmul), 5e-7,
	 {{1, 1, 1, 0, 0, 0, 0}, {5, 7, 3, 0, 0, 0, 2},
	  {33, 17, 65, 1, 0, 0, 1},
	  {16, 48, 300, 0, 1, 0, 0}, {65, 31, 40, 1, 1, 1, 3},
	  {64, 64, 64, 0, 0, 1, 0}, {1, 50, 128, 0, 1, 1, 0},
	  {128, 1, 33, 1, 0, 0, 0}}},
	/* One rounding. */
	{LEVELS(add), 6e-8,
	 {{1, 1, 1, 0, 0, 0, 1}, {1, 1, 77, 0, 0, 1, 77},
	  {3, 5, 19, 0, 0, 1, 19}, {3, 5, 19, 0, 19, 1, 95},
	  {3, 5, 19, 19, 0, 1, 57}, {3, 5, 19, 5, 1, 0, 15},
	  {4, 6, 33, 0, 1, 0, 6}, {2, 3, 4, 1, 2, 6, 24}}},
	/* Blocked sums of up to 600. */
	{LEVELS(reduce_sum), 4e-7,
	 {{1, 1, 1, 0, 0, 0, 1}, {1, 1, 77, 0, 0, 1, 77},
	  {3, 200, 19, 0, 0, 1, 19}, {3, 5, 530, 0, 530, 1, 2650},
	  {3, 50, 19, 19, 0, 1, 60}, {3, 5, 19, 5, 1, 0, 15},
	  {4, 6, 33, 0, 1, 0, 6}, {2, 3, 4, 1, 2, 6, 24},
	  {3, 5, 40, 0, 0, 0, 1}}},
	/* n - 1 roundings against one. */
	{PLAIN(sum), 2e-7, {{1, 1}, {17, 2}, {1025, 3}, {3000, 8}}},
	/* Two: the factor becomes a float. */
	{LEVELS(scale), 1.2e-7, COUNTS},
	{PLAIN(fill), 0, COUNTS},
	{PLAIN(copy), 0, COUNTS},
	{PLAIN(only), 0, {{1, 0}, {1000, 0}, {1, 1}, {1000, 1}}},
	/* exp within 1.5 ulp, a division, and the rounding of u in exp(u). */
	{LEVELS(activation), 2e-7, KINDS},
	{LEVELS(activation_grad), 2e-7, KINDS},
	{LEVELS(swiglu), 2e-7, COUNTS},
	{LEVELS(swiglu_grad), 2e-7, COUNTS},
	{PLAIN(cast), 0, COUNTS},
	/* Subtraction of the mean, two means, five roundings. */
	{LEVELS(layernorm), 3e-7, NORM_SHAPES},
	{LEVELS(rmsnorm), 2e-7, NORM_SHAPES},
	/* Differences of means, times rstd: c = 3 leaves little of g. */
	{LEVELS(layernorm_grad), 1e-6, NORM_SHAPES},
	{LEVELS(rmsnorm_grad), 1e-6, NORM_SHAPES},
	/* Angles in double; two products and a sum. */
	{LEVELS(rope), 1e-7,
	 {{1, 1, 1, 2, 0, 0}, {3, 2, 3, 6, 0, 0}, {5, 1, 1, 64, 1000, 0},
	  {130, 2, 2, 32, 5, 1}, {3, 1, 1, 300, 7, 0}}},
	/* Scores of size 10 carry an absolute error of 10 eps into exp. */
	{LEVELS(attention), 1e-6, ATTENTION_SHAPES},
	{LEVELS(attention_qkv), 1e-6, ATTENTION_SHAPES},
	/* As much again from lse, and the difference dp - D. */
	{LEVELS(attention_grad), 3e-6, ATTENTION_SHAPES},
	{LEVELS(attention_qkv_grad), 3e-6, ATTENTION_SHAPES},
	{LEVELS(embedding), 0, VOCAB_SHAPES},
	/* A token is met a few times: a rounding for each. */
	{LEVELS(embedding_grad), 2e-7, VOCAB_SHAPES},
	{LEVELS(xent_max), 0, VOCAB_SHAPES},
	/* The argument of exp is rounded: 10 eps at its largest, where the
	 * summand is small. */
	{LEVELS(xent_sum), 3e-7, VOCAB_SHAPES},
	{PLAIN(xent_loss), 6e-8, VOCAB_SHAPES},
	{LEVELS(xent_grad), 4e-7, VOCAB_SHAPES},
	/* Blocked sum. */
	{LEVELS(sumsq), 2e-7, {{1}, {15}, {17}, {4096}, {10000}}},
	{PLAIN(clip), 6e-8, {{1, 0}, {1, 1}, {1, 100}}},
	{PLAIN(learning_rate), 6e-8, {{1, 1}, {1, 10}, {1, 55}, {1, 200}}},
	/* beta as float: 1 - beta2 = 0.05 to 1e-7; about eight roundings. */
	{LEVELS(adamw), 3e-7, {{1, 1}, {15, 2}, {17, 1000}, {1000, 3}}},
	/* Rounding to float; log and cos are far better. */
	{LEVELS(random), 6e-8, {{1, 1}, {7, 5}, {33, 64}, {100, 999}}},
	{PLAIN(slice), 0,
	 {{1, 1, 1, 0, 1}, {3, 5, 7, 2, 2}, {2, 5, 3, 4, 3}, {2, 5, 3, 6, 2}}},
	{PLAIN(unslice), 0,
	 {{1, 1, 1, 0, 1}, {3, 5, 7, 2, 2}, {2, 5, 3, 4, 3}, {2, 5, 3, 6, 2}}},
};

static void
check_results(const struct row *row, const char *which, int shape,
	      const struct launch *l, double tolerance)
{
	for (int i = 0; i < l->k.pointers; i++) {
		double error;

		if (!l->buffers[i].result || l->buffers[i].ids)
			continue;
		error = launch_error(l, i);
		cr_expect(error <= tolerance,
			  "%s (%s) shape %d, pointer %d: error %.3g > %.3g",
			  row->name, which, shape, i, error, tolerance);
	}
}

static void
check(const struct row *row, const char *which, st_kernel_fn *fn, int shape,
      double tolerance)
{
	struct launch l = {.state = (uint64_t)shape};

	row->build(&l, row->shapes[shape]);
	cr_expect(launch_wide(&l, row->ref) == ST_KERNEL_OK);
	cr_expect(launch_narrow(&l, fn) == ST_KERNEL_OK);
	check_results(row, which, shape, &l, tolerance);
	launch_finish(&l);
}

static int
shape_count(const struct row *row)
{
	int n = 0;

	while (n < SHAPES && row->shapes[n][0])
		n++;
	return n;
}

static int
row_count(void)
{
	return (int)(sizeof(ROWS) / sizeof(*ROWS));
}

Test(kernels, fast_against_double)
{
	for (int i = 0; i < row_count(); i++)
		for (int j = 0; j < shape_count(&ROWS[i]); j++)
			check(&ROWS[i], "cpu", ROWS[i].cpu, j,
			      ROWS[i].tolerance);
}

Test(kernels, every_level_against_double)
{
	static const char *const names[] = {"base", "v3", "v4"};

	for (int i = 0; i < row_count(); i++)
		for (int v = 0; v <= (int)st_cpu_level(); v++)
			for (int j = 0; j < shape_count(&ROWS[i]); j++)
				if (ROWS[i].levels[v])
					check(&ROWS[i], names[v],
					      ROWS[i].levels[v], j,
					      ROWS[i].tolerance);
}

/* The float reference rounds once, except where it adds up in place. */
Test(kernels, float_reference_against_double)
{
	for (int i = 0; i < row_count(); i++)
		for (int j = 0; j < shape_count(&ROWS[i]); j++)
			check(&ROWS[i], "ref", ROWS[i].ref, j,
			      ROWS[i].ref == st_ref_embedding_grad ? 2e-7
								   : 6e-8);
}

/* The same launch twice gives the same bits. */
Test(kernels, repeatable)
{
	for (int i = 0; i < row_count(); i++) {
		struct launch a = {.state = 1}, b = {.state = 1};

		ROWS[i].build(&a, ROWS[i].shapes[1]);
		ROWS[i].build(&b, ROWS[i].shapes[1]);
		launch_narrow(&a, ROWS[i].cpu);
		launch_narrow(&b, ROWS[i].cpu);
		for (int j = 0; j < a.k.pointers; j++)
			if (!a.buffers[j].ids)
				cr_expect_arr_eq(a.buffers[j].narrow,
						 b.buffers[j].narrow,
						 (size_t)a.buffers[j].count *
							 sizeof(float),
						 "%s", ROWS[i].name);
		launch_finish(&a);
		launch_finish(&b);
	}
}

/* Every op of the list has a row, but for the one without a float. */
Test(kernels, table_is_complete)
{
	int ops = 0;

#define X(name) ops++;
	ST_CPU_OPS(X)
#undef X
	cr_expect(row_count() == ops - 1, "%d rows, %d ops", row_count(), ops);
}
