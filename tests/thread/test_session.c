/*
 * Ranks as threads under a thread sanitizer: steps of small nets in several
 * layouts, and a rank that fails.  Plain kernels: the matrix library is not
 * instrumented.
 */

#include "tests/train/harness.h"

#include <stdio.h>
#include <string.h>

static void
check_layout(const char *label, const char *net, const char *sets)
{
	struct run run;
	double loss;

	run_reference = 1;
	check(run_open(&run, net, sets) == 0, "%s: open", label);
	for (int i = 0; i < 3; i++)
		check(run_step(&run, &loss) == 0, "%s: step %d", label, i);
	run_close(&run);
}

static void
check_failure(void)
{
	struct run run;
	size_t bytes;

	check(run_open(&run, net_gpt2,
		       "training.dtype=f32 parallelism.tp=2 "
		       "parallelism.dp_replicate=2 "
		       "training.micro_batch_size=4") == 0,
	      "failure: open");
	bytes = (size_t)(run.rows * run.length) * sizeof(int32_t);
	memset(run.tokens, 0, bytes);
	memset(run.targets, 0, bytes);
	run.tokens[0] = 61; /* the vocabulary ends at 60 */
	st_session_write_input(run.session, run.eval, "tokens", run.tokens,
			       bytes);
	st_session_write_input(run.session, run.eval, "targets", run.targets,
			       bytes);
	check(st_session_run(run.session, run.eval) == ST_EINPUT,
	      "failure: not reported");
	check(run.diag.count == 1 &&
		      strstr(run.diag.messages[0].text, "embedding") != NULL,
	      "failure: the message names the op");
	run_close(&run);
}

int
main(void)
{
	check_layout("gpt2, dp 2, tp 2", net_gpt2,
		     "training.dtype=f32 parallelism.tp=2 "
		     "parallelism.dp_replicate=2 "
		     "parallelism.sequence_parallel=true "
		     "training.micro_batch_size=4");
	check_layout("llama, ZeRO 3, 4 micro-batches", net_llama,
		     "training.dtype=f32 parallelism.dp_shard=2 "
		     "training.micro_batch_size=1");
	check_failure();
	return finish();
}
