/* Timing operators and collectives; fitting starts and rates. */

#include "runtime/calibrate.h"

#include "passes/cost.h"
#include "passes/pass.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_SAMPLES = 8192, MOST_REPEATS = 31 };

struct sample {
	enum st_op op;
	double us, flops, bytes;
	int64_t head; /* of attention */
};

struct calibrator {
	struct st_arena *arena;
	struct st_diag *diag;
	const struct st_calibration *o;
	struct st_machine *machine;
	struct sample *samples;
	int count;
};

/* Widths that a small model has; two families, so that every op is in. */
static const char *const nets[] = {
	"stretto: 1\n"
	"model: {model_type: gpt2, vocab_size: 256, n_positions: 128, "
	"n_embd: %d, n_layer: 2, n_head: 4}\n",
	"stretto: 1\n"
	"model: {model_type: llama, vocab_size: 256, hidden_size: %d, "
	"intermediate_size: 512, num_hidden_layers: 2, "
	"num_attention_heads: 4, num_key_value_heads: 2, "
	"max_position_embeddings: 128, rope_theta: 10000.0, "
	"tie_word_embeddings: false}\n",
};
static const char training[] =
	"parallelism: {dp_replicate: %d}\n"
	"training: {seq_len: 128, micro_batch_size: %d, dtype: f32, "
	"grad_clip: 1.0, optimizer: {name: adamw}}\n"
	"overlap: {policy: none}\n";
static const struct {
	int width, batch;
} sizes[] = {{64, 2}, {128, 4}, {192, 8}, {320, 4}, {384, 8}};

static int
by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static double
median(double *values, int count)
{
	qsort(values, (size_t)count, sizeof(*values), by_value);
	return values[count / 2];
}

static int
repeats_of(const struct calibrator *c)
{
	int n = c->o->repeats > 0 ? c->o->repeats : 9;

	return n > MOST_REPEATS ? MOST_REPEATS : n;
}

static void
tell(const struct calibrator *c, const char *what)
{
	if (c->o->progress)
		c->o->progress(c->o->user, what);
}

/* ---- operators ---- */

static void
add_sample(struct calibrator *c, const struct st_module *m,
	   const struct st_node *node, double us)
{
	struct sample *s = &c->samples[c->count];
	const struct st_type *first;

	if (c->count == MOST_SAMPLES || us <= 0 || node->operands == 0 ||
	    st_ops[node->op].class == ST_COMM ||
	    st_ops[node->op].cost == ST_COST_FREE)
		return;
	first = st_value_type(m, st_node_operand(m, node, 0));
	*s = (struct sample){node->op, us, st_cost_flops(m, node),
			     st_cost_touched(m, node), 0};
	if (first->factors)
		s->head = first->f[first->factors - 1].size;
	c->count++;
}

static enum st_status
time_entry(struct calibrator *c, struct st_session *session,
	   const struct st_module *m, uint32_t entry)
{
	const struct st_entry *e = &m->entries.at[entry];
	int repeats = repeats_of(c);
	double *all = st_arena_array(c->arena,
				     e->nodes * (size_t)repeats + 1,
				     sizeof(*all));

	if (!all)
		return st_error_memory(c->diag);
	for (int r = -1; r < repeats; r++) {
		const struct st_trace_time *times;

		ST_TRY(st_session_run(session, entry));
		times = st_session_trace(session, 0, entry);
		for (uint32_t i = 0; r >= 0 && i < e->nodes; i++)
			all[i * (size_t)repeats + (size_t)r] =
				(double)(times[i].end - times[i].begin) / 1e3;
	}
	for (uint32_t i = 0; i < e->nodes; i++)
		add_sample(c, m, &m->nodes.at[e->first_node + i],
			   median(all + i * (size_t)repeats, repeats));
	return ST_OK;
}

static enum st_status
compile(struct calibrator *c, const char *text, size_t length,
	struct st_names *names, struct st_module **plan)
{
	struct st_model_source source = {.path = "calibration",
					 .text = text,
					 .length = length,
					 .search = c->o->search};
	struct st_pipeline pipeline = {.passes = NULL};
	struct st_module *module;
	struct st_model *model;

