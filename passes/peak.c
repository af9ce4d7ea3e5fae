/* Sums of live buffers. */

#include "passes/peak.h"

#include <string.h>

enum st_status
st_peak_init(struct st_peak *p, const struct st_tasks *tasks)
{
	const struct st_module *m = tasks->module;
	size_t n = m->values.count + 1, nodes = tasks->entry->nodes + 1u;

	memset(p, 0, sizeof(*p));
	p->tasks = tasks;
	p->last = st_arena_array(m->arena, n, sizeof(uint32_t));
	p->reader = st_arena_array(m->arena, n, sizeof(uint32_t));
	p->consumed = st_arena_array(m->arena, n, 1);
	p->freed = st_arena_array(m->arena, nodes, sizeof(int64_t));
	p->made = st_arena_array(m->arena, nodes, sizeof(int64_t));
	p->bytes = st_arena_array(m->arena, n, sizeof(int64_t));
	if (m->arena->failed)
		return st_error_memory(m->diag);
	for (uint32_t i = 0; i < tasks->entry->nodes; i++) {
		const struct st_node *node =
			&m->nodes.at[tasks->entry->first_node + i];

		for (uint32_t r = 0; r < node->results; r++)
			p->bytes[node->first_result + r] = st_live_bytes(
				tasks->live, node->first_result + r);
	}
	return ST_OK;
}

/* Does the value lie among what the entry computes, by itself? */
static int
is_own(const struct st_peak *p, uint32_t value)
{
	const struct st_module *m = p->tasks->module;

	return m->values.at[value].kind == ST_VALUE_RESULT &&
	       p->tasks->live->becomes[value] == ST_NONE;
}

static void
find_ends(struct st_peak *p, const uint32_t *order, uint32_t count)
{
	const struct st_module *m = p->tasks->module;
	const struct st_entry *entry = p->tasks->entry;

	for (uint32_t i = 0; i < count; i++) {
		const struct st_node *node = &m->nodes.at[order[i]];

		for (uint32_t r = 0; r < node->results; r++) {
			uint32_t value = node->first_result + r;

			p->last[value] = p->reader[value] = i;
			p->consumed[value] = 0;
		}
		for (uint32_t j = 0; j < node->operands; j++) {
			uint32_t ref = st_node_operand(m, node, j);

			p->last[ref] = p->reader[ref] = i;
		}
		if (node->op == ST_OP_wait) {
			const struct st_node *start =
				&m->nodes.at[st_wait_start(m, node)];

			p->last[st_node_operand(m, start, 0)] = i;
		}
	}
	for (uint32_t i = 0; i < entry->outputs; i++)
		p->last[m->outputs.at[entry->first_output + i].value] = count;
}

/* Does result r of the node at position i take over an operand's buffer? */
static int
takes_over(struct st_peak *p, const struct st_node *node, uint32_t r,
	   uint32_t i)
{
	const struct st_module *m = p->tasks->module;
	uint32_t from = st_live_donor(m, node, r);

	if (node->op == ST_OP_wait) {
		p->consumed[st_node_operand(m, node, 0)] = 1;
		return 1;
	}
	if (from == ST_NONE || !is_own(p, from) || p->consumed[from] ||
	    p->reader[from] != i)
		return 0;
	if (!node->start && p->last[from] != i)
		return 0;
	if (node->start && p->tasks->live->lent[from] != 1)
		return 0;
	if (p->bytes[from] != p->bytes[node->first_result + r])
		return 0;
	p->consumed[from] = 1;
	return 1;
}

static int64_t
release(struct st_peak *p, uint32_t value, uint32_t i)
{
	if (p->last[value] != i || !is_own(p, value) || p->consumed[value])
		return 0;
	p->consumed[value] = 1;
	return p->bytes[value];
}

static int64_t
free_behind(struct st_peak *p, const struct st_node *node, uint32_t i)
{
	const struct st_module *m = p->tasks->module;
	int64_t bytes = 0;

	for (uint32_t j = 0; j < node->operands; j++)
		bytes += release(p, st_node_operand(m, node, j), i);
	for (uint32_t r = 0; r < node->results; r++)
		bytes += release(p, node->first_result + r, i);
	if (node->op == ST_OP_wait) {
		const struct st_node *start =
			&m->nodes.at[st_wait_start(m, node)];

		bytes += release(p, st_node_operand(m, start, 0), i);
	}
	return bytes;
}

int64_t
st_peak_run(struct st_peak *p, const uint32_t *order, uint32_t count,
	    int64_t *during)
{
	const struct st_module *m = p->tasks->module;
	int64_t live = 0, top = 0;

	find_ends(p, order, count);
	for (uint32_t i = 0; i < count; i++) {
		const struct st_node *node = &m->nodes.at[order[i]];
		uint32_t local = order[i] - p->tasks->entry->first_node;

		p->made[local] = 0;
		for (uint32_t r = 0; r < node->results; r++) {
			uint32_t value = node->first_result + r;

			if (takes_over(p, node, r, i) || !is_own(p, value))
				continue;
			p->made[local] += p->bytes[value];
		}
		live += p->made[local];
		if (during)
			during[i] = live;
		if (live > top)
			top = live;
		p->freed[local] = free_behind(p, node, i);
		live -= p->freed[local];
	}
	return top;
}
