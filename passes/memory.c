/*
 * memory: one static arena for a rank.
 *
 * States lie first, at the same place in every entry; behind them each entry
 * lays out its inputs and everything it computes, entries over one another.
 * A value takes the first hole that fits, in program order, from its node to
 * its last reader.
 *
 *   before: %y = activation %x, act="relu" : f32[64]
 *   after:  %y = activation %x, act="relu" : f32[64] @4096
 *
 * A result takes over another buffer where the op's row allows it: that of
 * an operand that dies here, or that of a state which it replaces.  The
 * buffer of a state that is read for the last time may be lent until the
 * state is written.  No copy is ever inserted: a node that would read a
 * state while it overwrites it is an error.
 *
 * Requires a ranked module whose program order is the order of execution.
 * Cost: nodes times holes.
 */

#include "passes/pass.h"

#include <string.h>

enum { ALIGN = 64 };

struct hole {
	int64_t at, size;
};

struct planner {
	const struct st_module *in;
	struct st_module *out;
	int64_t base, top; /* end of the states; highest byte used */
	int64_t slack;     /* behind each buffer: see size_of */
	/* By value. */
	int64_t *at;         /* -1: not placed yet */
	uint32_t *last;      /* last node that reads it */
	uint32_t *target;    /* state that it becomes, or none */
	uint32_t *lent_until; /* for buffers of states: the writing node */
	uint8_t *freed;
	/* By state: the node that writes it in this entry, or none. */
	uint32_t *writer;
	struct hole *holes; /* sorted by address, never adjacent */
	size_t hole_count, hole_capacity;
};

/*
 * Bytes of a buffer.  A flat run is cut into equal pieces, so the last rank's
 * piece may reach past the end of the whole: there is room for that behind
 * every buffer where the module has flat types.
 */