	ST_TRY(st_model_load(c->arena, c->diag, names, &source, &model));
	ST_TRY(st_model_lower(model, &module));
	return st_pipeline_run(&pipeline, module, plan);
}

static enum st_status
time_plan(struct calibrator *c, const struct st_module *plan)
{
	struct st_session_options options = {.trace = 1, .no_collectives = 1};
	struct st_session *session;
	uint32_t init = st_module_find_entry(plan, "init");
	uint32_t step = st_module_find_entry(plan, "step");
	enum st_status status;

	ST_TRY(st_session_open(c->arena, c->diag, plan, &options, &session));
	status = st_session_run(session, init);
	if (status == ST_OK)
		status = time_entry(c, session, plan, step);
	st_session_close(session);
	return status;
}

static enum st_status
time_operators(struct calibrator *c)
{
	struct st_names names;

	ST_TRY(st_names_init(&names, c->arena) ? st_error_memory(c->diag)
					       : ST_OK);
	for (size_t n = 0; n < sizeof(nets) / sizeof(nets[0]); n++)
		for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
			struct st_module *plan;
			struct st_buffer text;

			st_buffer_init(&text, c->arena);
			st_buffer_printf(&text, nets[n], sizes[s].width);
			st_buffer_printf(&text, training, (int)c->o->ranks,
					 sizes[s].batch);
			if (!text.text)
				return st_error_memory(c->diag);
			tell(c, n ? "operators of llama" : "operators of gpt2");
			ST_TRY(compile(c, text.text, text.length, &names,
				       &plan));
			ST_TRY(time_plan(c, plan));
		}
	return ST_OK;
}

/* ---- fits ---- */

/* t = start + x * slope by least relative squares; start is not below 0. */
static void
fit_line(const double *x, const double *t, int count, double *start,
	 double *slope)
{
	double a = 0, b = 0, d = 0, e = 0, f = 0, det;

	for (int i = 0; i < count; i++) {
		double w = 1 / (t[i] * t[i]);

		a += w;
		b += w * x[i];
		d += w * x[i] * x[i];
		e += w * t[i];
		f += w * t[i] * x[i];
	}
	det = a * d - b * b;
	*start = 0;
	*slope = d > 0 ? f / d : 0;
	if (count < 2 || det <= 1e-12 * a * d)
		return;
	*start = (e * d - b * f) / det;
	*slope = (a * f - b * e) / det;
	if (*slope <= 0) {
		*slope = 0;
		*start = e / a;
	} else if (*start < 0) {
		*start = 0;
		*slope = f / d;
	}
}

static int
is_attention(enum st_op op)
{
	return st_ops[op].cost == ST_COST_ATTENTION ||
	       st_ops[op].cost == ST_COST_ATTENTION_GRAD;
}

/* Numbers of the samples of an op; x is what its time goes by. */
static int
select_op(const struct calibrator *c, enum st_op op, double *x, double *t)
{
	int n = 0;
	int by_flops = st_ops[op].cost == ST_COST_FLOPS || is_attention(op);

	for (int i = 0; i < c->count; i++) {
		if (c->samples[i].op != op)
			continue;
		x[n] = by_flops ? c->samples[i].flops : c->samples[i].bytes;
		t[n++] = c->samples[i].us;
	}
	return n;
}

static void
take_attention(struct st_machine *m, enum st_op op, double tflops)
{
	if (st_ops[op].cost == ST_COST_ATTENTION)
		m->attention_forward_tflops_64 = tflops;
	else
		m->attention_backward_tflops_64 = tflops;
}

