/*
 * Matrix products inside a training step against the library alone, on the
 * same shapes: a model of ten million parameters on one rank.
 *
 * usage: bench_step [STEPS]
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

/* Milliseconds of the library for one product, the best of five. */
static double
library_ms(const struct st_matmul_args *a)
{
	float *x = random_floats(a->m * a->k), *y = random_floats(a->k * a->n);
	float *z = random_floats(a->m * a->n);
	double best = 1e9;

	for (int i = 0; i < 5; i++) {
		double start = now(), took;

		cblas_sgemm(CblasRowMajor,
			    a->trans_a ? CblasTrans : CblasNoTrans,
			    a->trans_b ? CblasTrans : CblasNoTrans, (int)a->m,
			    (int)a->n, (int)a->k, 1, x, (int)a->lda, y,
			    (int)a->ldb, 0, z, (int)a->ldc);
		took = now() - start;
		best = took < best ? took : best;
	}
	free(x);
	free(y);
	free(z);
	return best;
}

/* The library over every product of a step, one after another. */
static double
library_step_ms(const struct run *run, double *flop)
{
	const struct st_module *m = run->module;
	const struct st_entry *e = &m->entries.at[run->step];
	double sum = 0;

	*flop = 0;
	for (uint32_t i = 0; i < e->nodes; i++) {
		const struct st_node *node = &m->nodes.at[e->first_node + i];
		struct st_bind b = {m, node, 0};
		struct st_kernel k;

		if (node->op != ST_OP_matmul)
			continue;
		memset(&k, 0, sizeof(k));
		st_bind_matmul(&b, &k);
		sum += library_ms(&k.matmul);
		*flop += 2.0 * (double)k.matmul.m * (double)k.matmul.n *
			 (double)k.matmul.k;
	}
	return sum;
}

int
main(int argc, char **argv)
{
	int steps = argc > 1 ? atoi(argv[1]) : 5;
	struct run run;
	double loss, flop, library;

	if (run_open(&run, net, "") || run_step(&run, &loss))
		return 1;
	printf("%lld parameters, batch %lld x %lld\n",
	       (long long)st_module_parameters(run.module),
	       (long long)run.rows, (long long)run.length);
	for (int i = 0; i < steps; i++) {
		int64_t before = st_session_op_ns(run.session, ST_OP_matmul);
		double start = now(), step, matmul;

		if (run_step(&run, &loss))
			return 1;
		step = now() - start;
		matmul = (double)(st_session_op_ns(run.session, ST_OP_matmul) -
				  before) /
			 1e6;
		library = library_step_ms(&run, &flop);
		printf("step %.0f ms: products %.0f ms, %.1f GFLOP/s; "
		       "library alone %.0f ms, %.1f GFLOP/s; ratio %.3f\n",
		       step, matmul, flop / matmul / 1e6, library,
		       flop / library / 1e6, library / matmul);
	}
	run_close(&run);
	return 0;
}
