/*
 * After the first step, steps allocate nothing; and the arena of one rank
 * falls from ZeRO stage to stage.
 *
 * malloc and its kin are counted by wrapping them at link time.
 */

#include "tests/train/harness.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_long allocations;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);

void *
__wrap_malloc(size_t size)
{
	atomic_fetch_add(&allocations, 1);
	return __real_malloc(size);
}

void *
__wrap_calloc(size_t count, size_t size)
{
	atomic_fetch_add(&allocations, 1);
	return __real_calloc(count, size);
}

void *
__wrap_realloc(void *block, size_t size)
{
	atomic_fetch_add(&allocations, 1);
	return __real_realloc(block, size);
}

void *
__wrap_aligned_alloc(size_t align, size_t size)
{
	atomic_fetch_add(&allocations, 1);
	return __real_aligned_alloc(align, size);
}

static void
check_steps(const char *label, const char *sets)
{
	struct run run;
	double loss;
	long before;

	check(run_open(&run, net_gpt2, sets) == 0, "%s: open", label);
	before = atomic_load(&allocations);
	check(before > 0, "%s: the counter does not count", label);
	check(run_step(&run, &loss) == 0, "%s: first step", label);
	before = atomic_load(&allocations);
	for (int i = 0; i < 20; i++)
		check(run_step(&run, &loss) == 0, "%s: step", label);
	check(atomic_load(&allocations) == before,
	      "%s: %ld allocations in 20 steps", label,
	      atomic_load(&allocations) - before);
	run_close(&run);
}

static int64_t
arena(const char *sets)
{
	struct run run;
	int64_t bytes;

	check(run_open(&run, net_gpt2, sets) == 0, "%s: open", sets);
	bytes = run.module->arena_bytes;
	run_close(&run);
	return bytes;
}

static void
check_stages(void)
{
	int64_t last = INT64_MAX;

	for (int stage = 0; stage <= 3; stage++) {
		char sets[256];
		int64_t bytes;

		snprintf(sets, sizeof(sets),
			 "training.micro_batch_size=1 model.n_embd=48 "
			 "parallelism.dp_shard=2 parallelism.zero_stage=%d",
			 stage);
		bytes = arena(sets);
		check(bytes < last, "stage %d: %lld bytes, before it %lld",
		      stage, (long long)bytes, (long long)last);
		last = bytes;
	}
}

int
main(void)
{
	check_steps("one rank", "training.dtype=f32");
	check_steps("dp 2, tp 2",
		    "training.dtype=f32 parallelism.dp_replicate=2 "
		    "parallelism.tp=2 parallelism.sequence_parallel=true "
		    "training.micro_batch_size=4");
	check_steps("ZeRO 3, 4 micro-batches",
		    "training.dtype=f32 parallelism.dp_shard=2 "
		    "training.micro_batch_size=1");
	check_stages();
	return finish();
}
