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
#include "runtime/trace.h"

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

/* Milliseconds: of a step, after one that warms up, and of the last step's
 * computations, on the slower rank; *loss is the last one's. */
struct result {
	double step, compute, loss;
};

static double
computing(struct world *w, const struct st_session *session,
	  const struct st_module *plan, uint32_t step)
{
	double most = 0;

	for (int64_t rank = 0; rank < st_mesh_ranks(&plan->mesh); rank++) {
		struct st_trace trace;
		struct st_trace_sums sums;

		if (st_trace_measure(session, plan, step, rank, &trace) ||
		    st_trace_sum(&w->arena, &trace, &sums))
			fail(w, "no trace");
		if ((double)sums.compute / 1e9 > most)
			most = (double)sums.compute / 1e9;
	}
	return most;
}

static struct result
run(struct world *w, const struct st_module *plan, const struct st_link *link)
{
	struct st_session_options options = {.link = *link, .trace = 1};
	uint32_t step = st_module_find_entry(plan, "step");
	struct st_session *session;
	struct result r;
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
	r.step = (now_ms() - start) / STEPS;
	r.compute = computing(w, session, plan, step);
	if (st_session_read_scalar(session, step, "loss", &r.loss))
		fail(w, "no loss");
	st_session_close(session);
	return r;
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

/* A link on which communication alone takes about as long as computation. */
static struct st_link
fitting_link(struct world *w, const struct st_module *plan)
{
	const struct st_link none = {0, 0};
	struct st_link link = {0, 0};
	double alone[3];

	for (int i = 0; i < 3; i++)
		alone[i] = run(w, plan, &none).compute;
	qsort(alone, 3, sizeof(*alone), by_value);
	link.gb_per_s = link_seconds_at_1gb(w, plan) / (alone[1] / 1e3);
	return link;
}

static void
print_prediction(const char *name, const struct st_explanation *x,
		 double measured)
{
	double ms = (double)x->step / 1e9;

	printf("  predicted, %-23s %8.1f ms  (%+.1f %%): compute %.1f, "
	       "contention %.1f, exposed %.1f; bound %.1f by %s\n",
	       name, ms, 100 * (ms / measured - 1), (double)x->busy / 1e9,
	       (double)x->contention / 1e9, (double)x->stalls / 1e9,
	       (double)x->bound / 1e9, x->bound_by);
}

struct samples {
	double off[MOST], on[MOST], compute[MOST], loss_off, loss_on;
};

static void
sample(struct world *w, struct samples *s, int repeats,
       const struct st_module *off, const struct st_module *on,
       const struct st_link *link)
{
	for (int i = 0; i < repeats; i++) {
		struct result a = run(w, off, link), b = run(w, on, link);

		s->off[i] = a.step;
		s->on[i] = b.step;
		s->compute[i] = a.compute;
		s->loss_off = a.loss;
		s->loss_on = b.loss;
	}
}

static void
bench(struct world *w, int which, int repeats)
{
	struct st_calibration options = {
		.ranks = 2, .repeats = 7, .search = search};
	struct st_module *off = compile(w, cases[which].off, NULL), *on;
	struct st_calibration_fit fit;
	struct st_explanation x_off, x_on;
	struct st_machine machine;
	struct samples s;
	double t_c, t_off, t_on;

	options.link = fitting_link(w, off);
	if (st_calibrate(&w->arena, &w->diag, &options, &machine, &fit))
		fail(w, "cannot calibrate");
	off = compile(w, cases[which].off, &machine);
	on = compile(w, cases[which].on, &machine);
	sample(w, &s, repeats, off, on, &options.link);
	printf("%s; emulated link of %.4f GB/s\n", cases[which].name,
	       options.link.gb_per_s);
	t_c = report("computation (T_c), overlap off", s.compute, repeats);
	t_off = report("overlap off", s.off, repeats);
	t_on = report("overlap on", s.on, repeats);
	predict(w, off, &machine, &x_off);
	predict(w, on, &machine, &x_on);
	printf("  T_m/T_c %.2f; speed-up %.2f, efficiency %.2f\n",
	       (t_off - t_c) / t_c, t_off / t_on,
	       (t_off - t_on) / (t_off - t_c < t_c ? t_off - t_c : t_c));
	print_prediction("overlap off", &x_off, t_off);
	print_prediction("overlap on", &x_on, t_on);
	printf("  losses differ by %g\n", s.loss_on - s.loss_off);
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
