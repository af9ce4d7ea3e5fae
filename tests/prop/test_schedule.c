/*
 * Random graphs of computations and collectives: how far the order that
 * `schedule` finds is from the best there is, whether it is ever worse than
 * the program's own, and whether it keeps to a limit on memory.
 *
 * Times are judged by a simulator of its own, written from "Asynchrony" in
 * ir/README.md and knowing nothing of passes/lanes.c; the best order is found
 * by branch and bound over all orders of all tasks on that simulator.
 *
 * usage: test_schedule [SEED [SMALL [LARGE [all]]]]: prints the seed of what
 * failed; all: each graph under each limit, not under one of them in turn
 */

#include "passes/explain.h"
#include "passes/pass.h"
#include "tests/train/harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MOST_TASKS = 40,
	SMALL_TASKS = 12,
	STATES = 6,
	MOST_VALUES = STATES + MOST_TASKS,
	LEVELS = 5,
	WAYS = 4,
	SETS = 1 << 14,
};

/* ---- random graphs ---- */

struct value {
	uint32_t ref;
	int64_t size;
	unsigned cut, partial; /* axes */
	int is_read;
};

struct graph {
	uint64_t seed, state;
	struct st_arena arena;
	struct st_diag diag;
	struct st_names names;
	struct st_machine machine;
	struct st_builder b;
	struct st_module *program; /* collectives are starts and waits */
	struct value values[MOST_VALUES];
	int count, tasks, comm_share, reach;
};

