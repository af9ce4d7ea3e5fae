/*
 * Matrix products inside a training step against the library alone, on the
 * same shapes: a model of ten million parameters on one rank.
 *
 * Each round runs one step and then every product of it by the library, so
 * both see the same machine.  What is compared is the sum over the products
 * of the median over the rounds: a machine that is slow for a while slows
 * single rounds of either side.
 *
 * usage: bench_step [ROUNDS]
 */

#include "kernels/cpu/cpu.h"
#include "runtime/bind.h"
#include "tests/train/harness.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char net[] =
	"stretto: 1\n"
	"model: {model_type: gpt2, vocab_size: 256, n_positions: 256,\n"
	"  n_embd: 320, n_layer: 8, n_head: 5, activation_function: gelu_new,\n"
	"  layer_norm_epsilon: 1e-5}\n"
	"training: {seq_len: 256, micro_batch_size: 4, dtype: f32}\n";

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void *
random_floats(int64_t n)
{
	float *x = malloc((size_t)n * sizeof(*x));

	for (int64_t i = 0; i < n; i++)
		x[i] = (float)rand() / (float)RAND_MAX - 0.5f;
	return x;
}

enum { MOST_ROUNDS = 64, MOST_PRODUCTS = 1024 };

/* Milliseconds by product and round. */
struct product {
	uint32_t node; /* in the entry */
	struct st_matmul_args args;
	double inside[MOST_ROUNDS], alone[MOST_ROUNDS];
};

static struct product products[MOST_PRODUCTS];
static int product_count;

static int
find_products(const struct run *run)
{
	const struct st_module *m = run->module;
	const struct st_entry *e = &m->entries.at[run->step];

	for (uint32_t i = 0; i < e->nodes; i++) {
		const struct st_node *node = &m->nodes.at[e->first_node + i];
		struct st_bind b = {m, node, 0};
		struct st_kernel k;

		if (node->op != ST_OP_matmul)
			continue;
		if (product_count == MOST_PRODUCTS)
			return 1;
		memset(&k, 0, sizeof(k));
		st_bind_matmul(&b, &k);
		products[product_count].node = i;
		products[product_count++].args = k.matmul;
	}
	return 0;
}

/* The library for one product: the better of two, so that the first one's
 * cold operands do not count against it. */
static double
library_ms(const struct st_matmul_args *a)
{
	float *x = random_floats(a->m * a->k), *y = random_floats(a->k * a->n);
	float *z = random_floats(a->m * a->n);
	double best = 1e9;

	for (int i = 0; i < 2; i++) {
		double start = now(), took;

		cblas_sgemm(CblasRowMajor,
			    a->trans_a ? CblasTrans : CblasNoTrans,
			    a->trans_b ? CblasTrans : CblasNoTrans, (int)a->m,
			    (int)a->n, (int)a->k, 1, x, (int)a->lda, y,
			    (int)a->ldb, (float)a->accumulate, z, (int)a->ldc);
		took = now() - start;
		best = took < best ? took : best;
	}
	free(x);
	free(y);
	free(z);
	return best;
}

static int
by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double
median(const double *x, int n)
{
	double sorted[MOST_ROUNDS];

	memcpy(sorted, x, (size_t)n * sizeof(*x));
	qsort(sorted, (size_t)n, sizeof(*sorted), by_size);
	return sorted[n / 2];
}

static int
play_round(struct run *run, int round)
{
	const struct st_trace_time *t;
	double loss, inside = 0, alone = 0, start = now(), step;

	if (run_step(run, &loss))
		return 1;
	step = now() - start;
	t = st_session_trace(run->session, 0, run->step);
	for (int i = 0; i < product_count; i++) {
		struct product *p = &products[i];

		p->inside[round] =
			(double)(t[p->node].end - t[p->node].begin) / 1e6;
		p->alone[round] = library_ms(&p->args);
		inside += p->inside[round];
		alone += p->alone[round];
	}
	printf("step %.0f ms: products %.0f ms, library alone %.0f ms, "
	       "ratio %.3f\n",
	       step, inside, alone, alone / inside);
	return 0;
}

static void
sum_up(int rounds)
{
	double inside = 0, alone = 0, flop = 0;

	for (int i = 0; i < product_count; i++) {
		const struct st_matmul_args *a = &products[i].args;

		inside += median(products[i].inside, rounds);
		alone += median(products[i].alone, rounds);
		flop += 2.0 * (double)a->m * (double)a->n * (double)a->k;
	}
	printf("%d products, medians of %d rounds: %.1f GFLOP/s in the step, "
	       "%.1f GFLOP/s alone, ratio %.3f\n",
	       product_count, rounds, flop / inside / 1e6, flop / alone / 1e6,
	       alone / inside);
}

int
main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 7;
	struct run run;
	double loss;

	if (rounds < 1 || rounds > MOST_ROUNDS)
		return 2;
	run_trace = 1;
	if (run_open(&run, net, "") || run_step(&run, &loss) ||
	    find_products(&run))
		return 1;
	printf("%lld parameters, batch %lld x %lld\n",
	       (long long)st_module_parameters(run.module), (long long)run.rows,
	       (long long)run.length);
	for (int i = 0; i < rounds; i++)
		if (play_round(&run, i))
			return 1;
	sum_up(rounds);
	run_close(&run);
	return 0;
}
