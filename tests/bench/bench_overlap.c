/*
 * Overlap in wall time on an emulated link: the same model with overlap off
 * and on, interleaved, beside what the cost model predicts from a machine
 * file that `calibrate` made of operators alone.
 *
 * usage: bench_overlap [REPEATS]
 *
 * The link's rate is chosen so that communication alone takes about as long
 * as computation alone (T_m/T_c near 1), which is where overlap can gain most.
 */

#include "models/model.h"
#include "passes/explain.h"
#include "passes/pass.h"
#include "runtime/calibrate.h"
#include "runtime/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 64, STEPS = 3 };

#define P "parallelism."
#define T "training."

static const char net[] =
	"stretto: 1\n"
	"model: {model_type: gpt2, vocab_size: 256, n_positions: 128,\n"
	"  n_embd: 256, n_layer: 8, n_head: 4}\n"
	"training: {seq_len: 128, micro_batch_size: 8, dtype: f32,\n"
	"  grad_clip: 1.0, optimizer: {name: adamw}}\n";

static const struct {
	const char *name;
	const char *off[8], *on[8];
} cases[] = {
	{"ZeRO 3, 2 ranks, 8 layers",
	 {P "dp_shard=2", P "zero_stage=3", "overlap.policy=none", NULL},
	 {P "dp_shard=2", P "zero_stage=3", NULL}},
	{"tp 2, sequence parallel, 8 layers",
	 {P "tp=2", P "sequence_parallel=true", "overlap.policy=none", NULL},
	 {P "tp=2", P "sequence_parallel=true", NULL}},
};

struct world {
	struct st_arena arena;
	struct st_diag diag;
	struct st_names names;
};

static const char *const search[] = {"models/families", NULL};

static void
fail(struct world *w, const char *what)
{
	fprintf(stderr, "bench_overlap: %s\n", what);
	for (size_t i = 0; i < w->diag.count; i++)
		fputs(st_diag_render(&w->diag, i), stderr);
	exit(1);
}

static double
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static struct st_module *
compile(struct world *w, const char *const *sets,
	const struct st_machine *machine)
{
	struct st_model_source source = {.path = "bench",
					 .text = net,
					 .length = sizeof(net) - 1,
					 .sets = sets,
					 .search = search};
	struct st_pipeline pipeline = {.machine = machine};
	struct st_module *module, *plan = NULL;
	struct st_model *model;

	while (sets[source.set_count])
		source.set_count++;
	if (st_model_load(&w->arena, &w->diag, &w->names, &source, &model) ||
	    st_model_lower(model, &module) ||
	    st_pipeline_run(&pipeline, module, &plan))
		fail(w, "cannot compile");
	return plan;
}

static double
predict(struct world *w, const struct st_module *plan,
	const struct st_machine *machine, struct st_explanation *x)
{
	uint32_t step = st_module_find_entry(plan, "step");
	const char *why;

	if (st_explain(plan, &plan->entries.at[step], machine, x, &why))
		fail(w, "cannot explain");
	return (double)x->step / 1e9;
}

/* Milliseconds a step, after one that warms up; *loss is the last one's. */
static double
run(struct world *w, const struct st_module *plan, const struct st_link *link,
    int no_collectives, double *loss)
{
	struct st_session_options options = {
		.link = *link, .no_collectives = no_collectives};
	uint32_t step = st_module_find_entry(plan, "step");
	struct st_session *session;
	double start = 0;

	if (st_session_open(&w->arena, &w->diag, plan, &options, &session) ||
	    st_session_run(session, st_module_find_entry(plan, "init")) ||
	    st_session_run(session, st_module_find_entry(plan, "prologue")))
		fail(w, "cannot run");
	for (int i = 0; i <= STEPS; i++) {
		if (i == 1)
			start = now_ms();
		if (st_session_run(session, step))
			fail(w, "cannot step");
	}
	start = (now_ms() - start) / STEPS;
	if (st_session_read_scalar(session, step, "loss", loss))
		fail(w, "no loss");
	st_session_close(session);
	return start;
}