static enum st_status
fit_operators(struct calibrator *c)
{
	struct st_machine *m = c->machine;
	double *x = st_arena_array(c->arena, MOST_SAMPLES, sizeof(*x));
	double *t = st_arena_array(c->arena, MOST_SAMPLES, sizeof(*t));
	double start, slope;

	if (!x || !t)
		return st_error_memory(c->diag);
	for (enum st_op op = 0; op < ST_OP_COUNT; op++) {
		int n = select_op(c, op, x, t);

		if (n == 0)
			continue;
		fit_line(x, t, n, &start, &slope);
		if (start <= 0)
			start = 0.01;
		m->op_start_us[op] = start;
		if (slope <= 0)
			continue;
		if (st_ops[op].cost == ST_COST_FLOPS) {
			m->matmul_tflops[ST_F32] = 1e-6 / slope;
			m->matmul_tflops[ST_F64] = 0.5e-6 / slope;
			m->matmul_tflops[ST_BF16] = 1e-6 / slope;
			m->matmul_start_us = start;
		} else if (is_attention(op)) {
			take_attention(m, op, 1e-6 / slope);
		} else {
			m->op_gb_per_s[op] = 1e-3 / slope;
		}
	}
	m->memory_gb_per_s = m->op_gb_per_s[ST_OP_copy] > 0
				     ? m->op_gb_per_s[ST_OP_copy]
				     : m->op_gb_per_s[ST_OP_sum];
	m->memory_start_us = m->op_start_us[ST_OP_sum];
	return ST_OK;
}

/* ---- collectives ---- */

static const struct {
	enum st_op op;
	const char *text; /* elements are printed in twice */
} collectives[] = {
	{ST_OP_all_gather,
	 "(%%x : f32[%lld/dp]) {\n  %%y.s = all_gather.start %%x, axes=dp : "
	 "async f32[%lld]\n"},
	{ST_OP_reduce_scatter,
	 "(%%x : f32[%lld] partial<sum>(dp)) {\n  %%y.s = "
	 "reduce_scatter.start %%x, axes=dp : async f32[%lld/dp]\n"},
	{ST_OP_all_reduce,
	 "(%%x : f32[%lld] partial<sum>(dp)) {\n  %%y.s = all_reduce.start "
	 "%%x, axes=dp : async f32[%lld]\n"},
};

static enum st_status
parse(struct calibrator *c, size_t which, int64_t elements,
      struct st_module **plan)
{
	struct st_pass_context cx = {0};
	struct st_module *module;
	struct st_names names;
	struct st_buffer text;

	st_buffer_init(&text, c->arena);
	st_buffer_printf(&text,
			 "stretto-ir 1\nform ranked\nmesh dp=%lld\n"
			 "entry @run",
			 (long long)c->o->ranks);
	st_buffer_printf(&text, collectives[which].text, (long long)elements,
			 (long long)elements);
	st_buffer_printf(&text, "  %%y = wait %%y.s : f32[%lld%s]\n"
				"  ret %%y as y\n}\n",
			 (long long)elements,
			 collectives[which].op == ST_OP_reduce_scatter ? "/dp"
								       : "");
	if (!text.text || st_names_init(&names, c->arena))
		return st_error_memory(c->diag);
	ST_TRY(st_parse(c->arena, c->diag, &names,
			st_diag_add_source(c->diag, "calibration", text.text,
					   text.length),
			&module));
	ST_TRY(st_verify(module));
	return st_pass_memory(&cx, module, plan);
}

static enum st_status
time_collective(struct calibrator *c, size_t which, int64_t elements,
		const struct st_link *link, double *us)
{
	struct st_session_options options = {.trace = 1, .link = *link};
	double times[MOST_REPEATS];
	int repeats = repeats_of(c);
	enum st_status status = ST_OK;
	struct st_session *session;
	struct st_module *plan;

	ST_TRY(parse(c, which, elements, &plan));
	ST_TRY(st_session_open(c->arena, c->diag, plan, &options, &session));
	for (int r = -1; r < repeats && status == ST_OK; r++) {
		const struct st_trace_time *t;

		status = st_session_run(session, 0);
		t = st_session_trace(session, 0, 0);
		if (r >= 0)
			times[r] = (double)(t[1].end - t[0].begin) / 1e3;
	}
	st_session_close(session);
	*us = median(times, repeats);
	return status;
}

