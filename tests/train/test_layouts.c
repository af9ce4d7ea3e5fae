/*
 * One model, many layouts: the loss curve must not depend on how the work is
 * spread over ranks, cut into micro-batches, or computed again.
 */

#include "tests/train/harness.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEPS = 50 };

#define P "parallelism."
#define T "training."

static const struct {
	const char *name, *sets;
} layouts[] = {
	{"dp=2", P "dp_replicate=2 " T "micro_batch_size=4"},
	{"tp=2", P "tp=2"},
	{"tp=2, sequence parallel", P "tp=2 " P "sequence_parallel=true"},
	{"dp=2, tp=2", P "dp_replicate=2 " P "tp=2 " T "micro_batch_size=4 " P
		       "sequence_parallel=true"},
	{"ZeRO 1", P "dp_shard=2 " P "zero_stage=1 " T "micro_batch_size=4"},
	{"ZeRO 2", P "dp_shard=2 " P "zero_stage=2 " T "micro_batch_size=4"},
	{"ZeRO 3", P "dp_shard=2 " P "zero_stage=3 " T "micro_batch_size=4"},
	{"ZeRO 3, four ranks",
	 P "dp_shard=4 " P "zero_stage=3 " T "micro_batch_size=2"},
	{"ZeRO 3, dp=2, tp=2", P "dp_shard=2 " P "dp_replicate=2 " P "tp=2 " P
			       "sequence_parallel=true " T
			       "micro_batch_size=2"},
	{"4 micro-batches", T "micro_batch_size=2"},
	{"4 micro-batches, ZeRO 1",
	 P "dp_shard=2 " P "zero_stage=1 " T "micro_batch_size=1"},
	{"4 micro-batches, ZeRO 2",
	 P "dp_shard=2 " P "zero_stage=2 " T "micro_batch_size=1"},
	{"4 micro-batches, ZeRO 3, tp=2",
	 P "dp_shard=2 " P "tp=2 " P "sequence_parallel=true " T
	   "micro_batch_size=1"},
	{"overlap off", P "dp_shard=2 " P "tp=2 " P "sequence_parallel=true " T
			  "micro_batch_size=4 overlap.policy=none"},
	{"two pieces", P "tp=2 overlap.split=2"},
	{"four pieces, sequence parallel, recompute full",
	 P "tp=2 " P "sequence_parallel=true " T
	   "recompute=full overlap.split=4"},
	{"two pieces, ZeRO 3, tp=2",
	 P "dp_shard=2 " P "tp=2 " P "sequence_parallel=true " T
	   "micro_batch_size=4 overlap.split=2"},
	{"two pieces, 2 micro-batches, ZeRO 2",
	 P "dp_shard=2 " P "zero_stage=2 " T
	   "micro_batch_size=2 overlap.split=2"},
	{"recompute full", T "recompute=full"},
	{"recompute selective", T "recompute=selective"},
	{"recompute full, ZeRO 3, tp=2",
	 P "dp_shard=2 " P "tp=2 " P "sequence_parallel=true " T
	   "micro_batch_size=4 " T "recompute=full"},
};

enum { LAYOUTS = sizeof(layouts) / sizeof(layouts[0]) };

static int
curve(const char *net, const char *sets, const char *dtype,
      double losses[STEPS])
{
	char all[512];
	struct run run;
	int status;

	snprintf(all, sizeof(all), "training.dtype=%s %s", dtype, sets);
	status = run_open(&run, net, all);
	for (int i = 0; i < STEPS && !status; i++)
		status = run_step(&run, &losses[i]);
	run_close(&run);
	return status;
}

static double
distance(const double *a, const double *b)
{
	double most = 0;

	/* fmax would pass over a NaN. */
	for (int i = 0; i < STEPS; i++)
		if (!(fabs(a[i] - b[i]) <= most))
			most = fabs(a[i] - b[i]);
	return most;
}

static void
compare(const char *family, const char *net, const char *dtype,
	double tolerance)
{
	double one[STEPS], other[STEPS];
	int status = curve(net, "", dtype, one);

	check(status == 0, "%s %s: one rank: status %d", family, dtype,
	      status);
	check(one[STEPS - 1] < one[0] - 0.3, "%s %s: nothing is learnt: %g %g",
	      family, dtype, one[0], one[STEPS - 1]);
	for (int i = 0; i < LAYOUTS; i++) {
		status = curve(net, layouts[i].sets, dtype, other);
		check(status == 0 && distance(one, other) <= tolerance,
		      "%s %s, %s: status %d, differs by %g", family, dtype,
		      layouts[i].name, status, distance(one, other));
	}
}

static void
repeat(const char *family, const char *net)
{
	double a[STEPS], b[STEPS];
	const char *sets = layouts[3].sets;

	check(curve(net, sets, "f32", a) == 0 &&
		      curve(net, sets, "f32", b) == 0 &&
		      memcmp(a, b, sizeof(a)) == 0,
	      "%s: the same layout twice differs", family);
}

int
main(void)
{
	compare("gpt2", net_gpt2, "f64", 1e-10);
	compare("llama", net_llama, "f64", 1e-10);
	compare("gpt2", net_gpt2, "f32", 1e-4);
	compare("llama", net_llama, "f32", 1e-4);
	repeat("gpt2", net_gpt2);
	repeat("llama", net_llama);
	return finish();
}
