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

#include "ir/live.h"
#include "passes/pass.h"

#include <string.h>

#define LARGEST ((int64_t)1 << 52)

struct hole {
	int64_t at, size;
};

struct planner {
	const struct st_module *in;
	struct st_module *out;
	struct st_live live;
	int64_t base, top; /* end of the states; highest byte used */
	/* By value. */
	int64_t *at;          /* -1: not placed yet */
	uint32_t *lent_until; /* for buffers of states: the writing node */
	uint8_t *freed;
	struct hole *holes; /* sorted by address, never adjacent */
	size_t hole_count, hole_capacity;
};

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

/* A node may overwrite a state that it reads only where its row says so. */
static enum st_status
check_overwrite(const struct planner *p, const struct st_node *node,
		uint32_t r, uint32_t state)
{
	for (uint32_t i = 0; i < node->operands; i++) {
		uint32_t ref = st_node_operand(p->in, node, i);

		if (ref != state || ref == st_live_donor(p->in, node, r))
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

/* Node behind which the buffer of a value is free, through the waits that hand
 * it on. */
static uint32_t
last_use(const struct planner *p, uint32_t value)
{
	uint32_t until = p->live.until[value];

	while (until < p->live.end && p->in->nodes.at[until].op == ST_OP_wait &&
	       st_node_operand(p->in, &p->in->nodes.at[until], 0) == value) {
		value = p->in->nodes.at[until].first_result;
		until = p->live.until[value];
	}
	return until;
}

/* Does nothing but this node use the value from here on? */
static int
ends_here(const struct planner *p, const struct st_node *node, uint32_t index,
	  uint32_t value)
{
	const struct st_live *live = &p->live;

	if (live->becomes[value] != ST_NONE)
		return 0;
	return node->start ? live->lent[value] == 1 &&
				     live->reader[value] == index
			   : live->until[value] == index;
}

static int64_t
take_over(struct planner *p, const struct st_node *node, uint32_t index,
	  uint32_t r)
{
	uint32_t value = node->first_result + r;
	uint32_t from = st_live_donor(p->in, node, r);
	uint32_t limit;

	if (from == ST_NONE || !ends_here(p, node, index, from) ||
	    p->at[from] < 0 || p->freed[from] ||
	    st_live_bytes(&p->live, from) != st_live_bytes(&p->live, value))
		return -1;
	/* Two results never share a buffer. */
	for (uint32_t i = 0; i < r; i++)
		if (p->at[node->first_result + i] == p->at[from])
			return -1;
	limit = p->lent_until[from];
	if (p->in->values.at[from].kind == ST_VALUE_STATE)
		limit = p->live.writer[from] == ST_NONE ? 0
							: p->live.writer[from];
	if (limit != ST_NONE && last_use(p, value) >= limit)
		return -1;
	p->lent_until[value] = limit;
	p->freed[from] = 1;
	return p->at[from];
}

/* What a wait returns has lain in its buffer since the start. */
static int64_t
behind_wait(struct planner *p, const struct st_node *node)
{
	uint32_t from = st_node_operand(p->in, node, 0);

	p->lent_until[node->first_result] = p->lent_until[from];
	p->freed[from] = 1;
	return p->at[from];
}

static enum st_status
place_result(struct planner *p, const struct st_node *node, uint32_t index,
	     uint32_t r)
{
	uint32_t value = node->first_result + r;
	uint32_t state = p->live.becomes[value];

	if (state != ST_NONE) {
		ST_TRY(check_overwrite(p, node, r, state));
		p->at[value] = p->at[state];
		return ST_OK;
	}
	p->at[value] = node->op == ST_OP_wait ? behind_wait(p, node)
					      : take_over(p, node, index, r);
	if (p->at[value] < 0)
		p->at[value] = take(p, st_live_bytes(&p->live, value));
	return p->at[value] < 0 ? st_error_memory(p->in->diag) : ST_OK;
}

static enum st_status
drop(struct planner *p, uint32_t value)
{
	if (p->in->values.at[value].kind != ST_VALUE_RESULT ||
	    p->freed[value] || p->live.becomes[value] != ST_NONE)
		return ST_OK;
	p->freed[value] = 1;
	if (p->lent_until[value] != ST_NONE)
		return ST_OK;
	return release(p, p->at[value], st_live_bytes(&p->live, value))
		       ? ST_OK
		       : st_error_memory(p->in->diag);
}

static enum st_status
place_entry(struct planner *p, const struct st_entry *entry)
{
	st_live_entry(&p->live, entry);
	memset(p->freed, 0, p->in->states.count);
	p->hole_count = 0;
	if (!insert_hole(p, 0, p->base, INT64_MAX / 4))
		return st_error_memory(p->in->diag);
	for (uint32_t i = 0; i < entry->inputs; i++)
		p->at[entry->first_input + i] = take(
			p, st_live_bytes(&p->live, entry->first_input + i));
	for (uint32_t i = 0; i < entry->nodes; i++) {
		uint32_t index = entry->first_node + i;
		const struct st_node *node = &p->in->nodes.at[index];

		for (uint32_t r = 0; r < node->results; r++)
			ST_TRY(place_result(p, node, index, r));
		for (uint32_t v = st_live_first(&p->live, index);
		     v != ST_NONE; v = p->live.next[v])
			ST_TRY(drop(p, v));
	}
	return ST_OK;
}

static enum st_status
start(struct planner *p, const struct st_module *in)
{
	size_t n = in->values.count + 1;

	memset(p, 0, sizeof(*p));
	p->in = in;
	ST_TRY(st_live_init(&p->live, in));
	p->at = st_arena_array(in->arena, n, sizeof(*p->at));
	p->lent_until = st_arena_array(in->arena, n, sizeof(uint32_t));
	p->freed = st_arena_array(in->arena, n, 1);
	if (in->arena->failed)
		return st_error_memory(in->diag);
	memset(p->at, 0xff, n * sizeof(*p->at));
	memset(p->lent_until, 0xff, n * sizeof(uint32_t));
	for (uint32_t i = 0; i < in->states.count; i++) {
		p->at[i] = p->base;
		p->base += st_live_bytes(&p->live, i);
		if (p->base > LARGEST)
			return st_error(in->diag, ST_EINFEASIBLE,
					st_module_loc_at(in,
							 in->states.at[i].loc),
					"memory: the states of a rank are "
					"larger than 2^52 bytes");
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
