/* Tasks and dependences of an entry. */

#include "passes/tasks.h"

#include <string.h>

struct maker {
	struct st_tasks *t;
	const struct st_module *m;
	struct st_arena *arena;
	uint32_t base, end; /* nodes */
	int buckets;        /* else every collective by itself */
	uint32_t *wait_of;  /* by node - base: the wait of a start */
	size_t edge_count, edge_capacity;
	uint32_t *from, *to; /* edges as they are found */
	size_t to_capacity;
	/* Readers of each state, as a chain of tasks. */
	uint32_t *last_edge_of; /* by task: the task it was last linked from */
};

static int64_t
bucket_of(const struct maker *k, const struct st_node *node)
{
	const struct st_module *m = k->m;
	const struct st_attr *attr = st_node_attr(m, node, ST_KEY_bucket);

	return attr && k->buckets ? attr->i : -1;
}

/* One lane for each set of axes. */
static int
lane_of(struct st_tasks *t, unsigned axes)
{
	int i = 0;

	while (i < t->lanes && t->lane_axes[i] != axes)
		i++;
	if (i == t->lanes && t->lanes < ST_LANES_MAX)
		t->lane_axes[t->lanes++] = (uint8_t)axes;
	return i;
}

static void
add_comm(struct maker *k, uint32_t n, const struct st_machine *machine)
{
	const struct st_module *m = k->m;
	const struct st_node *node = &m->nodes.at[n];
	struct st_tasks *t = k->t;
	struct st_task *task = t->count ? &t->at[t->count - 1] : NULL;
	unsigned axes = (unsigned)st_node_int(m, node, ST_KEY_axes);
	int64_t bucket = bucket_of(k, node), bytes = 0;
	uint32_t pair;

	/* A bucket goes on where the start before belongs to it. */
	if (!(bucket >= 0 && task && task->pairs && n > k->base &&
	      m->nodes.at[n - 1].start &&
	      t->of_node[n - 1 - k->base] == t->count - 1 &&
	      m->nodes.at[n - 1].op == node->op &&
	      st_node_int(m, &m->nodes.at[n - 1], ST_KEY_axes) ==
		      (int64_t)axes &&
	      bucket_of(k, &m->nodes.at[n - 1]) == bucket)) {
		task = &t->at[t->count++];
		task->node = n;
		task->first_pair = t->count > 1 ? (task - 1)->first_pair +
							  (task - 1)->pairs
						: 0;
	}
	pair = task->first_pair + task->pairs++;
	t->pairs[pair] = (struct st_pair){n, k->wait_of[n - k->base]};
	task->lane = (uint8_t)lane_of(t, axes);
	task->tier = (uint8_t)st_cost_tier(machine, &m->mesh, axes);
	for (uint32_t i = 0; i < task->pairs; i++)
		bytes += st_cost_bytes(
			m, &m->nodes.at[t->pairs[task->first_pair + i].start]);
	/* What was measured of a bucket is under its first name. */
	task->work = st_cost_measured(machine, m, &m->nodes.at[task->node]);
	if (task->work == 0)
		task->work = st_cost_collective(machine, &m->mesh, node->op,
						axes, bytes);
	t->of_node[n - k->base] = t->count - 1;
	t->of_node[t->pairs[pair].wait - k->base] = t->count - 1;
}

static void
add_compute(struct maker *k, uint32_t n, const struct st_machine *machine)
{
	struct st_tasks *t = k->t;
	struct st_task *task = &t->at[t->count++];

	task->node = n;
	task->first_pair =
		t->count > 1 ? (task - 1)->first_pair + (task - 1)->pairs : 0;
	task->work = st_cost_node(machine, k->m, &k->m->nodes.at[n]);
	t->of_node[n - k->base] = t->count - 1;
	t->computes[t->compute_count++] = t->count - 1;
}

static enum st_status
find_waits(struct maker *k, const char **why)
{
	for (uint32_t n = k->base; n < k->end; n++) {
		const struct st_node *node = &k->m->nodes.at[n];

		if (node->start &&
		    st_value_type(k->m, st_node_operand(k->m, node, 0))
			    ->is_async) {
			*why = "a start takes an async value";
			return ST_EINFEASIBLE;
		}
		if (node->start &&
		    lane_of(k->t,
			    (unsigned)st_node_int(k->m, node, ST_KEY_axes)) ==
			    ST_LANES_MAX) {
			*why = "it has more sets of axes than lanes";
			return ST_EINFEASIBLE;
		}
		if (node->op == ST_OP_wait)
			k->wait_of[st_wait_start(k->m, node) - k->base] = n;
	}
	return ST_OK;
}

static int
add_edge(struct maker *k, uint32_t from, uint32_t to)
{
	uint32_t *grown;

	if (from == to || k->last_edge_of[from] == to + 1)
		return 1;
	k->last_edge_of[from] = to + 1;
	grown = st_arena_grow(k->arena, k->from, k->edge_count,
			      &k->edge_capacity, k->edge_count + 1,
			      sizeof(*grown));
	if (!grown)
		return 0;
	k->from = grown;
	grown = st_arena_grow(k->arena, k->to, k->edge_count, &k->to_capacity,
			      k->edge_count + 1, sizeof(*grown));
	if (!grown)
		return 0;
	k->to = grown;
	k->from[k->edge_count] = from;
	k->to[k->edge_count++] = to;
	return 1;
}

