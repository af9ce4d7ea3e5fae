/* Verdicts, the identity of a step, and a lower bound. */

#include "passes/explain.h"

#include "passes/lanes.h"
#include "passes/peak.h"

#include <string.h>

struct explainer {
	const struct st_module *m;
	struct st_arena *arena;
	struct st_live live;
	struct st_tasks t;
	struct st_lanes lanes;
	struct st_explanation *x;
	int32_t *ticket;   /* by task */
	uint32_t *verdict; /* by task */
	int64_t *done;     /* by task: when it has ended */
	int64_t *head, *tail; /* by task: longest way to it, and behind it */
};

static void
add_verdict(struct explainer *e, uint32_t task)
{
	const struct st_task *at = &e->t.at[task];
	struct st_verdict *v = &e->x->verdicts[e->x->count];

	e->verdict[task] = e->x->count++;
	v->start = e->t.pairs[at->first_pair].start;
	v->wait = e->t.pairs[at->first_pair].wait;
	v->members = at->pairs;
	v->total = at->work;
	v->blocker = ST_NONE;
	for (uint32_t p = 0; p < at->pairs; p++)
		v->bytes += st_cost_bytes(
			e->m,
			&e->m->nodes.at[e->t.pairs[at->first_pair + p].start]);
	e->x->comm += at->work;
}

static void
walk(struct explainer *e)
{
	struct st_explanation *x = e->x;
	uint32_t base = e->t.entry->first_node;

	for (uint32_t i = 0; i < e->t.entry->nodes; i++) {
		uint32_t task = e->t.of_node[i];
		const struct st_task *at = &e->t.at[task];
		int64_t before = e->lanes.now;

		if (!st_task_is_comm(at)) {
			st_lanes_compute(&e->lanes, at->work);
			x->busy += at->work;
			e->done[task] = e->lanes.now;
		} else if (e->m->nodes.at[base + i].start) {
			if (e->t.pairs[at->first_pair + at->pairs - 1].start ==
			    base + i) {
				e->ticket[task] = st_lanes_start(
					&e->lanes, at->lane, at->tier,
					at->work);
				add_verdict(e, task);
			}
		} else {
			int64_t stall =
				st_lanes_wait(&e->lanes, e->ticket[task]);

			x->verdicts[e->verdict[task]].exposed += stall;
			x->stalls += stall;
			e->done[task] = e->lanes.tickets[e->ticket[task]].end;
		}
		x->node_begin[i] = before;
		x->node_end[i] = e->lanes.now;
	}
	x->step = e->lanes.now;
	x->contention = e->lanes.contention;
}

/* The latest of what a collective needs, and who made it. */
static int64_t
ready_at(const struct explainer *e, uint32_t task, uint32_t *maker)
{
	const struct st_task *at = &e->t.at[task];
	int64_t latest = 0;

	*maker = ST_NONE;
	for (uint32_t p = 0; p < at->preds; p++) {
		uint32_t from = e->t.edges[at->first_pred + p];

		if (e->done[from] < latest)
			continue;
		latest = e->done[from];
		*maker = e->t.at[from].node;
	}
	return latest;
}

static int
computes_later(const struct explainer *e, uint32_t node)
{
	for (uint32_t i = node + 1 - e->t.entry->first_node;
	     i < e->t.entry->nodes; i++)
		if (!st_task_is_comm(&e->t.at[e->t.of_node[i]]))
			return 1;
	return 0;
}

