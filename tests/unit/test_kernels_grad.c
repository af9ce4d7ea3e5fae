/*
 * Every gradient kernel against central differences of its forward kernel,
 * in double.  The function is L = sum of u y over the forward results named
 * here; the gradient kernel gets u as its dy.
 *
 * A difference over 2h has an error of h^2 f'''/6 (1e-10 for h = 1e-5 and
 * the smooth functions here) and of 1e-16 |L| / h (1e-11 |L|).
 */

#include "test_kernels.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static const double H = 1e-5, TOLERANCE = 1e-7;

struct pair {
	const char *name;
	build_fn *build, *build_grad;
	st_kernel_fn *forward, *grad;
	int y;                /* result of forward that is summed */
	int dy;               /* operand of grad that takes u */
	int wrt[3], of[3];    /* operand of forward, result of grad; -1 ends */
	int64_t shapes[4][MAX_DIMS];
};

#define PAIR(op) \
	#op, build_##op, build_##op##_grad, st_ref_##op, st_ref_##op##_grad

static const struct pair PAIRS[] = {
	{PAIR(activation), 1, 1, {0, -1}, {2},
	 {{20, ST_GELU_TANH}, {20, ST_GELU_ERF}, {20, ST_RELU},
	  {20, ST_SILU}}},
	{PAIR(swiglu), 2, 2, {0, 1, -1}, {3, 4}, {{20}}},
	{PAIR(layernorm), 3, 4, {0, 1, 2}, {5, 6, 7}, {{1, 3}, {4, 9}}},
	{PAIR(rmsnorm), 2, 3, {0, 1, -1}, {4, 5}, {{1, 3}, {4, 9}, {2, 1}}},
	{PAIR(attention), 3, 5, {0, 1, 2}, {6, 7, 8},
	 {{2, 1, 1, 1, 1, 0}, {5, 2, 1, 1, 4, 0}, {6, 1, 2, 3, 3, 2},
	  {3, 1, 1, 1, 300, 0}}},
	{PAIR(attention_qkv), 1, 3, {0, -1}, {4},
	 {{5, 2, 2, 1, 4, 0}, {4, 1, 1, 2, 3, 1}}},
};

/* L = sum u y; columns that no kernel writes are NaN and count nothing. */
static double
loss(const struct pair *pair, struct launch *l, const double *u)
{
	const struct buffer *y = &l->buffers[pair->y];
	double sum = 0;

	launch_wide(l, pair->forward);
	for (int64_t i = 0; i < y->count; i++)
		if (!isnan(y->wide[i]))
			sum += u[i] * y->wide[i];
	return sum;
}

/* The operands that both kernels have come first in both, in the same order
 * but for those that grad does not take; share their values by hand. */
static void
share(const struct pair *pair, struct launch *l, struct launch *g)
{
	for (int i = 0; i < g->k.pointers; i++) {
		struct buffer *to = &g->buffers[i], *from = &l->buffers[i];

		if (to->result || i == pair->dy)
			continue;
		if (pair->forward == st_ref_layernorm && i >= 2)
			from = &l->buffers[i + 2];
		if (pair->forward == st_ref_rmsnorm && i == 2)
			from = &l->buffers[3];
		cr_assert_eq(to->count, from->count, "%s", pair->name);
		memcpy(to->wide, from->wide,
		       (size_t)to->count * sizeof(double));
	}
}

static double
difference(const struct pair *pair, struct launch *l, const double *u,
	   double *x)
{
	double at = *x, above, below;

	*x = at + H;
	above = loss(pair, l, u);
	*x = at - H;
	below = loss(pair, l, u);
	*x = at;
	return (above - below) / (2 * H);
}

static void
compare(const struct pair *pair, int shape, struct launch *l,
	struct launch *g, int i)
{
	struct buffer *x = &l->buffers[pair->wrt[i]];
	const struct buffer *dx = &g->buffers[pair->of[i]];
	const double *u = g->buffers[pair->dy].wide;
	double error = 0, size = 0;

	for (int64_t j = 0; j < x->count; j++) {
		double want = difference(pair, l, u, &x->wide[j]);
		double got = dx->wide[j];

		if (isnan(got))
			got = 0; /* between rows: L does not depend on it */
		error = fmax(error, fabs(got - want));
		size = fmax(size, fabs(want));
	}
	cr_expect(size > 0, "%s", pair->name);
	cr_expect(error <= TOLERANCE * fmax(size, 1e-3),
		  "%s shape %d: gradient of operand %d: %.3g of %.3g",
		  pair->name, shape, pair->wrt[i], error, size);
}

