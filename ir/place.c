/* Verifies the places of values in the arena. */

#include "ir/ir.h"
#include "ir/live.h"

#include <string.h>

struct span {
	int64_t at, end;
	uint32_t value;
};

struct places {
	const struct st_module *m;
	struct st_live live;
	struct span *states; /* by address */
	struct span *live_now; /* of the entry, by address */
	size_t count, capacity;
	uint32_t node; /* at which we are */
};

static int64_t
place_of(const struct st_module *m, uint32_t value)
{
	uint32_t at = m->values.at[value].arena_at;

	return at == ST_NONE ? -1 : m->placements.at[at];
}

static enum st_status
fail(const struct places *p, uint32_t value, uint32_t loc, const char *what)
{
	return st_error(p->m->diag, ST_EINPUT, st_module_loc_at(p->m, loc),
			"'%%%s' %s", st_value_name(p->m, value), what);
}

static enum st_status
check_bounds(const struct places *p, uint32_t value, uint32_t loc,
	     struct span *span)
{
	int64_t at = place_of(p->m, value);
	int64_t bytes = st_live_bytes(&p->live, value);

	if (at < 0)
		return fail(p, value, loc, "has no place in the arena");
	if (at % ST_PLACE_ALIGN)
		return fail(p, value, loc,
			    "is not placed at a multiple of 64");
	if (at > p->m->arena_bytes - bytes)
		return fail(p, value, loc, "reaches past the arena's end");
	*span = (struct span){at, at + bytes, value};
	return ST_OK;
}

static enum st_status
fail_overlap(const struct places *p, uint32_t value, uint32_t other,
	     uint32_t loc)
{
	return st_error(p->m->diag, ST_EINPUT, st_module_loc_at(p->m, loc),
			"'%%%s' lies over '%%%s', which is still in use",
			st_value_name(p->m, value),
			st_value_name(p->m, other));
}