static void
judge(struct explainer *e, uint32_t task, uint32_t *last_on_lane)
{
	const struct st_task *at = &e->t.at[task];
	struct st_verdict *v = &e->x->verdicts[e->verdict[task]];
	const struct st_ticket *ticket = &e->lanes.tickets[e->ticket[task]];
	uint32_t maker;
	int64_t ready = ready_at(e, task, &maker);

	v->ready = ready;
	v->issued = ticket->issued;
	v->begin = ticket->begin;
	v->end = ticket->end;
	if (v->exposed > 0) {
		v->reason = ST_REASON_OPERAND;
		v->blocker = maker;
		if (v->begin > v->issued) {
			v->reason = ST_REASON_LANE;
			v->blocker = last_on_lane[at->lane];
		} else if (v->issued > ready) {
			v->reason = ST_REASON_ISSUE;
			v->blocker = maker;
		} else if (!computes_later(e, v->wait)) {
			v->reason = ST_REASON_END;
		}
	}
	last_on_lane[at->lane] = at->node;
	/* A start's own time is that of its transfer. */
	for (uint32_t p = 0; p < at->pairs; p++) {
		uint32_t i = e->t.pairs[at->first_pair + p].start -
			     e->t.entry->first_node;

		e->x->node_begin[i] = v->begin;
		e->x->node_end[i] = v->end;
	}
}

static void
judge_all(struct explainer *e)
{
	uint32_t last_on_lane[ST_LANES_MAX];

	memset(last_on_lane, 0xff, sizeof(last_on_lane));
	/* In order of issue, which is that of the tickets. */
	for (uint32_t i = 0; i < e->t.entry->nodes; i++) {
		uint32_t task = e->t.of_node[i];
		const struct st_task *at = &e->t.at[task];
		uint32_t node = e->t.entry->first_node + i;

		if (st_task_is_comm(at) &&
		    e->t.pairs[at->first_pair + at->pairs - 1].start == node)
			judge(e, task, last_on_lane);
	}
}

/* ---- the lower bound ---- */

static void
find_ways(struct explainer *e)
{
	const struct st_tasks *t = &e->t;

	for (uint32_t i = 0; i < t->count; i++)
		for (uint32_t p = 0; p < t->at[i].preds; p++) {
			uint32_t from = t->edges[t->at[i].first_pred + p];
			int64_t way = e->head[from] + t->at[from].work;

			if (way > e->head[i])
				e->head[i] = way;
		}
	for (uint32_t i = t->count; i-- > 0;)
		for (uint32_t s = 0; s < t->at[i].succs; s++) {
			uint32_t to = t->edges[t->at[i].first_succ + s];
			int64_t way = e->tail[to] + t->at[to].work;

			if (way > e->tail[i])
				e->tail[i] = way;
		}
}

static void
take_bound(struct explainer *e, int64_t bound, const char *by)
{
	if (bound <= e->x->bound && e->x->bound_by)
		return;
	e->x->bound = bound;
	e->x->bound_by = by;
}

/* All work of one lane, behind the shortest way to any of it and before the
 * shortest way out.  lane -1: the computations. */
static int64_t
lane_bound(const struct explainer *e, int lane, int64_t *work)
{
	int64_t sum = 0, head = INT64_MAX, tail = INT64_MAX;

	for (uint32_t i = 0; i < e->t.count; i++) {
		const struct st_task *at = &e->t.at[i];

		if (at->work == 0 ||
		    (st_task_is_comm(at) ? at->lane : -1) != lane)
			continue;
		sum += at->work;
		head = e->head[i] < head ? e->head[i] : head;
		tail = e->tail[i] < tail ? e->tail[i] : tail;
	}
	*work = sum;
	return sum ? head + sum + tail : 0;
}

static const char *
lane_name(const struct explainer *e, int lane)
{
	const struct st_module *m = e->m;
	struct st_buffer out;
	const char *plus = "";

	st_buffer_init(&out, e->arena);
	for (uint32_t i = 0; i < m->mesh.count; i++) {
		if (!(e->t.lane_axes[lane] >> i & 1))
			continue;
		st_buffer_printf(&out, "%s%s", plus,
				 st_names_text(m->names, m->mesh.name[i]));
		plus = "+";
	}
	return out.text ? out.text : "";
}