static uint64_t
draw(struct graph *g)
{
	uint64_t z = g->state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static int
below(struct graph *g, int n)
{
	return (int)(draw(g) % (uint64_t)n);
}

/* A rate between 1/8 and 8, all powers alike. */
static double
rate(struct graph *g)
{
	static const double sixteenth[] = {1, 1.19, 1.41, 1.68};

	return ldexp(sixteenth[below(g, 4)], below(g, 6) - 3);
}

static void
make_machine(struct graph *g)
{
	static const double slow[] = {0, 0, 0.05, 0.12, 0.3};
	struct st_machine *m = &g->machine;

	*m = (struct st_machine){.name = "random"};
	m->memory_gb_per_s = 1;
	m->memory_start_us = 0.2;
	m->matmul_start_us = 0.2;
	for (int d = 0; d < ST_DTYPE_COUNT; d++)
		m->matmul_tflops[d] = 1e6;
	m->op_gb_per_s[ST_OP_matmul] = rate(g);
	m->op_gb_per_s[ST_OP_scale] = rate(g);
	m->op_gb_per_s[ST_OP_sum] = rate(g);
	m->tier_count = 1 + below(g, 2);
	for (int i = 0; i < m->tier_count; i++)
		m->tiers[i] = (struct st_machine_tier){
			.name = "tier", .devices = i ? 0 : 2 * 2,
			.gb_per_s = rate(g) / 3, .hop_us = 0.3};
	if (m->tier_count == 2)
		m->tiers[0].devices = 2;
	m->compute_slowdown = slow[below(g, 5)];
	m->comm_slowdown = slow[below(g, 5)];
}

static struct st_type
type_of(const struct graph *g, const struct value *v)
{
	struct st_type type = st_type_scalar(ST_F32);

	st_type_add_extent(&type, v->size);
	if (v->cut)
		st_type_cut(&type, 0, v->cut, &g->b.module->mesh);
	type.partial = (uint8_t)v->partial;
	return type;
}

/* Mostly one of the last few. */
static int
pick(struct graph *g)
{
	int last = below(g, g->reach) + 1;

	if (below(g, 5) == 0 || last > g->count)
		return below(g, g->count);
	return g->count - last;
}

static void
add_node(struct graph *g, enum st_op op, const int *from, int count,
	 const struct value *v)
{
	uint32_t operands[2];
	char name[16];
	struct value *made = &g->values[g->count];

	for (int i = 0; i < count; i++) {
		operands[i] = g->values[from[i]].ref;
		g->values[from[i]].is_read = 1;
	}
	snprintf(name, sizeof(name), "t%d", g->tasks++);
	*made = *v;
	made->is_read = 0;
	made->ref = st_build(&g->b, op, name, operands, (size_t)count);
	g->count++;
}

static int
add_sum(struct graph *g, int x)
{
	const struct value *v = &g->values[x];
	int y = pick(g);

	for (int i = 0; i < g->count; i++, y = (y + 1) % g->count) {
		const struct value *w = &g->values[y];

		if (y == x || w->size != v->size || w->cut != v->cut ||
		    w->partial != v->partial)
			continue;
		add_node(g, ST_OP_sum, (int[]){x, y}, 2, v);
		return 1;
	}
	return 0;
}

/* Of the size of x; sums over y, so what cuts y makes it partial. */
static int
add_product(struct graph *g, int x, int y)
{
	const struct value *v = &g->values[x], *w = &g->values[y];
	struct value made = *v;

	if (x == y || ((v->cut | v->partial) & (w->cut | w->partial)) ||
	    (v->partial && w->partial))
		return 0;
	made.partial |= w->partial | w->cut;
	st_build_string(&g->b, ST_KEY_dims, "a,b->a");
	add_node(g, ST_OP_matmul, (int[]){x, y}, 2, &made);
	return 1;
}

/* Cuts a whole value, or counts it on one rank alone. */
static int
add_spread(struct graph *g, int x)
{
	struct value made = g->values[x];
	unsigned axes = 1u + (unsigned)below(g, 3);
	struct st_type type;

	if ((made.cut | made.partial) & axes)
		return 0;
	if (below(g, 2) && made.cut == 0)
		made.cut = axes;
	else
		made.partial |= axes;
	type = type_of(g, &made);
	st_build_axes(&g->b, axes);
	st_build_type(&g->b, 0, &type);
	add_node(g, made.cut & axes ? ST_OP_shard : ST_OP_only, &x, 1, &made);
	return 1;
}

static void
add_compute(struct graph *g)
{
	int x = pick(g), how = below(g, 8);

	if (how < 2 && add_sum(g, x))
		return;
	if (how < 3 && add_spread(g, x))
		return;
	/* Of another size than what it needs. */
	if (how < 6 && add_product(g, below(g, STATES), x))
		return;
	if (how < 7 && add_product(g, x, pick(g)))
		return;
	st_build_float(&g->b, ST_KEY_factor, 0.5);
	add_node(g, ST_OP_scale, &x, 1, &g->values[x]);
}

static void
build_comm(struct graph *g, int x, enum st_op op, unsigned axes,
	   const struct value *made)
{
	struct st_type type = type_of(g, made);

	st_build_axes(&g->b, axes);
	st_build_type(&g->b, 0, &type);
	add_node(g, op, &x, 1, made);
}

static int
add_comm(struct graph *g)
{
	int x = pick(g);

	for (int i = 0; i < g->count; i++, x = (x + 1) % g->count) {
		struct value made = g->values[x];
		unsigned axes = made.partial;

		if (axes == 3 && below(g, 2))
			axes = 1u + (unsigned)below(g, 2);
		made.partial &= ~axes;
		if (axes && made.cut == 0 && below(g, 2)) {
			made.cut = axes;
			build_comm(g, x, ST_OP_reduce_scatter, axes, &made);
			return 1;
		}
		if (axes) {
			build_comm(g, x, ST_OP_all_reduce, axes, &made);
			return 1;
		}
		if (made.cut == 0)
			continue;
		/* The minor axis first, so that pieces stay whole. */
		axes = made.cut == 3 && below(g, 2) ? 2 : made.cut;
		made.cut &= ~axes;
		build_comm(g, x, ST_OP_all_gather, axes, &made);
		return 1;
	}
	return 0;
}

static void
add_states(struct graph *g)
{
	struct st_module *m = g->b.module;

	for (int i = 0; i < STATES; i++) {
		struct value *v = &g->values[g->count++];
		struct st_type type;
		char name[16];

		v->size = 64 << below(g, 7);
		v->size += v->size / 4 * below(g, 4);
		v->cut = below(g, 2) ? (unsigned)below(g, 4) : 0;
		type = type_of(g, v);
		snprintf(name, sizeof(name), "w%d", i);
		v->ref = st_module_add_state(
			m, st_names_add(m->names, name, strlen(name)), &type,
			ST_ROLE_param, 0);
	}
}

/* The last node that reads a value, or ST_NONE. */
static uint32_t
last_reader(const struct st_module *m, uint32_t value)
{
	for (uint32_t n = (uint32_t)m->nodes.count; n-- > 0;)
		for (uint32_t i = 0; i < m->nodes.at[n].operands; i++)
			if (st_node_operand(m, &m->nodes.at[n], i) == value)
				return n;
	return ST_NONE;
}

/* Some states are overwritten, by the first value that may. */
static void
write_states(struct graph *g)
{
	struct st_module *m = g->b.module;
	uint8_t taken[MOST_VALUES] = {0};

	for (int s = 0; s < STATES; s++) {
		uint32_t reader = last_reader(m, g->values[s].ref);

		for (int i = STATES; i < g->count && below(g, 8); i++) {
			struct value *v = &g->values[i];
			uint32_t maker = m->values.at[v->ref].node;

			if (taken[i] || v->size != g->values[s].size ||
			    v->cut != g->values[s].cut || v->partial ||
			    (reader != ST_NONE && maker <= reader))
				continue;
			taken[i] = 1;
			v->is_read = 1;
			st_module_add_output(m, v->ref, 0, (uint32_t)s);
			break;
		}
	}
}

static void
write_outputs(struct graph *g)
{
	struct st_module *m = g->b.module;

	write_states(g);
	for (int i = STATES; i < g->count; i++) {
		char name[16];

		if (g->values[i].is_read || below(g, 4) == 0)
			continue;
		snprintf(name, sizeof(name), "o%d", i);
		st_module_add_output(m, g->values[i].ref,
				     st_names_add(m->names, name, strlen(name)),
				     ST_NONE);
	}
}

static int
make_graph(struct graph *g, uint64_t seed, int least, int most)
{
	struct st_pass_context cx = {.machine = &g->machine};
	struct st_module *m;
	int tasks;

	memset(g, 0, sizeof(*g));
	g->seed = g->state = seed;
	st_arena_init(&g->arena, NULL);
	st_diag_init(&g->diag, &g->arena);
	st_names_init(&g->names, &g->arena);
	m = st_module_create(&g->arena, &g->diag, &g->names);
	m->form = ST_RANKED;
	m->mesh = (struct st_mesh){.count = 2, .size = {2, 2}};
	m->mesh.name[0] = st_names_add(&g->names, "a", 1);
	m->mesh.name[1] = st_names_add(&g->names, "b", 1);
	st_build_init(&g->b, m);
	make_machine(g);
	g->comm_share = 15 + below(g, 50);
	g->reach = 2 + below(g, 8);
	tasks = least + below(g, most - least + 1);
	/* Many small ones and some of every size. */
	if (most > SMALL_TASKS)
		tasks = least + below(g, tasks - least + 1);
	add_states(g);
	st_module_begin_entry(m, st_names_add(&g->names, "main", 4), 0);
	while (g->tasks < tasks && g->b.status == ST_OK)
		if (below(g, 100) >= g->comm_share || !add_comm(g))
			add_compute(g);
	write_outputs(g);
	st_module_end_entry(m);
	return g->b.status == ST_OK && st_verify(m) == ST_OK &&
	       st_pass_async(&cx, m, &g->program) == ST_OK;
}

static void
drop_graph(struct graph *g)
{
	for (size_t i = 0; i < g->diag.count; i++)
		fputs(st_diag_render(&g->diag, i), stderr);
	st_arena_finish(&g->arena);
}

/* ---- tasks, read from the text of a module ---- */

struct task {
	int is_comm, tier;
	unsigned axes;
	double work, tail; /* by itself; with the longest way behind it */
	uint64_t before;   /* tasks that come before it */
};

struct plan {
	int count;
	double compute_slow, comm_slow;
	struct task at[MOST_TASKS];
	uint64_t comms;
};

/* Values are named t0, t1 ..., and t0.s where async. */
static int
task_of(const struct st_module *m, uint32_t n)
{
	return atoi(st_value_name(m, m->nodes.at[n].first_result) + 1);
}

static void
read_task(struct plan *p, const struct graph *g, uint32_t n)
{
	const struct st_module *m = g->program;
	const struct st_node *node = &m->nodes.at[n];
	struct task *t = &p->at[task_of(m, n)];

	t->work = (double)st_cost_node(&g->machine, m, node);
	for (uint32_t i = 0; i < node->operands; i++) {
		uint32_t ref = st_node_operand(m, node, i);

		if (m->values.at[ref].node != ST_NONE)
			t->before |= (uint64_t)1
				     << task_of(m, m->values.at[ref].node);
	}
	if (!node->start)
		return;
	t->is_comm = 1;
	t->axes = (unsigned)st_node_int(m, node, ST_KEY_axes);
	t->tier = st_cost_tier(&g->machine, &m->mesh, t->axes);
	p->comms |= (uint64_t)1 << (t - p->at);
}

/* Who reads a state comes before who overwrites it. */
static void
read_writer(struct plan *p, const struct st_module *m,
	    const struct st_output *output)
{
	uint32_t state = m->states.at[output->state].value;
	int writer = task_of(m, m->values.at[output->value].node);

	for (uint32_t n = 0; n < m->nodes.count; n++)
		for (uint32_t i = 0; i < m->nodes.at[n].operands; i++)
			if (st_node_operand(m, &m->nodes.at[n], i) == state &&
			    task_of(m, n) != writer)
				p->at[writer].before |= (uint64_t)1
							<< task_of(m, n);
}

static void
read_plan(struct plan *p, const struct graph *g)
{
	const struct st_module *m = g->program;

	memset(p, 0, sizeof(*p));
	p->count = g->tasks;
	p->compute_slow = 1 + g->machine.compute_slowdown;
	p->comm_slow = 1 + g->machine.comm_slowdown;
	for (uint32_t n = 0; n < m->nodes.count; n++)
		if (m->nodes.at[n].op != ST_OP_wait)
			read_task(p, g, n);
	for (size_t i = 0; i < m->outputs.count; i++)
		if (m->outputs.at[i].state != ST_NONE)
			read_writer(p, m, &m->outputs.at[i]);
	for (int i = p->count; i-- > 0;) {
		struct task *t = &p->at[i];

		t->tail += t->work;
		for (int j = 0; j < i; j++)
			if (t->before >> j & 1)
				p->at[j].tail = fmax(p->at[j].tail, t->tail);
	}
}

/* ---- the simulator ---- */

/* What has been issued and has not ended, in order of issue. */
struct sim {
	double now;
	int count;
	int task[MOST_TASKS];
	double left[MOST_TASKS];
	uint64_t flying;
};

/* Nothing before it may share an axis with it. */
static int
moves(const struct plan *p, const struct sim *s, int i)
{
	for (int j = 0; j < i; j++)
		if (p->at[s->task[j]].axes & p->at[s->task[i]].axes)
			return 0;
	return 1;
}

/* How much longer it takes than alone: those on one tier share its links. */
static double
slowness(const struct plan *p, const struct sim *s, int i, int computing)
{
	int sharers = 0;

	for (int j = 0; j < s->count; j++)
		sharers += moves(p, s, j) &&
			   p->at[s->task[j]].tier == p->at[s->task[i]].tier;
	return sharers * (computing ? p->comm_slow : 1);
}

/* Lets time go by, up to the next end of a collective; returns how much. */
static double
pass(const struct plan *p, struct sim *s, double most, int computing)
{
	double slow[MOST_TASKS], step = most;
	int kept = 0;

	for (int i = 0; i < s->count; i++) {
		slow[i] = moves(p, s, i) ? slowness(p, s, i, computing) : 0;
		if (slow[i] > 0)
			step = fmin(step, s->left[i] * slow[i]);
	}
	s->now += step;
	for (int i = 0; i < s->count; i++) {
		double left = s->left[i];

		if (slow[i] > 0)
			left -= step / slow[i];
		/* Half a picosecond is rounding. */
		if (slow[i] > 0 && left < 0.5) {
			s->flying &= ~((uint64_t)1 << s->task[i]);
			continue;
		}
		s->task[kept] = s->task[i];
		s->left[kept++] = left;
	}
	s->count = kept;
	return step;
}

static void
run_wait(const struct plan *p, struct sim *s, uint64_t tasks)
{
	while (s->flying & tasks)
		pass(p, s, INFINITY, 0);
}

static void
run_task(const struct plan *p, struct sim *s, int task)
{
	double work = p->at[task].work;

	if (p->at[task].is_comm) {
		s->task[s->count] = task;
		s->left[s->count++] = work;
		s->flying |= (uint64_t)1 << task;
		return;
	}
	while (work > 0) {
		double slow = s->count ? p->compute_slow : 1;
		double step = pass(p, s, work * slow, 1);

		work = step >= work * slow ? 0 : work - step / slow;
	}
}

/* A step of a module in the order of its text. */
static double
judge(const struct plan *p, const struct st_module *m)
{
	struct sim s = {0};

	for (uint32_t n = 0; n < m->nodes.count; n++) {
		int task = task_of(m, n);

		if (m->nodes.at[n].op == ST_OP_wait)
			run_wait(p, &s, (uint64_t)1 << task);
		else
			run_task(p, &s, task);
	}
	run_wait(p, &s, UINT64_MAX);
	return s.now;
}

/* ---- the best order ---- */

/* A way to have issued a set of tasks, for comparison. */
struct memory {
	uint64_t run, issued;
	struct sim sim;
};

struct search {
	const struct plan *plan;
	double best;
	long visits;
	int plain; /* nothing is left out: to check the search itself */
	uint64_t run;
};

static struct memory seen[SETS][WAYS];

/* What takes turns: computations, what shares an axis, what shares a tier. */
enum { TURNS = 5 };

struct turns {
	double work[TURNS], out[TURNS];
};

static void
add_turns(struct turns *w, const struct task *t, double left)
{
	int of[TURNS] = {!t->is_comm, t->axes & 1, t->axes >> 1 & 1,
			 t->is_comm && t->tier == 0,
			 t->is_comm && t->tier == 1};

	for (int i = 0; i < TURNS; i++)
		if (of[i]) {
			w->work[i] += left;
			w->out[i] = fmin(w->out[i], t->tail - t->work);
		}
}

/* x while y runs too, where both are slower for it and neither may idle. */
static double
beside(double x, double y, double slow_x, double slow_y)
{
	return x + y * fmin(1, (slow_x - 1) * slow_y / slow_x);
}

/* No order can end before: the longest way, and all that takes turns. */
static double
bound(const struct plan *p, const struct sim *s, uint64_t issued)
{
	struct turns w = {.out = {INFINITY, INFINITY, INFINITY, INFINITY,
				  INFINITY}};
	double most = 0, busy;

	for (int i = 0; i < s->count; i++) {
		const struct task *t = &p->at[s->task[i]];

		most = fmax(most, s->left[i] + t->tail - t->work);
		add_turns(&w, t, s->left[i]);
	}
	for (int i = 0; i < p->count; i++) {
		if (issued >> i & 1)
			continue;
		most = fmax(most, p->at[i].tail);
		add_turns(&w, &p->at[i], p->at[i].work);
	}
	busy = w.work[0];
	for (int i = 0; i < TURNS; i++) {
		double work = w.work[i];

		if (work > 0)
			most = fmax(most, work + w.out[i]);
		if (i == 0)
			continue;
		most = fmax(most, beside(busy, work, p->compute_slow,
					 p->comm_slow));
		most = fmax(most, beside(work, busy, p->comm_slow,
					 p->compute_slow));
	}
	return s->now + most;
}

/* Is x, of the same tasks, at least as far as y? */
static int
is_ahead(const struct sim *x, const struct sim *y)
{
	int j = 0;

	if (x->now > y->now + 0.5)
		return 0;
	for (int i = 0; i < x->count; i++, j++) {
		while (j < y->count && y->task[j] != x->task[i])
			j++;
		if (j == y->count || x->left[i] > y->left[j] + 0.5)
			return 0;
	}
	return 1;
}

static int
was_seen(struct search *q, const struct sim *s, uint64_t issued)
{
	uint64_t hash = issued * 0x9e3779b97f4a7c15u >> 50;
	struct memory *set = seen[hash % SETS];

	for (int i = 0; i < WAYS; i++)
		if (set[i].run == q->run && set[i].issued == issued &&
		    is_ahead(&set[i].sim, s))
			return 1;
	memmove(set + 1, set, (WAYS - 1) * sizeof(*set));
	set[0] = (struct memory){q->run, issued, *s};
	return 0;
}

/* Of those that may come next and are not tried, that with the longest way
 * behind it; -1: none. */
static int
next_task(const struct plan *p, uint64_t issued, uint64_t tried)
{
	int next = -1;

	for (int i = 0; i < p->count; i++)
		if (!(tried >> i & 1) && !(p->at[i].before & ~issued) &&
		    (next < 0 || p->at[i].tail > p->at[next].tail))
			next = i;
	return next;
}

static void
search(struct search *q, const struct sim *s, uint64_t issued)
{
	const struct plan *p = q->plan;
	uint64_t tried = issued;
	struct sim then = *s;
	int next;

	q->visits++;
	if (issued == ((uint64_t)1 << p->count) - 1) {
		run_wait(p, &then, UINT64_MAX);
		q->best = fmin(q->best, then.now);
		return;
	}
	if (!q->plain && (bound(p, s, issued) >= q->best - 1 ||
			  was_seen(q, s, issued)))
		return;
	while ((next = next_task(p, issued, tried)) >= 0) {
		tried |= (uint64_t)1 << next;
		then = *s;
		/* A wait stands where its result is needed: later is not
		 * worse. */
		run_wait(p, &then, p->at[next].before & p->comms);
		run_task(p, &then, next);
		search(q, &then, issued | (uint64_t)1 << next);
	}
}

static double
best_step(const struct plan *p, double known, int plain, long *visits)
{
	static uint64_t run;
	struct search q = {.plan = p, .best = known, .plain = plain,
			   .run = ++run};
	struct sim s = {0};

	search(&q, &s, 0);
	if (visits)
		*visits += q.visits;
	return q.best;
}

/* ---- checks ---- */

static struct st_module *
schedule(struct graph *g, int64_t limit)
{
	struct st_pass_context cx = {.machine = &g->machine,
				     .memory_limit = limit};
	struct st_module *out;

	return st_pass_schedule(&cx, g->program, &out) ? NULL : out;
}

static int64_t
packed(const struct st_module *m)
{
	struct st_pass_context cx = {0};
	struct st_module *placed;

	if (st_pass_memory(&cx, m, &placed) || st_verify(placed))
		return -1;
	return placed->arena_bytes;
}

/* Do two nodes compute the same from values of the same names? */
static int
is_same_node(const struct st_module *m, const struct st_node *x,
	     const struct st_module *n, const struct st_node *y)
{
	if (x->op != y->op || x->start != y->start ||
	    x->operands != y->operands || x->attrs != y->attrs ||
	    !st_type_equal(st_value_type(m, x->first_result),
			   st_value_type(n, y->first_result)))
		return 0;
	for (uint32_t i = 0; i < x->attrs; i++)
		if (m->attrs.at[x->first_attr + i].key !=
			    n->attrs.at[y->first_attr + i].key ||
		    m->attrs.at[x->first_attr + i].i !=
			    n->attrs.at[y->first_attr + i].i)
			return 0;
	for (uint32_t i = 0; i < x->operands; i++)
		if (m->values.at[st_node_operand(m, x, i)].name !=
		    n->values.at[st_node_operand(n, y, i)].name)
			return 0;
	return 1;
}

static int
is_same_output(const struct st_module *m, const struct st_output *x,
	       const struct st_module *n, const struct st_output *y)
{
	return x->name == y->name && x->state == y->state &&
	       m->values.at[x->value].name == n->values.at[y->value].name;
}

/* The same nodes over the same values, in whatever order: names are unique,
 * and that each stands before its use is the verifier's. */
static int
is_same_program(const struct st_module *m, const struct st_module *n)
{
	if (m->nodes.count != n->nodes.count ||
	    m->outputs.count != n->outputs.count)
		return 0;
	for (uint32_t i = 0; i < n->nodes.count; i++) {
		const struct st_node *y = &n->nodes.at[i];
		uint32_t name = n->values.at[y->first_result].name;
		uint32_t j = 0;

		while (j < m->nodes.count &&
		       m->values.at[m->nodes.at[j].first_result].name != name)
			j++;
		if (j == m->nodes.count ||
		    !is_same_node(m, &m->nodes.at[j], n, y))
			return 0;
	}
	for (size_t i = 0; i < m->outputs.count; i++)
		if (!is_same_output(m, &m->outputs.at[i], n,
				    &n->outputs.at[i]))
			return 0;
	return 1;
}

/* The same program, verified, and its step by both clocks. */
static double
check_plan(const struct graph *g, const struct plan *p,
	   const struct st_module *m)
{
	struct st_explanation x;
	const char *why = NULL;
	double step = judge(p, m);
	unsigned long long seed = g->seed;

	check(st_verify(m) == ST_OK, "seed %llu: verifies", seed);
	check(is_same_program(g->program, m), "seed %llu: same program", seed);
	if (st_explain(m, &m->entries.at[0], &g->machine, &x, &why) == ST_OK)
		check(fabs((double)x.step - step) <= 1e-6 * step + 1000,
		      "seed %llu: the clock says %lld ps, the simulator %.0f",
		      seed, (long long)x.step, step);
	return step;
}

/* How much longer than the best order, in parts of it. */
static double
check_small(uint64_t seed, long *visits)
{
	static struct graph g;
	struct st_module *out = NULL;
	struct plan p;
	double gap = INFINITY;

	if (make_graph(&g, seed, 3, SMALL_TASKS))
		out = schedule(&g, 0);
	check(out != NULL, "seed %llu: compiles", (unsigned long long)seed);
	if (out) {
		double step, best;

		read_plan(&p, &g);
		step = check_plan(&g, &p, out);
		best = best_step(&p, step, 0, visits);
		gap = best > 0 ? step / best - 1 : 0;
	}
	drop_graph(&g);
	return gap;
}

static int
compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void
check_optimum(uint64_t seed, int graphs)
{
	double *gaps = malloc((size_t)graphs * sizeof(*gaps));
	double worst = -1;
	uint64_t worst_seed = 0;
	long visits = 0;
	int near = 0, exact = 0;

	for (int i = 0; i < graphs; i++) {
		gaps[i] = check_small(seed + (uint64_t)i, &visits);
		near += gaps[i] <= 0.01;
		exact += gaps[i] <= 1e-6;
		if (gaps[i] > worst) {
			worst = gaps[i];
			worst_seed = seed + (uint64_t)i;
		}
	}
	qsort(gaps, (size_t)graphs, sizeof(*gaps), compare);
	printf("%d graphs of up to %d tasks: best order in %.1f %%, within "
	       "1 %% of it in %.1f %%\n",
	       graphs, SMALL_TASKS, 100.0 * exact / graphs,
	       100.0 * near / graphs);
	printf("longer by, in %%: p50 %.2f  p90 %.2f  p95 %.2f  p99 %.2f  "
	       "worst %.2f (seed %llu); %ld visits\n",
	       100 * gaps[graphs / 2], 100 * gaps[graphs * 9 / 10],
	       100 * gaps[graphs * 95 / 100], 100 * gaps[graphs * 99 / 100],
	       100 * worst, (unsigned long long)worst_seed, visits);
	check(near >= 0.9 * graphs, "within 1 %% in nine of ten");
	check(gaps[graphs * 99 / 100] <= 0.05, "99 of 100 within 5 %%");
	free(gaps);
}

/* The search finds what trying every order finds. */
static void
check_search(uint64_t seed, int graphs)
{
	static struct graph g;
	struct plan p;

	for (int i = 0; i < graphs; i++) {
		double all, best;

		if (!make_graph(&g, seed + (uint64_t)i, 3, 8))
			continue;
		read_plan(&p, &g);
		all = best_step(&p, INFINITY, 1, NULL);
		best = best_step(&p, INFINITY, 0, NULL);
		check(fabs(all - best) <= 1e-6 * all + 1,
		      "seed %llu: best is %.0f ps, the search finds %.0f",
		      (unsigned long long)(seed + (uint64_t)i), all, best);
		drop_graph(&g);
	}
}

/* Steps and those of program order, summed up by level; the last is free. */
struct tally {
	double step[LEVELS + 1], program[LEVELS + 1];
	int runs, all;
};

/* Levels go from what the free order takes down to what the program takes. */
static void
check_limit(struct graph *g, const struct plan *p, int64_t limit,
	    double program, double *step)
{
	struct st_module *out = schedule(g, limit);
	unsigned long long seed = g->seed;
	int64_t bytes;

	*step = program;
	check(out != NULL, "seed %llu: fits into %lld bytes", seed,
	      (long long)limit);
	if (!out)
		return;
	*step = check_plan(g, p, out);
	bytes = packed(out);
	check(bytes >= 0 && bytes <= limit,
	      "seed %llu: takes %lld bytes, the limit is %lld", seed,
	      (long long)bytes, (long long)limit);
	check(*step <= program * (1 + 1e-9) + 1000,
	      "seed %llu: %.0f ps under %lld bytes, in program order %.0f",
	      seed, *step, (long long)limit, program);
}

static void
check_large(uint64_t seed, struct tally *tally)
{
	static struct graph g;
	struct st_module *out = NULL;
	struct plan p;

	if (make_graph(&g, seed, 3, MOST_TASKS))
		out = schedule(&g, 0);
	check(out != NULL, "seed %llu: compiles", (unsigned long long)seed);
	if (out) {
		double program, step;
		int64_t least = packed(g.program), most = packed(out);

		read_plan(&p, &g);
		program = judge(&p, g.program);
		step = check_plan(&g, &p, out);
		check(step <= program * (1 + 1e-9) + 1000,
		      "seed %llu: %.0f ps, in program order %.0f",
		      (unsigned long long)seed, step, program);
		tally->program[LEVELS] += program;
		tally->step[LEVELS] += step;
		tally->runs++;
		for (int i = 0; i < LEVELS; i++) {
			if (!tally->all && (uint64_t)i != seed % LEVELS)
				continue;
			check_limit(&g, &p,
				    most + (least - most) * i / (LEVELS - 1),
				    program, &step);
			tally->step[i] += step;
			tally->program[i] += program;
		}
	}
	drop_graph(&g);
}

static void
check_limits(uint64_t seed, int graphs, int all)
{
	struct tally tally = {.all = all};

	for (int i = 0; i < graphs; i++)
		check_large(seed + (uint64_t)i, &tally);
	printf("%d graphs of up to %d tasks: steps of %.3f of the program's;",
	       tally.runs, MOST_TASKS,
	       tally.step[LEVELS] / tally.program[LEVELS]);
	printf(" under limits");
	for (int i = 0; i < LEVELS; i++)
		printf(" %.3f", tally.step[i] / tally.program[i]);
	printf("\n");
}

int
main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	int small = argc > 2 ? atoi(argv[2]) : 1000;
	int large = argc > 3 ? atoi(argv[3]) : 10000;

	check_search(seed, 100);
	if (small)
		check_optimum(seed + 1000000, small);
	if (large)
		check_limits(seed + 2000000, large, argc > 4);
	return finish();
}