static void
check(const struct pair *pair, int shape)
{
	struct launch l = {.state = 7}, g = {.state = 7};

	pair->build(&l, pair->shapes[shape]);
	pair->build_grad(&g, pair->shapes[shape]);
	launch_wide(&l, pair->forward);
	share(pair, &l, &g);
	launch_wide(&g, pair->grad);
	for (int i = 0; i < 3 && pair->wrt[i] >= 0; i++)
		compare(pair, shape, &l, &g, i);
	launch_finish(&l);
	launch_finish(&g);
}

Test(kernels_grad, central_differences)
{
	for (size_t i = 0; i < sizeof(PAIRS) / sizeof(*PAIRS); i++)
		for (int j = 0; j < 4 && PAIRS[i].shapes[j][0]; j++)
			check(&PAIRS[i], j);
}

/* Rope is linear: its gradient is the inverse turn, so <turn x, u> =
 * <x, inverse u>, and turning back gives x. */
Test(kernels_grad, rope_inverse_is_the_transpose)
{
	static const int64_t turn[MAX_DIMS] = {7, 2, 3, 6, 11, 0};
	static const int64_t back[MAX_DIMS] = {7, 2, 3, 6, 11, 1};
	struct launch x = {.state = 1}, u = {.state = 2}, r = {.state = 3};
	double left = 0, right = 0;

	build_rope(&x, turn);
	build_rope(&u, back);
	build_rope(&r, back);
	launch_wide(&x, st_ref_rope);
	launch_wide(&u, st_ref_rope);
	for (int64_t i = 0; i < x.buffers[0].count; i++) {
		left += x.buffers[1].wide[i] * u.buffers[0].wide[i];
		right += x.buffers[0].wide[i] * u.buffers[1].wide[i];
		r.buffers[0].wide[i] = x.buffers[1].wide[i];
	}
	cr_expect_float_eq(left, right, 1e-12);
	launch_wide(&r, st_ref_rope);
	for (int64_t i = 0; i < x.buffers[0].count; i++)
		cr_expect_float_eq(r.buffers[1].wide[i], x.buffers[0].wide[i],
				   1e-14);
	launch_finish(&x);
	launch_finish(&u);
	launch_finish(&r);
}

/* Embedding is linear in the table. */
Test(kernels_grad, embedding_grad_is_the_transpose)
{
	static const int64_t dims[MAX_DIMS] = {5, 2, 40, 8, 30, 27, 57};
	struct launch w = {.state = 1}, u = {.state = 1};
	double left = 0, right = 0;

	build_embedding(&w, dims);
	build_embedding_grad(&u, dims);
	cr_assert_arr_eq(w.buffers[0].ids, u.buffers[0].ids, 40);
	launch_wide(&w, st_ref_embedding);
	launch_wide(&u, st_ref_embedding_grad);
	for (int64_t i = 0; i < u.buffers[1].count; i++)
		left += w.buffers[2].wide[i] * u.buffers[1].wide[i];
	for (int64_t i = 0; i < w.buffers[1].count; i++)
		right += w.buffers[1].wide[i] * u.buffers[2].wide[i];
	cr_expect(fabs(left) > 0.01);
	cr_expect_float_eq(left, right, 1e-12);
	launch_finish(&w);
	launch_finish(&u);
}

/* The chain max, sum, loss as one function of the logits. */
static double
cross_entropy(const struct st_vocab_args *a, double *logits, int32_t *targets,
	      double *m, double *s)
{
	double z[64], out;
	void *max_ptr[] = {logits, m};
	void *sum_ptr[] = {logits, targets, m, s, z};
	void *loss_ptr[] = {m, s, z, &out};
	struct st_kernel k = {.dtype = ST_F64, .vocab = *a};

	k.ptr = max_ptr;
	st_ref_xent_max(&k);
	k.ptr = sum_ptr;
	st_ref_xent_sum(&k);
	k.ptr = loss_ptr;
	st_ref_xent_loss(&k);
	return out;
}

Test(kernels_grad, cross_entropy)
{
	static const int64_t dims[MAX_DIMS] = {4, 3, 12, 0, 0, 10, 10};
	struct launch g = {.state = 3};
	struct st_vocab_args *a = &g.k.vocab;
	double *x, m[12], s[12];
	int32_t *targets;

	build_xent_grad(&g, dims);
	x = g.buffers[0].wide;
	targets = g.buffers[1].ids;
	cross_entropy(a, x, targets, g.buffers[2].wide, g.buffers[3].wide);
	launch_wide(&g, st_ref_xent_grad);
	for (int64_t i = 0; i < g.buffers[0].count; i++) {
		double at = x[i], above, below;

		x[i] = at + H;
		above = cross_entropy(a, x, targets, m, s);
		x[i] = at - H;
		below = cross_entropy(a, x, targets, m, s);
		x[i] = at;
		cr_expect_float_eq(g.buffers[4].wide[i],
				   (above - below) / (2 * H), 1e-9);
	}
	launch_finish(&g);
}