static int
by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static double
report(const char *name, double *values, int count)
{
	qsort(values, (size_t)count, sizeof(*values), by_value);
	printf("  %-34s %8.1f ms  (%.1f to %.1f)\n", name, values[count / 2],
	       values[0], values[count - 1]);
	return values[count / 2];
}

/* Bytes over a member's link in one step, by the plan's own model: what a
 * link of 1 GB/s and no latency would take. */
static double
link_seconds_at_1gb(struct world *w, const struct st_module *plan)
{
	struct st_machine machine = st_machine_laptop;
	struct st_explanation x;

	for (int i = 0; i < machine.form_count; i++) {
		machine.forms[i].a_us = 0;
		machine.forms[i].bus_gb_per_s = 1;
	}
	predict(w, plan, &machine, &x);
	return (double)x.comm / 1e12;
}

static void
bench(struct world *w, int which, int repeats)
{
	const struct st_link none = {0, 0};
	struct st_link link = {0, 0};
	struct st_calibration options = {.ranks = 2, .repeats = 7,
					 .search = search};
	double off[MOST], on[MOST], alone[MOST], loss_off, loss_on, t_c, t_off,
		t_on, want_off, want_on;
	struct st_module *plan_off = compile(w, cases[which].off, NULL);
	struct st_module *plan_on;
	struct st_calibration_fit fit;
	struct st_explanation x;
	struct st_machine machine;

	for (int i = 0; i < 3; i++)
		alone[i] = run(w, plan_off, &none, 1, &loss_off);
	qsort(alone, 3, sizeof(*alone), by_value);
	link.gb_per_s = link_seconds_at_1gb(w, plan_off) / (alone[1] / 1e3);
	options.link = link;
	if (st_calibrate(&w->arena, &w->diag, &options, &machine, &fit))
		fail(w, "cannot calibrate");
	plan_off = compile(w, cases[which].off, &machine);
	plan_on = compile(w, cases[which].on, &machine);
	for (int i = 0; i < repeats; i++) {
		alone[i] = run(w, plan_off, &none, 1, &loss_off);
		off[i] = run(w, plan_off, &link, 0, &loss_off);
		on[i] = run(w, plan_on, &link, 0, &loss_on);
	}
	printf("%s; emulated link of %.4f GB/s\n", cases[which].name,
	       link.gb_per_s);
	t_c = report("computation alone (T_c)", alone, repeats);
	t_off = report("overlap off", off, repeats);
	t_on = report("overlap on", on, repeats);
	want_off = predict(w, plan_off, &machine, &x);
	want_on = predict(w, plan_on, &machine, &x);
	printf("  T_m/T_c %.2f; speed-up %.2f, efficiency %.2f\n"
	       "  predicted: off %.1f ms (%+.1f %%), on %.1f ms (%+.1f %%), "
	       "bound %.1f ms by %s\n  losses differ by %g\n",
	       (t_off - t_c) / t_c, t_off / t_on,
	       (t_off - t_on) / (t_off - t_c < t_c ? t_off - t_c : t_c),
	       want_off, 100 * (want_off / t_off - 1), want_on,
	       100 * (want_on / t_on - 1), (double)x.bound / 1e9, x.bound_by,
	       loss_on - loss_off);
}

int
main(int argc, char **argv)
{
	int repeats = argc > 1 ? atoi(argv[1]) : 5;

	if (repeats < 1 || repeats > MOST)
		repeats = 5;
	for (int i = 0; i < (int)(sizeof(cases) / sizeof(cases[0])); i++) {
		struct world w;

		st_arena_init(&w.arena, NULL);
		st_diag_init(&w.diag, &w.arena);
		if (st_names_init(&w.names, &w.arena))
			return 1;
		bench(&w, i, repeats);
		st_arena_finish(&w.arena);
	}
	return 0;
}
