/*
 * The order of issue: the range tree and the virtual clock against slow
 * doubles, the identity of a step, and what may never be: an order slower than
 * the program's own, or one over the limit on memory.
 */

#include "passes/cost.h"
#include "passes/explain.h"
#include "passes/lanes.h"
#include "passes/segment.h"
#include "tests/train/harness.h"

#include <stdio.h>
#include <string.h>

static uint64_t seed = 88172645463325252u;

static uint64_t
draw(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

/* ---- range additions and maxima ---- */

static void
check_segment(void)
{
	enum { MOST = 70 };
	int64_t plain[MOST];
	struct st_segment tree;
	struct st_arena arena;

	st_arena_init(&arena, NULL);
	for (uint32_t n = 1; n <= MOST; n++) {
		int wrong = 0;

		for (uint32_t i = 0; i < n; i++)
			plain[i] = (int64_t)draw(1000);
		check(st_segment_init(&tree, &arena, n) == 0, "init");
		st_segment_fill(&tree, plain, n);
		for (int turn = 0; turn < 200; turn++) {
			uint32_t a = (uint32_t)draw(n);
			uint32_t b = a + 1 + (uint32_t)draw(n - a);
			int64_t add = (int64_t)draw(400) - 200, most;

			st_segment_add(&tree, a, b, add);
			for (uint32_t i = a; i < b; i++)
				plain[i] += add;
			a = (uint32_t)draw(n);
			b = a + 1 + (uint32_t)draw(n - a);
			most = plain[a];
			for (uint32_t i = a; i < b; i++)
				most = plain[i] > most ? plain[i] : most;
			wrong += st_segment_most(&tree, a, b) != most;
		}
		check(wrong == 0, "%u places: %d maxima differ", n, wrong);
	}
	st_arena_finish(&arena);
}

/* ---- the clock ---- */

static void
check_lanes(void)
{
	static const uint8_t axes[] = {1, 2, 3};
	struct st_machine machine = {.compute_slowdown = 0.25};
	struct st_lanes l;
	struct st_arena arena;
	int32_t a, b, c;

	st_arena_init(&arena, NULL);
	check(st_lanes_init(&l, &arena, &machine, axes, 3, 16) == 0, "init");
	/* Alone: 1000 of work hides behind 4000, which lose a fifth of it. */
	a = st_lanes_start(&l, 0, 0, 1000);
	st_lanes_compute(&l, 4000);
	check(l.tickets[a].end == 1000 && l.now == 4200 &&
		      l.contention == 200,
	      "computation slows down beside it: %lld, %lld",
	      (long long)l.now, (long long)l.contention);
	check(st_lanes_wait(&l, a) == 0, "no stall");

	/* Two on one tier take turns; on two tiers they do not. */
	st_lanes_reset(&l);
	a = st_lanes_start(&l, 0, 0, 1000);
	b = st_lanes_start(&l, 1, 0, 1000);
	st_lanes_wait(&l, b);
	check(l.tickets[a].end == 2000 && l.now == 2000, "sharers take turns");
	st_lanes_reset(&l);
	a = st_lanes_start(&l, 0, 0, 1000);
	b = st_lanes_start(&l, 1, 1, 1000);
	check(st_lanes_wait(&l, b) == 1000 && l.tickets[a].end == 1000,
	      "two tiers run side by side");

	/* Groups that share ranks keep the order of issue. */
	st_lanes_reset(&l);
	a = st_lanes_start(&l, 0, 0, 500);
	c = st_lanes_start(&l, 2, 1, 700);
	b = st_lanes_start(&l, 1, 0, 300);
	st_lanes_wait(&l, b);
	check(l.tickets[c].begin == l.tickets[a].end &&
		      l.tickets[b].begin == l.tickets[c].end &&
		      l.now == 1500,
	      "meeting groups wait for each other: %lld", (long long)l.now);
	st_arena_finish(&arena);
}

/* ---- whole plans ---- */

#define P "parallelism."
#define T "training."

static const char *const layouts[] = {
	P "dp_shard=4 " P "zero_stage=3 " T "micro_batch_size=2",
	P "tp=2 " P "sequence_parallel=true",
	P "dp_shard=2 " P "tp=2 " P "sequence_parallel=true " T
	  "micro_batch_size=4",
	P "dp_replicate=2 " T "micro_batch_size=2",
	P "dp_shard=2 " P "zero_stage=2 " T "micro_batch_size=2 " T
	  "recompute=full",
};

/* A slow link, so that there is something to hide. */
static struct st_machine
slow_machine(double gb_per_s, double slowdown)
{
	struct st_machine m = st_machine_laptop;

	m.tiers[0].devices = 64;
	m.compute_slowdown = slowdown;
	for (int i = 0; i < m.form_count; i++)
		m.forms[i].bus_gb_per_s = gb_per_s;
	return m;
}

static int
plan(struct run *run, const char *net, const char *sets,
     const struct st_machine *machine, int64_t limit)
{
	struct st_pipeline pipeline = {.machine = machine,
				       .memory_limit = limit};
	struct st_module *module;
	int status;

	if (run_lower(run, net, sets, &module))
		return -1;
	status = (int)st_pipeline_run(&pipeline, module, &run->module);
	if (status)
		run->module = module;
	return status;
}

static struct st_explanation
explain(const struct run *run, const struct st_machine *machine)
{
	const struct st_module *m = run->module;
	uint32_t step = st_module_find_entry(m, "step");
	struct st_explanation x;
	const char *why = NULL;

	if (st_explain(m, &m->entries.at[step], machine, &x, &why))
		memset(&x, 0, sizeof(x));
	return x;
}

static void
check_identity(const char *net, const char *sets,
	       const struct st_machine *machine)
{
	char off_sets[512];
	struct st_explanation on, off;
	struct run run;
	int64_t exposed = 0;

	snprintf(off_sets, sizeof(off_sets), "%s overlap.policy=none", sets);
	check(plan(&run, net, off_sets, machine, 0) == 0, "%s: off", sets);
	off = explain(&run, machine);
	run_close(&run);
	check(plan(&run, net, sets, machine, 0) == 0, "%s: on", sets);
	on = explain(&run, machine);
	for (uint32_t i = 0; i < on.count; i++)
		exposed += on.verdicts[i].exposed;
	check(on.step == on.busy + on.contention + on.stalls &&
		      off.step == off.busy + off.contention + off.stalls,
	      "%s: step = compute + contention + stalls", sets);
	check(exposed == on.stalls, "%s: every stall has its collective",
	      sets);
	check(on.bound <= on.step && on.bound > 0, "%s: the bound %lld, %lld",
	      sets, (long long)on.bound, (long long)on.step);
	check(on.step <= off.step, "%s: overlap is slower: %lld, off %lld",
	      sets, (long long)on.step, (long long)off.step);
	check(off.stalls == 0 || on.stalls < off.stalls,
	      "%s: something is hidden", sets);
	run_close(&run);
}

/* From what is wanted down to what the program itself needs. */
static void
check_limit(const char *net, const char *sets,
	    const struct st_machine *machine)
{
	char off_sets[512];
	struct run run;
	int64_t least, most, bytes;
	int status;

	snprintf(off_sets, sizeof(off_sets), "%s overlap.policy=none", sets);
	check(plan(&run, net, off_sets, machine, 0) == 0, "off");
	least = run.module->arena_bytes;
	run_close(&run);
	check(plan(&run, net, sets, machine, 0) == 0, "on");
	most = run.module->arena_bytes;
	run_close(&run);
	for (int i = 0; i <= 4; i++) {
		int64_t limit = least + (most - least) * i / 4;

		if (most < least)
			limit = least;
		status = plan(&run, net, sets, machine, limit);
		bytes = run.module->arena_bytes;
		check(status == 0 && bytes <= limit,
		      "%s: limit %lld, status %d, arena %lld", sets,
		      (long long)limit, status, (long long)bytes);
		run_close(&run);
	}
	check(plan(&run, net, sets, machine, least / 2) == ST_EINFEASIBLE,
	      "%s: half of what it needs is refused", sets);
	run_close(&run);
}

int
main(void)
{
	const struct st_machine slow = slow_machine(0.05, 0);
	const struct st_machine shared = slow_machine(0.2, 0.2);

	check_segment();
	check_lanes();
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		check_identity(net_gpt2, layouts[i], &slow);
		check_identity(net_llama, layouts[i], &shared);
		check_limit(net_llama, layouts[i], &slow);
	}
	return finish();
}