/* Index of the first span that ends behind an address. */
static size_t
first_behind(const struct span *spans, size_t count, int64_t at)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (spans[middle].end <= at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int
by_address(const struct span *a, const struct span *b)
{
	return a->at < b->at;
}

/* States come in the order of their places where `memory` laid them out, so
 * insertion from behind is quick. */
static enum st_status
place_states(struct places *p)
{
	const struct st_module *m = p->m;

	for (uint32_t i = 0; i < m->states.count; i++) {
		const struct st_state *state = &m->states.at[i];
		struct span span;
		size_t j = i;

		ST_TRY(check_bounds(p, state->value, state->loc, &span));
		for (; j > 0 && by_address(&span, &p->states[j - 1]); j--)
			p->states[j] = p->states[j - 1];
		p->states[j] = span;
	}
	for (uint32_t i = 1; i < m->states.count; i++)
		if (p->states[i].at < p->states[i - 1].end)
			return fail_overlap(
				p, p->states[i].value, p->states[i - 1].value,
				m->states.at[p->states[i].value].loc);
	return ST_OK;
}

/* A state's buffer is free between its last reader and its writer. */
static int
state_is_live(const struct places *p, uint32_t state)
{
	uint32_t writer = p->live.writer[state];
	uint32_t until = p->live.until[state];

	if (writer == ST_NONE || p->node >= writer)
		return 1;
	return until != ST_NONE && p->node <= until;
}

/* May the value lie exactly where the other one lies, at its own node? */
static int
may_share(const struct places *p, uint32_t value, uint32_t other)
{
	const struct st_module *m = p->m;
	const struct st_node *node = &m->nodes.at[p->node];
	const struct st_live *live = &p->live;
	uint32_t donor = st_live_donor(m, node, value - node->first_result);

	if (place_of(m, value) != place_of(m, other) ||
	    st_live_bytes(live, value) != st_live_bytes(live, other))
		return 0;
	if (other < m->states.count && live->becomes[value] == other)
		return live->until[other] == ST_NONE ||
		       live->until[other] < p->node ||
		       (live->until[other] == p->node && donor == other) ||
		       node->op == ST_OP_wait;
	if (donor != other)
		return 0;
	return node->start ? live->lent[other] == 1 &&
				     live->reader[other] == p->node
			   : live->until[other] == p->node;
}

static enum st_status
check_states(const struct places *p, const struct span *span, uint32_t loc)
{
	size_t count = p->m->states.count;
	size_t i = first_behind(p->states, count, span->at);

	for (; i < count && p->states[i].at < span->end; i++) {
		uint32_t state = p->states[i].value;
		int shared;

		if (p->node == ST_NONE)
			return fail_overlap(p, span->value, state, loc);
		shared = may_share(p, span->value, state);
		/* A donor that is written later is lent for the while. */
		if (shared && (p->live.becomes[span->value] == state ||
			       (p->live.writer[state] != ST_NONE &&
				p->live.writer[state] > p->node)))
			continue;
		if (state_is_live(p, state))
			return fail_overlap(p, span->value, state, loc);
	}
	return ST_OK;
}

static enum st_status
insert(struct places *p, const struct span *span, uint32_t loc)
{
	size_t i = first_behind(p->live_now, p->count, span->at);
	struct span *at;

	for (; i < p->count && p->live_now[i].at < span->end; i++) {
		uint32_t other = p->live_now[i].value;

		if (p->node == ST_NONE || !may_share(p, span->value, other))
			return fail_overlap(p, span->value, other, loc);
		p->live_now[i] = *span;
		return ST_OK;
	}
	at = st_arena_grow(p->m->arena, p->live_now, p->count, &p->capacity,
			   p->count + 1, sizeof(*at));
	if (!at)
		return st_error_memory(p->m->diag);
	p->live_now = at;
	memmove(at + i + 1, at + i, (p->count - i) * sizeof(*at));
	at[i] = *span;
	p->count++;
	return ST_OK;
}

/* What took over the buffer of a dead value stands there under its own name. */
static void
drop(struct places *p, uint32_t value)
{
	size_t i = first_behind(p->live_now, p->count, place_of(p->m, value));

	if (i == p->count || p->live_now[i].value != value)
		return;
	p->count--;
	memmove(p->live_now + i, p->live_now + i + 1,
		(p->count - i) * sizeof(*p->live_now));
}

static enum st_status
check_result(struct places *p, uint32_t value, uint32_t loc)
{
	uint32_t state = p->live.becomes[value];
	const struct st_node *node = &p->m->nodes.at[p->node];
	struct span span;

	ST_TRY(check_bounds(p, value, loc, &span));
	if (state != ST_NONE && span.at != place_of(p->m, state))
		return fail(p, value, loc,
			    "must lie where the state is that it becomes");
	if (node->op == ST_OP_wait &&
	    span.at != place_of(p->m, st_node_operand(p->m, node, 0)))
		return fail(p, value, loc,
			    "must lie where the value is that it waits for");
	ST_TRY(check_states(p, &span, loc));
	if (state != ST_NONE) {
		/* The state stands for it from here on. */
		size_t i = first_behind(p->live_now, p->count, span.at);

		if (i < p->count && p->live_now[i].at < span.end &&
		    !may_share(p, value, p->live_now[i].value))
			return fail_overlap(p, value, p->live_now[i].value,
					    loc);
		return ST_OK;
	}
	return insert(p, &span, loc);
}

static enum st_status
check_entry(struct places *p, const struct st_entry *entry)
{
	const struct st_module *m = p->m;

	st_live_entry(&p->live, entry);
	p->count = 0;
	p->node = ST_NONE;
	for (uint32_t i = 0; i < entry->inputs; i++) {
		uint32_t value = entry->first_input + i;
		struct span span;

		ST_TRY(check_bounds(p, value, entry->loc, &span));
		ST_TRY(check_states(p, &span, entry->loc));
		ST_TRY(insert(p, &span, entry->loc));
	}
	for (uint32_t n = p->live.begin; n < p->live.end; n++) {
		const struct st_node *node = &m->nodes.at[n];

		p->node = n;
		for (uint32_t r = 0; r < node->results; r++)
			ST_TRY(check_result(p, node->first_result + r,
					    node->loc));
		for (uint32_t v = st_live_first(&p->live, n); v != ST_NONE;
		     v = p->live.next[v])
			drop(p, v);
	}
	return ST_OK;
}

enum st_status
st_verify_places(const struct st_module *m)
{
	struct places p;

	if (m->arena_bytes == 0)
		return ST_OK;
	memset(&p, 0, sizeof(p));
	p.m = m;
	ST_TRY(st_live_init(&p.live, m));
	p.states = st_arena_array(m->arena, m->states.count + 1,
				  sizeof(*p.states));
	if (!p.states)
		return st_error_memory(m->diag);
	ST_TRY(place_states(&p));
	for (size_t i = 0; i < m->entries.count; i++)
		ST_TRY(check_entry(&p, &m->entries.at[i]));
	return ST_OK;
}