static int64_t
size_of(const struct planner *p, uint32_t value)
{
	int64_t bytes = st_type_local_bytes(st_value_type(p->in, value),
					    &p->in->mesh) +
			p->slack;

	return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static int
insert_hole(struct planner *p, size_t index, int64_t at, int64_t size)
{
	struct hole *holes = st_arena_grow(
		p->in->arena, p->holes, p->hole_count, &p->hole_capacity,
		p->hole_count + 1, sizeof(*holes));

	if (!holes)
		return 0;
	p->holes = holes;
	memmove(holes + index + 1, holes + index,
		(p->hole_count - index) * sizeof(*holes));
	holes[index] = (struct hole){at, size};
	p->hole_count++;
	return 1;
}

static void
remove_hole(struct planner *p, size_t index)
{
	p->hole_count--;
	memmove(p->holes + index, p->holes + index + 1,
		(p->hole_count - index) * sizeof(*p->holes));
}

/* Index of the first hole behind an address. */
static size_t
hole_after(const struct planner *p, int64_t at)
{
	size_t low = 0, high = p->hole_count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (p->holes[middle].at < at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int
release(struct planner *p, int64_t at, int64_t size)
{
	size_t i = hole_after(p, at);

	if (i > 0 && p->holes[i - 1].at + p->holes[i - 1].size == at) {
		p->holes[i - 1].size += size;
		if (i < p->hole_count && p->holes[i].at == at + size) {
			p->holes[i - 1].size += p->holes[i].size;
			remove_hole(p, i);
		}
		return 1;
	}
	if (i < p->hole_count && p->holes[i].at == at + size) {
		p->holes[i].at = at;
		p->holes[i].size += size;
		return 1;
	}
	return insert_hole(p, i, at, size);
}

/* First hole that fits; the last one has no end. */
static int64_t
take(struct planner *p, int64_t size)
{
	for (size_t i = 0; i < p->hole_count; i++) {
		struct hole *hole = &p->holes[i];
		int64_t at = hole->at;

		if (hole->size < size)
			continue;
		hole->at += size;
		hole->size -= size;
		if (hole->size == 0)
			remove_hole(p, i);
		if (at + size > p->top)
			p->top = at + size;
		return at;
	}
	return -1;
}

static void
read_entry(struct planner *p, const struct st_entry *entry)
{
	const struct st_module *in = p->in;
	uint32_t end = entry->first_node + entry->nodes;

	for (size_t i = 0; i < in->states.count; i++) {
		p->writer[i] = ST_NONE;
		p->last[i] = ST_NONE;
	}
	for (uint32_t n = entry->first_node; n < end; n++) {
		const struct st_node *node = &in->nodes.at[n];

		for (uint32_t i = 0; i < node->results; i++)
			p->last[node->first_result + i] = n;
		for (uint32_t i = 0; i < node->operands; i++)
			p->last[st_node_operand(in, node, i)] = n;
	}
	for (uint32_t i = 0; i < entry->outputs; i++) {
		const struct st_output *output =
			&in->outputs.at[entry->first_output + i];

		if (output->state == ST_NONE) {
			p->last[output->value] = end;
			continue;
		}
		p->target[output->value] = output->state;
		p->writer[output->state] = in->values.at[output->value].node;
	}
}

/* The operand whose buffer result r may take over, or none. */
static uint32_t
donor(const struct st_module *m, const struct st_node *node, uint32_t r)
{
	char c = st_ops[node->op].inplace[r];

	return c == '-' ? ST_NONE : st_node_operand(m, node, (size_t)(c - '0'));
}

/* A node may overwrite a state that it reads only where its row says so. */
static enum st_status
check_overwrite(const struct planner *p, const struct st_node *node,
		uint32_t r, uint32_t state)
{
	for (uint32_t i = 0; i < node->operands; i++) {
		uint32_t ref = st_node_operand(p->in, node, i);

		if (ref != state || ref == donor(p->in, node, r))
			continue;
		return st_error(p->in->diag, ST_EINPUT,
				st_module_loc_at(p->in, node->loc),
				"memory: %s reads '%%%s' while it overwrites "
				"it, and cannot work in place",
				st_ops[node->op].name,
				st_value_name(p->in, ref));
	}
	return ST_OK;
}

static int64_t
take_over(struct planner *p, const struct st_node *node, uint32_t index,
	  uint32_t r)
{
	uint32_t value = node->first_result + r;
	uint32_t from = donor(p->in, node, r);
	uint32_t limit;

	if (from == ST_NONE || p->last[from] != index || p->at[from] < 0 ||
	    size_of(p, from) != size_of(p, value) || p->freed[from])
		return -1;
	/* Two results never share a buffer. */
	for (uint32_t i = 0; i < r; i++)
		if (p->at[node->first_result + i] == p->at[from])
			return -1;
	limit = p->lent_until[from];
	if (p->in->values.at[from].kind == ST_VALUE_STATE)
		limit = p->writer[from] == ST_NONE ? 0 : p->writer[from];
	else if (p->target[from] != ST_NONE)
		return -1;
	if (limit != ST_NONE && p->last[value] >= limit)
		return -1;
	p->lent_until[value] = limit;
	p->freed[from] = 1;
	return p->at[from];
}

static enum st_status
place_result(struct planner *p, const struct st_node *node, uint32_t index,
	     uint32_t r)
{
	uint32_t value = node->first_result + r;
	uint32_t state = p->target[value];

	if (state != ST_NONE) {
		ST_TRY(check_overwrite(p, node, r, state));
		p->at[value] = p->at[state];
		return ST_OK;
	}
	p->at[value] = take_over(p, node, index, r);
	if (p->at[value] < 0)
		p->at[value] = take(p, size_of(p, value));
	return p->at[value] < 0 ? st_error_memory(p->in->diag) : ST_OK;
}

static enum st_status
drop(struct planner *p, uint32_t value, uint32_t index)
{
	if (p->in->values.at[value].kind != ST_VALUE_RESULT ||
	    p->last[value] != index || p->freed[value] ||
	    p->target[value] != ST_NONE)
		return ST_OK;
	p->freed[value] = 1;
	if (p->lent_until[value] != ST_NONE)
		return ST_OK;
	return release(p, p->at[value], size_of(p, value))
		       ? ST_OK
		       : st_error_memory(p->in->diag);
}

static enum st_status
place_entry(struct planner *p, const struct st_entry *entry)
{
	read_entry(p, entry);
	memset(p->freed, 0, p->in->states.count);
	p->hole_count = 0;
	if (!insert_hole(p, 0, p->base, INT64_MAX / 4))
		return st_error_memory(p->in->diag);
	for (uint32_t i = 0; i < entry->inputs; i++)
		p->at[entry->first_input + i] =
			take(p, size_of(p, entry->first_input + i));
	for (uint32_t i = 0; i < entry->nodes; i++) {
		uint32_t index = entry->first_node + i;
		const struct st_node *node = &p->in->nodes.at[index];

		for (uint32_t r = 0; r < node->results; r++)
			ST_TRY(place_result(p, node, index, r));
		for (uint32_t j = 0; j < node->operands; j++)
			ST_TRY(drop(p, st_node_operand(p->in, node, j),
				    index));
		for (uint32_t r = 0; r < node->results; r++)
			ST_TRY(drop(p, node->first_result + r, index));
	}
	return ST_OK;
}

static int
has_flat(const struct st_module *m)
{
	for (size_t i = 0; i < m->types.count; i++)
		if (m->types.at[i].flat)
			return 1;
	return 0;
}

static enum st_status
start(struct planner *p, const struct st_module *in)
{
	size_t n = in->values.count + 1;

	memset(p, 0, sizeof(*p));
	p->in = in;
	p->slack = has_flat(in) ? 8 * st_mesh_ranks(&in->mesh) : 0;
	p->at = st_arena_array(in->arena, n, sizeof(*p->at));
	p->last = st_arena_array(in->arena, n, sizeof(uint32_t));
	p->target = st_arena_array(in->arena, n, sizeof(uint32_t));
	p->lent_until = st_arena_array(in->arena, n, sizeof(uint32_t));
	p->freed = st_arena_array(in->arena, n, 1);
	p->writer = st_arena_array(in->arena, in->states.count + 1,
				   sizeof(uint32_t));
	if (in->arena->failed)
		return st_error_memory(in->diag);
	memset(p->at, 0xff, n * sizeof(*p->at));
	memset(p->target, 0xff, n * sizeof(uint32_t));
	memset(p->lent_until, 0xff, n * sizeof(uint32_t));
	for (uint32_t i = 0; i < in->states.count; i++) {
		p->at[i] = p->base;
		p->base += size_of(p, i);
	}
	p->top = p->base;
	return ST_OK;
}

/* The same module with the places written in. */
static enum st_status
write_places(struct planner *p)
{
	const struct st_module *in = p->in;
	struct st_module *out = st_arena_alloc(in->arena, sizeof(*out));
	size_t n = in->values.count;

	if (!out)
		return st_error_memory(in->diag);
	*out = *in;
	out->values.at = st_arena_array(in->arena, n + 1,
					sizeof(*out->values.at));
	out->placements.at = p->at;
	out->placements.count = out->placements.capacity = n;
	if (!out->values.at)
		return st_error_memory(in->diag);
	memcpy(out->values.at, in->values.at, n * sizeof(*out->values.at));
	for (size_t i = 0; i < n; i++)
		out->values.at[i].arena_at = (uint32_t)i;
	out->arena_bytes = p->top;
	p->out = out;
	return ST_OK;
}

enum st_status
st_pass_memory(struct st_pass_context *cx, const struct st_module *in,
	       struct st_module **out)
{
	struct planner p;

	ST_TRY(start(&p, in));
	for (size_t i = 0; i < in->entries.count; i++)
		ST_TRY(place_entry(&p, &in->entries.at[i]));
	ST_TRY(write_places(&p));
	cx->changes = (int64_t)in->values.count;
	*out = p.out;
	return ST_OK;
}