static void
find_bound(struct explainer *e)
{
	int64_t path = 0, busy, most = 0, work, sum;
	/* A collective of M beside computations of C costs them at least
	 * M*s/(1+s), and alone it costs M. */
	int64_t slow = e->lanes.compute_thousandths;

	find_ways(e);
	for (uint32_t i = 0; i < e->t.count; i++) {
		int64_t way = e->head[i] + e->t.at[i].work + e->tail[i];

		path = way > path ? way : path;
	}
	sum = lane_bound(e, -1, &busy);
	take_bound(e, path, "path");
	take_bound(e, sum, "compute");
	for (int lane = 0; lane < e->t.lanes; lane++) {
		take_bound(e, lane_bound(e, lane, &work), lane_name(e, lane));
		most = work > most ? work : most;
	}
	take_bound(e, busy + most * (slow - 1000) / slow, "compute");
}

static enum st_status
allocate(struct explainer *e)
{
	size_t tasks = e->t.count + 1u, nodes = e->t.entry->nodes + 1u;

	e->ticket = st_arena_array(e->arena, tasks, sizeof(int32_t));
	e->verdict = st_arena_array(e->arena, tasks, sizeof(uint32_t));
	e->done = st_arena_array(e->arena, tasks, sizeof(int64_t));
	e->head = st_arena_array(e->arena, tasks, sizeof(int64_t));
	e->tail = st_arena_array(e->arena, tasks, sizeof(int64_t));
	e->x->verdicts = st_arena_array(e->arena, tasks,
					sizeof(*e->x->verdicts));
	e->x->node_begin = st_arena_array(e->arena, nodes, sizeof(int64_t));
	e->x->node_end = st_arena_array(e->arena, nodes, sizeof(int64_t));
	return e->arena->failed ? st_error_memory(e->m->diag) : ST_OK;
}

static enum st_status
find_peak(struct explainer *e)
{
	struct st_peak peak;
	uint32_t *order = st_arena_array(
		e->arena, e->t.entry->nodes + 1u, sizeof(uint32_t));

	ST_TRY(st_peak_init(&peak, &e->t));
	if (!order)
		return st_error_memory(e->m->diag);
	for (uint32_t i = 0; i < e->t.entry->nodes; i++)
		order[i] = e->t.entry->first_node + i;
	e->x->peak = st_peak_run(&peak, order, e->t.entry->nodes, NULL);
	return ST_OK;
}

enum st_status
st_explain(const struct st_module *m, const struct st_entry *entry,
	   const struct st_machine *machine, struct st_explanation *x,
	   const char **why)
{
	struct explainer e = {.m = m, .arena = m->arena, .x = x};

	memset(x, 0, sizeof(*x));
	ST_TRY(st_live_init(&e.live, m));
	st_live_entry(&e.live, entry);
	ST_TRY(st_tasks_make(&e.t, m, entry, machine, &e.live, 1, why));
	ST_TRY(allocate(&e));
	if (st_lanes_init(&e.lanes, e.arena, machine, e.t.lane_axes, e.t.lanes,
			  e.t.count))
		return st_error_memory(m->diag);
	walk(&e);
	judge_all(&e);
	find_bound(&e);
	return find_peak(&e);
}

static const char *
name_of(const struct st_module *m, uint32_t node)
{
	return node == ST_NONE
		       ? "?"
		       : st_value_name(m, m->nodes.at[node].first_result);
}

const char *
st_explain_reason(const struct st_module *m, const struct st_verdict *v)
{
	const char *who = name_of(m, v->blocker);
	const char *text = NULL;

	switch (v->reason) {
	case ST_REASON_NONE: return "hidden";
	case ST_REASON_END: return "nothing is left to compute beside it";
	case ST_REASON_OPERAND:
		text = st_arena_printf(
			m->arena, "its operand is made only by %%%s", who);
		break;
	case ST_REASON_LANE:
		text = st_arena_printf(
			m->arena, "its communicator was busy with %%%s", who);
		break;
	case ST_REASON_ISSUE:
		text = st_arena_printf(
			m->arena,
			"it is issued %.1f us after it could be: memory, or "
			"the order as written",
			(double)(v->issued - v->ready) / 1e6);
		break;
	}
	return text ? text : "";
}
