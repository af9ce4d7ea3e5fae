/*
 * Ranks as threads under a thread sanitizer: steps of small nets in several
 * layouts, and ranks that fail while the others wait for them.  Plain
 * kernels: the matrix library is not instrumented.
 */

#include "tests/train/harness.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define P "parallelism."
#define T "training."

enum { STEPS = 5 };

static const struct {
	const char *name, *net, *sets;
} layouts[] = {
	{"gpt2, dp 2", net_gpt2, P "dp_replicate=2 " T "micro_batch_size=4"},
	{"gpt2, tp 2", net_gpt2, P "tp=2"},
	{"gpt2, dp 2, tp 2, sequence parallel", net_gpt2,
	 P "dp_replicate=2 " P "tp=2 " P "sequence_parallel=true " T
	   "micro_batch_size=4"},
	{"gpt2, ZeRO 1", net_gpt2,
	 P "dp_shard=2 " P "zero_stage=1 " T "micro_batch_size=4"},
	{"gpt2, ZeRO 2, 4 micro-batches", net_gpt2,
	 P "dp_shard=2 " P "zero_stage=2 " T "micro_batch_size=1"},
	{"llama, ZeRO 3, 4 micro-batches", net_llama,
	 P "dp_shard=2 " P "zero_stage=3 " T "micro_batch_size=1"},
	{"llama, ZeRO 3, tp 2, recompute", net_llama,
	 P "dp_shard=2 " P "tp=2 " T "micro_batch_size=4 " T
	   "recompute=full"},
};

enum { LAYOUTS = sizeof(layouts) / sizeof(layouts[0]) };

static void
check_layout(int i)
{
	char sets[512];
	struct run run;
	double loss = NAN, first = NAN;

	snprintf(sets, sizeof(sets),
		 T "dtype=f32 %s", layouts[i].sets);
	if (run_open(&run, layouts[i].net, sets)) {
		check(0, "%s: open", layouts[i].name);
		return;
	}
	for (int step = 0; step < STEPS; step++) {
		check(run_step(&run, &loss) == 0 && isfinite(loss),
		      "%s: step %d", layouts[i].name, step);
		if (step == 0)
			first = loss;
	}
	check(loss < first, "%s: the loss falls, %g to %g", layouts[i].name,
	      first, loss);
	run_close(&run);
}

/* Runs an entry on tokens of which one lies outside the vocabulary. */
static enum st_status
run_bad(struct run *run, uint32_t entry, int64_t where)
{
	size_t n = (size_t)(run->rows * run->length);

	memset(run->tokens, 0, n * sizeof(int32_t));
	memset(run->targets, 0, n * sizeof(int32_t));
	run->tokens[where] = 61; /* the vocabulary ends at 60 */
	st_session_write_input(run->session, entry, "tokens", run->tokens,
			       n * sizeof(int32_t));
	st_session_write_input(run->session, entry, "targets", run->targets,
			       n * sizeof(int32_t));
	return st_session_run(run->session, entry);
}

/*
 * The rank that fails is that which has the row: the others stand in a
 * collective by then and must come back.  The message names it and the op.
 */
static void
check_failure(int last_row)
{
	char rank[16];
	struct run run;
	const char *text;
	int64_t where;

	if (run_open(&run, net_gpt2,
		     T "dtype=f32 " P "tp=2 " P "dp_replicate=2 " T
		       "micro_batch_size=4")) {
		check(0, "failure: open");
		return;
	}
	where = last_row ? run.rows * run.length - 1 : 0;
	check(run_bad(&run, run.eval, where) == ST_EINPUT,
	      "failure: not reported");
	check(run.diag.count == 1, "failure: %zu messages", run.diag.count);
	text = run.diag.count ? run.diag.messages[0].text : "";
	/* Ranks 0 and 1 have the first half of the rows, 2 and 3 the other. */
	snprintf(rank, sizeof(rank), "rank %d", last_row ? 2 : 0);
	check(strstr(text, "embedding") && strstr(text, "vocabulary"),
	      "failure: %s", text);
	check(strstr(text, rank) ||
		      strstr(text, last_row ? "rank 3" : "rank 1"),
	      "failure: the rank in: %s", text);
	/* It stays failed, whatever is run, and still neither hangs nor
	 * crashes. */
	check(st_session_run(run.session, run.init) == ST_EINPUT,
	      "failure: once more");
	text = run.diag.messages[run.diag.count - 1].text;
	check(strstr(text, "can only be closed") && strstr(text, "vocabulary"),
	      "failure: once more: %s", text);
	run_close(&run);
}

int
main(void)
{
	run_reference = 1;
	for (int i = 0; i < LAYOUTS; i++)
		check_layout(i);
	check_failure(0);
	check_failure(1);
	return finish();
}
