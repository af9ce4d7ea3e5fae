/* Traces of plans and of sessions, and what they sum up to. */

#include "runtime/trace.h"

#include <stdlib.h>
#include <string.h>

struct tracer {
	const struct st_module *m;
	const struct st_entry *entry;
	struct st_trace *trace;
	uint8_t lane[1 << ST_MAX_AXES]; /* by axes; 0: none yet */
};

static const char *
axes_text(const struct st_module *m, unsigned axes)
{
	struct st_buffer out;
	const char *plus = "";

	st_buffer_init(&out, m->arena);
	for (uint32_t i = 0; i < m->mesh.count; i++) {
		if (!(axes >> i & 1))
			continue;
		st_buffer_printf(&out, "%s%s", plus,
				 st_names_text(m->names, m->mesh.name[i]));
		plus = "+";
	}
	return out.text ? out.text : "";
}

static int
lane_of(struct tracer *t, const struct st_node *node)
{
	unsigned axes;

	if (st_ops[node->op].class != ST_COMM)
		return 0;
	axes = (unsigned)st_node_int(t->m, node, ST_KEY_axes);
	if (!t->lane[axes]) {
		t->lane[axes] = (uint8_t)t->trace->lane_count;
		t->trace->lanes[t->trace->lane_count++] = axes_text(t->m, axes);
	}
	return t->lane[axes];
}

static enum st_status
begin(struct tracer *t, const struct st_module *m, const struct st_entry *entry,
      struct st_trace *trace)
{
	memset(trace, 0, sizeof(*trace));
	memset(t, 0, sizeof(*t));
	t->m = m;
	t->entry = entry;
	t->trace = trace;
	trace->machine = "";
	trace->ranks = st_mesh_ranks(&m->mesh);
	trace->lanes[trace->lane_count++] = "compute";
	trace->at =
		st_arena_array(m->arena, entry->nodes + 1u, sizeof(*trace->at));
	return trace->at ? ST_OK : st_error_memory(m->diag);
}

/* Of a bucket only the first is shown: they are one launch. */
static void
add(struct tracer *t, uint32_t index, int64_t from, int64_t to)
{
	const struct st_node *node = &t->m->nodes.at[index];
	struct st_trace_event *event = &t->trace->at[t->trace->count];

	if (node->op == ST_OP_wait || to <= from)
		return;
	event->node = st_value_name(t->m, node->first_result);
	event->op = node->op;
	event->region = node->region;
	event->lane = (uint8_t)lane_of(t, node);
	event->begin = from;
	event->end = to;
	event->bytes = event->lane ? st_cost_bytes(t->m, node) : 0;
	for (uint32_t i = t->trace->count; event->lane && i-- > 0;) {
		struct st_trace_event *before = &t->trace->at[i];

		if (before->lane != event->lane)
			continue;
		if (before->begin != from || before->end != to)
			break;
		before->bytes += event->bytes;
		return;
	}
	t->trace->step = to > t->trace->step ? to : t->trace->step;
	t->trace->count++;
}

enum st_status
st_trace_predict(const struct st_module *m, const struct st_entry *entry,
		 const struct st_explanation *x, struct st_trace *trace)
{
	struct tracer t;

	ST_TRY(begin(&t, m, entry, trace));
	trace->kind = "predicted";
	for (uint32_t i = 0; i < entry->nodes; i++)
		add(&t, entry->first_node + i, x->node_begin[i],
		    x->node_end[i]);
	trace->step = x->step;
	return m->arena->failed ? st_error_memory(m->diag) : ST_OK;
}

enum st_status
st_trace_measure(const struct st_session *session, const struct st_module *m,
		 uint32_t entry, int64_t rank, struct st_trace *trace)
{
	const struct st_entry *e = &m->entries.at[entry];
	const struct st_trace_time *time =
		st_session_trace(session, rank, entry);
	int64_t first = INT64_MAX;
	struct tracer t;

	ST_TRY(begin(&t, m, e, trace));
	trace->kind = "measured";
	trace->rank = rank;
	for (uint32_t i = 0; time && i < e->nodes; i++)
		if (time[i].begin < first)
			first = time[i].begin;
	for (uint32_t i = 0; time && i < e->nodes; i++)
		add(&t, e->first_node + i, (time[i].begin - first) * 1000,
		    (time[i].end - first) * 1000);
	return m->arena->failed ? st_error_memory(m->diag) : ST_OK;
}

/* ---- sums ---- */

static int
by_begin(const void *a, const void *b)
{
	const struct st_trace_event *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return (x->lane > y->lane) - (x->lane < y->lane);
}

/* How much of [from, to) the events of the compute lane cover; `*at` moves on
 * to the first that ends behind `from`. */
static int64_t
covered(const struct st_trace_event *compute, uint32_t count, uint32_t *at,
	int64_t from, int64_t to)
{
	int64_t sum = 0;

	while (*at < count && compute[*at].end <= from)
		++*at;
	for (uint32_t i = *at; i < count && compute[i].begin < to; i++) {
		int64_t a = compute[i].begin > from ? compute[i].begin : from;
		int64_t b = compute[i].end < to ? compute[i].end : to;

		sum += b > a ? b - a : 0;
	}
	return sum;
}

/* The union of the collectives, and what of it has computation beside it. */
static void
sum_comm(const struct st_trace_event *compute, uint32_t compute_count,
	 const struct st_trace_event *comm, uint32_t comm_count,
	 struct st_trace_sums *sums)
{
	uint32_t at = 0, at_lane[ST_TRACE_MAX_LANES] = {0};
	int64_t until = 0;

	for (uint32_t i = 0; i < comm_count; i++) {
		const struct st_trace_event *e = &comm[i];
		int64_t from = e->begin > until ? e->begin : until;
		int64_t beside = covered(compute, compute_count,
					 &at_lane[e->lane], e->begin, e->end);

		sums->busy[e->lane] += e->end - e->begin;
		sums->alone[e->lane] += e->end - e->begin - beside;
		if (e->end <= from)
			continue;
		sums->comm += e->end - from;
		sums->both +=
			covered(compute, compute_count, &at, from, e->end);
		until = e->end;
	}
}

enum st_status
st_trace_sum(struct st_arena *arena, const struct st_trace *trace,
	     struct st_trace_sums *sums)
{
	struct st_trace_event *sorted =
		st_arena_array(arena, trace->count + 1u, sizeof(*sorted));
	uint32_t compute = 0, comm = 0;

	memset(sums, 0, sizeof(*sums));
	if (!sorted)
		return ST_EDEVICE;
	for (uint32_t i = 0; i < trace->count; i++)
		if (trace->at[i].lane == 0)
			sorted[compute++] = trace->at[i];
	for (uint32_t i = 0; i < trace->count; i++)
		if (trace->at[i].lane != 0)
			sorted[compute + comm++] = trace->at[i];
	qsort(sorted, compute, sizeof(*sorted), by_begin);
	qsort(sorted + compute, comm, sizeof(*sorted), by_begin);
	for (uint32_t i = 0; i < compute; i++)
		sums->compute += sorted[i].end - sorted[i].begin;
	sums->busy[0] = sums->compute;
	sum_comm(sorted, compute, sorted + compute, comm, sums);
	return ST_OK;
}

double
st_trace_hta_overlap_pct(const struct st_trace_sums *sums)
{
	return sums->comm ? 100.0 * (double)sums->both / (double)sums->comm
			  : 0.0;
}