/* What a node reads comes before it. */
static int
link_operands(struct maker *k, uint32_t n, uint32_t task)
{
	const struct st_node *node = &k->m->nodes.at[n];

	for (uint32_t i = 0; i < node->operands; i++) {
		uint32_t ref = st_node_operand(k->m, node, i);
		uint32_t maker = k->m->values.at[ref].node;

		if (maker != ST_NONE &&
		    !add_edge(k, k->t->of_node[maker - k->base], task))
			return 0;
	}
	return 1;
}

/* Who reads a state comes before who overwrites it. */
static int
link_readers(struct maker *k, uint32_t n, uint32_t task)
{
	const struct st_node *node = &k->m->nodes.at[n];

	for (uint32_t i = 0; i < node->operands; i++) {
		uint32_t ref = st_node_operand(k->m, node, i);
		uint32_t writer;

		if (ref >= k->m->states.count)
			continue;
		writer = k->t->live->writer[ref];
		if (writer != ST_NONE &&
		    !add_edge(k, task, k->t->of_node[writer - k->base]))
			return 0;
	}
	return 1;
}

static int
link_tasks(struct maker *k)
{
	struct st_tasks *t = k->t;

	for (uint32_t i = 0; i < t->count; i++) {
		const struct st_task *task = &t->at[i];

		if (!task->pairs && !link_operands(k, task->node, i))
			return 0;
		for (uint32_t p = 0; p < task->pairs; p++)
			if (!link_operands(
				    k, t->pairs[task->first_pair + p].start, i))
				return 0;
	}
	memset(k->last_edge_of, 0, t->count * sizeof(uint32_t));
	for (uint32_t i = 0; i < t->count; i++) {
		const struct st_task *task = &t->at[i];

		if (!task->pairs && !link_readers(k, task->node, i))
			return 0;
		for (uint32_t p = 0; p < task->pairs; p++)
			if (!link_readers(
				    k, t->pairs[task->first_pair + p].start, i))
				return 0;
	}
	return 1;
}

/* Counting sort of the edges by both ends. */
static int
sort_edges(struct maker *k)
{
	struct st_tasks *t = k->t;
	uint32_t preds = 0, succs = (uint32_t)k->edge_count;

	t->edges = st_arena_array(k->arena, 2 * k->edge_count + 1,
				  sizeof(uint32_t));
	if (!t->edges)
		return 0;
	for (size_t e = 0; e < k->edge_count; e++) {
		t->at[k->to[e]].preds++;
		t->at[k->from[e]].succs++;
	}
	for (uint32_t i = 0; i < t->count; i++) {
		t->at[i].first_pred = preds;
		t->at[i].first_succ = succs;
		preds += t->at[i].preds;
		succs += t->at[i].succs;
		t->at[i].preds = t->at[i].succs = 0;
	}
	for (size_t e = 0; e < k->edge_count; e++) {
		struct st_task *from = &t->at[k->from[e]];
		struct st_task *to = &t->at[k->to[e]];

		t->edges[to->first_pred + to->preds++] = k->from[e];
		t->edges[from->first_succ + from->succs++] = k->to[e];
	}
	return 1;
}

static int
allocate(struct maker *k)
{
	struct st_tasks *t = k->t;
	size_t n = t->entry->nodes + 1u;

	t->at = st_arena_array(k->arena, n, sizeof(*t->at));
	t->computes = st_arena_array(k->arena, n, sizeof(uint32_t));
	t->pairs = st_arena_array(k->arena, n, sizeof(*t->pairs));
	t->of_node = st_arena_array(k->arena, n, sizeof(uint32_t));
	k->wait_of = st_arena_array(k->arena, n, sizeof(uint32_t));
	k->last_edge_of = st_arena_array(k->arena, n, sizeof(uint32_t));
	return !k->arena->failed;
}

enum st_status
st_tasks_make(struct st_tasks *t, const struct st_module *m,
	      const struct st_entry *entry, const struct st_machine *machine,
	      const struct st_live *live, int buckets, const char **why)
{
	struct maker k = {.t = t,
			  .m = m,
			  .arena = m->arena,
			  .buckets = buckets,
			  .base = entry->first_node,
			  .end = entry->first_node + entry->nodes};

	memset(t, 0, sizeof(*t));
	t->module = m;
	t->entry = entry;
	t->live = live;
	if (!allocate(&k))
		return st_error_memory(m->diag);
	ST_TRY(find_waits(&k, why));
	for (uint32_t n = k.base; n < k.end; n++) {
		const struct st_node *node = &m->nodes.at[n];

		if (node->start)
			add_comm(&k, n, machine);
		else if (node->op != ST_OP_wait)
			add_compute(&k, n, machine);
	}
	if (!link_tasks(&k) || !sort_edges(&k))
		return st_error_memory(m->diag);
	return ST_OK;
}
