#ifndef ST_TEST_KERNELS_H
#define ST_TEST_KERNELS_H

/*
 * Launches for the kernel tests: a launch owns its operands and results, in
 * double and in float, with the same values.  Results begin as NaN, so that
 * an element which a kernel forgets is seen.
 */

#include "kernels/cpu/cpu.h"

enum { MAX_BUFFERS = 12, MAX_DIMS = 10 };

struct buffer {
	int64_t count;
	int32_t *ids; /* token ids or a step; NULL for a tensor of numbers */
	double *wide; /* f64 */
	float *narrow; /* f32 */
	int result;
};

struct launch {
	struct st_kernel k;
	struct buffer buffers[MAX_BUFFERS];
	void *ptr[MAX_BUFFERS];
	uint64_t state;   /* of the generator that fills operands */
	int moves, casts; /* element size, dtypes follow the side */
};

typedef void build_fn(struct launch *l, const int64_t *dims);

#define X(name) build_fn build_##name;
ST_CPU_OPS(X)
#undef X

/* Numbers in [-1, 1), the same on every machine. */
double launch_draw(struct launch *l);

void launch_finish(struct launch *l);

/* Runs fn on the double or on the float side. */
int launch_wide(struct launch *l, st_kernel_fn *fn);
int launch_narrow(struct launch *l, st_kernel_fn *fn);

/* Writes NaN over every result that is not an operand as well. */
void launch_clear(struct launch *l);

/* sqrt(sum (got - want)^2 / sum want^2) of result i, float against double;
 * infinite where one is NaN and the other is not. */
double launch_error(const struct launch *l, int i);

#endif
