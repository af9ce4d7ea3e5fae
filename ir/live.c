/* Lives of buffers. */

#include "ir/live.h"

#include <string.h>

uint32_t
st_live_donor(const struct st_module *m, const struct st_node *node,
	      uint32_t r)
{
	char c = st_ops[node->op].inplace[r];

	return c == '-' ? ST_NONE : st_node_operand(m, node, (size_t)(c - '0'));
}

int64_t
st_live_bytes(const struct st_live *live, uint32_t value)
{
	const struct st_module *m = live->module;
	int64_t bytes =
		st_type_local_bytes(st_value_type(m, value), &m->mesh) +
		live->slack;

	return (bytes + ST_PLACE_ALIGN - 1) / ST_PLACE_ALIGN * ST_PLACE_ALIGN;
}

static int
has_flat(const struct st_module *m)
{
	for (size_t i = 0; i < m->types.count; i++)
		if (m->types.at[i].flat)
			return 1;
	return 0;
}

enum st_status
st_live_init(struct st_live *live, const struct st_module *m)
{
	size_t n = m->values.count + 1;

	memset(live, 0, sizeof(*live));
	live->module = m;
	live->slack = has_flat(m) ? 8 * st_mesh_ranks(&m->mesh) : 0;
	live->reader = st_arena_array(m->arena, n, sizeof(uint32_t));
	live->until = st_arena_array(m->arena, n, sizeof(uint32_t));
	live->lent = st_arena_array(m->arena, n, sizeof(uint16_t));
	live->becomes = st_arena_array(m->arena, n, sizeof(uint32_t));
	live->next = st_arena_array(m->arena, n, sizeof(uint32_t));
	live->first = st_arena_array(m->arena, m->nodes.count + 1,
				     sizeof(uint32_t));
	live->writer = st_arena_array(m->arena, m->states.count + 1,
				      sizeof(uint32_t));
	return m->arena->failed ? st_error_memory(m->diag) : ST_OK;
}

/* A wait gives back what its start was lent, and what the starts before that
 * in a chain were. */
static void
give_back(struct st_live *live, uint32_t wait)
{
	const struct st_module *m = live->module;
	const struct st_node *node = &m->nodes.at[wait];

	do {
		uint32_t from = st_node_operand(m, node, 0);

		live->until[from] = wait;
		if (m->values.at[from].node == ST_NONE)
			return;
		node = &m->nodes.at[m->values.at[from].node];
	} while (node->start);
}

static void
read_node(struct st_live *live, uint32_t n)
{
	const struct st_module *m = live->module;
	const struct st_node *node = &m->nodes.at[n];

	for (uint32_t i = 0; i < node->results; i++) {
		uint32_t value = node->first_result + i;

		live->reader[value] = live->until[value] = n;
		live->lent[value] = 0;
		live->becomes[value] = ST_NONE;
	}
	for (uint32_t i = 0; i < node->operands; i++) {
		uint32_t ref = st_node_operand(m, node, i);

		live->reader[ref] = n;
		if (live->until[ref] == ST_NONE || live->until[ref] < n)
			live->until[ref] = n;
		live->lent[ref] = (uint16_t)(live->lent[ref] + node->start);
	}
}

/* What a wait hands on has lain there since its start. */
static void
becomes(struct st_live *live, uint32_t value, uint32_t state)
{
	const struct st_module *m = live->module;
	uint32_t n = m->values.at[value].node;

	live->becomes[value] = state;
	live->writer[state] = n;
	if (m->nodes.at[n].op != ST_OP_wait)
		return;
	live->becomes[st_node_operand(m, &m->nodes.at[n], 0)] = state;
	live->writer[state] = st_wait_start(m, &m->nodes.at[n]);
}

static void
read_outputs(struct st_live *live, const struct st_entry *entry)
{
	const struct st_module *m = live->module;

	for (uint32_t i = 0; i < entry->outputs; i++) {
		const struct st_output *output =
			&m->outputs.at[entry->first_output + i];

		if (output->state == ST_NONE) {
			live->until[output->value] = live->end;
			continue;
		}
		live->until[output->value] = live->end;
		becomes(live, output->value, output->state);
	}
}

static void
link_ends(struct st_live *live, const struct st_entry *entry)
{
	const struct st_module *m = live->module;
	uint32_t last = entry->first_input + entry->inputs;

	for (uint32_t n = live->begin; n < live->end; n++)
		last = m->nodes.at[n].first_result + m->nodes.at[n].results;
	memset(live->first + live->begin, 0xff,
	       (size_t)(live->end - live->begin + 1) * sizeof(uint32_t));
	/* From the end, so that lists are in order of values. */
	for (uint32_t v = last; v-- > entry->first_input;) {
		uint32_t n = live->until[v];

		if (n == ST_NONE)
			continue;
		live->next[v] = live->first[n];
		live->first[n] = v;
	}
}

void
st_live_entry(struct st_live *live, const struct st_entry *entry)
{
	const struct st_module *m = live->module;

	live->begin = entry->first_node;
	live->end = entry->first_node + entry->nodes;
	for (size_t i = 0; i < m->states.count; i++) {
		live->writer[i] = ST_NONE;
		live->reader[i] = live->until[i] = ST_NONE;
		live->lent[i] = 0;
		live->becomes[i] = ST_NONE;
	}
	for (uint32_t i = 0; i < entry->inputs; i++) {
		uint32_t value = entry->first_input + i;

		live->reader[value] = live->until[value] = ST_NONE;
		live->lent[value] = 0;
		live->becomes[value] = ST_NONE;
	}
	for (uint32_t n = live->begin; n < live->end; n++) {
		read_node(live, n);
		if (m->nodes.at[n].op == ST_OP_wait)
			give_back(live, n);
	}
	read_outputs(live, entry);
	link_ends(live, entry);
}