static enum st_status
fit_collective(struct calibrator *c, size_t which, double *share)
{
	static const int64_t kib[] = {4, 32, 128, 512, 2048};
	enum { SIZES = sizeof(kib) / sizeof(kib[0]) };
	const struct st_link none = {0, 0};
	struct st_machine_form *form =
		&c->machine->forms[c->machine->form_count++];
	double n = (double)c->o->ranks, x[SIZES], t[SIZES], plain;
	double factor = (collectives[which].op == ST_OP_all_reduce ? 2 : 1) *
			(n - 1) / n;
	double slope;

	for (int i = 0; i < SIZES; i++) {
		int64_t elements = kib[i] * 256 / c->o->ranks * c->o->ranks;

		ST_TRY(time_collective(c, which, elements, &c->o->link,
				       &t[i]));
		ST_TRY(time_collective(c, which, elements, &none, &plain));
		x[i] = (double)elements * 4;
		if (i == SIZES - 1)
			*share += plain / t[i];
	}
	form->op = collectives[which].op;
	form->ranks = c->o->ranks;
	fit_line(x, t, SIZES, &form->a_us, &slope);
	form->bus_gb_per_s = slope > 0 ? factor * 1e-3 / slope : 1e3;
	if (form->a_us <= 0)
		form->a_us = 0.01;
	return ST_OK;
}

static enum st_status
time_collectives(struct calibrator *c)
{
	double share = 0;
	const int count = sizeof(collectives) / sizeof(collectives[0]);

	if (c->o->ranks < 2)
		return ST_OK;
	for (int i = 0; i < count; i++) {
		tell(c, st_ops[collectives[i].op].name);
		ST_TRY(fit_collective(c, (size_t)i, &share));
	}
	/* Without a link the whole collective is work of the processor. */
	if (c->o->link.gb_per_s > 0)
		c->machine->compute_slowdown = share / count;
	return ST_OK;
}

/* ---- the whole ---- */

static double
predict(const struct st_machine *m, const struct sample *s)
{
	double start = m->op_start_us[s->op];

	if (st_ops[s->op].cost == ST_COST_FLOPS)
		return start + s->flops / (m->matmul_tflops[ST_F32] * 1e6);
	if (st_ops[s->op].cost == ST_COST_ATTENTION)
		return start +
		       s->flops / (m->attention_forward_tflops_64 * 1e6);
	if (st_ops[s->op].cost == ST_COST_ATTENTION_GRAD)
		return start +
		       s->flops / (m->attention_backward_tflops_64 * 1e6);
	return start + (m->op_gb_per_s[s->op] > 0
				? s->bytes / (m->op_gb_per_s[s->op] * 1e3)
				: 0);
}

static enum st_status
judge(struct calibrator *c, struct st_calibration_fit *fit)
{
	double *errors = st_arena_array(c->arena, (size_t)c->count + 1,
					sizeof(*errors));

	memset(fit, 0, sizeof(*fit));
	if (!errors)
		return st_error_memory(c->diag);
	fit->samples = c->count;
	if (c->count == 0)
		return ST_OK;
	for (int i = 0; i < c->count; i++) {
		double e = predict(c->machine, &c->samples[i]) /
				   c->samples[i].us -
			   1;

		errors[i] = e < 0 ? -e : e;
	}
	fit->median = (int64_t)(1000 * median(errors, c->count));
	fit->p90 = (int64_t)(1000 * errors[c->count * 9 / 10]);
	return ST_OK;
}

enum st_status
st_calibrate(struct st_arena *arena, struct st_diag *diag,
	     const struct st_calibration *options, struct st_machine *machine,
	     struct st_calibration_fit *fit)
{
	struct calibrator c = {.arena = arena, .diag = diag, .o = options,
			       .machine = machine};
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

	memset(machine, 0, sizeof(*machine));
	machine->name = "calibrated";
	machine->sms = sysconf(_SC_NPROCESSORS_ONLN);
	machine->memory_bytes = (int64_t)pages * page;
	machine->tier_count = 1;
	machine->tiers[0].name = "node";
	machine->tiers[0].devices = options->ranks;
	machine->tiers[0].link =
		options->link.gb_per_s > 0 ? "emulated" : "memory";
	c.samples = st_arena_array(arena, MOST_SAMPLES, sizeof(*c.samples));
	if (!c.samples)
		return st_error_memory(diag);
	ST_TRY(time_operators(&c));
	ST_TRY(fit_operators(&c));
	ST_TRY(time_collectives(&c));
	machine->tiers[0].gb_per_s = machine->form_count
					     ? machine->forms[0].bus_gb_per_s
					     : machine->memory_gb_per_s;
	return judge(&c, fit);
}
