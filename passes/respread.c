/* Chooses the collectives between two spreads of one value. */

#include "passes/respread.h"

#include <string.h>

struct move {
	enum st_op op;
	unsigned axes;
	struct st_place from, to;
};

static int
is_cut(struct st_place place)
{
	return place.kind == ST_PLACE_FACTOR || place.kind == ST_PLACE_FLAT;
}

static int
same_place(struct st_place a, struct st_place b)
{
	return a.kind == b.kind &&
	       (a.kind != ST_PLACE_FACTOR || a.factor == b.factor);
}

/* Next op for one axis, lower ones first; ST_OP_COUNT if it is in place. */
static enum st_op
next_op(struct st_place from, struct st_place to)
{
	if (same_place(from, to))
		return ST_OP_COUNT;
	if (from.kind == ST_PLACE_PARTIAL)
		return is_cut(to) ? ST_OP_reduce_scatter : ST_OP_all_reduce;
	if (from.kind == ST_PLACE_FACTOR && to.kind == ST_PLACE_FACTOR)
		return ST_OP_all_to_all;
	if (is_cut(from))
		return ST_OP_all_gather;
	return to.kind == ST_PLACE_PARTIAL ? ST_OP_only : ST_OP_shard;
}

/* Order in which the ops are applied. */
static int
turn(enum st_op op)
{
	switch (op) {
	case ST_OP_reduce_scatter: return 0;
	case ST_OP_all_reduce: return 1;
	case ST_OP_all_to_all: return 2;
	case ST_OP_all_gather: return 3;
	case ST_OP_shard: return 4;
	default: return 5;
	}
}

/* The axes of the earliest op that move from one place to one other. */
static int
find_move(const struct st_mesh *mesh, const struct st_type *from,
	  const struct st_type *to, struct move *move)
{
	int best = 99;

	for (int a = 0; a < (int)mesh->count; a++) {
		struct st_place p = st_type_place(from, a);
		struct st_place q = st_type_place(to, a);
		enum st_op op = next_op(p, q);

		if (op == ST_OP_COUNT)
			continue;
		if (op == ST_OP_all_gather)
			q.kind = ST_PLACE_NONE;
		if (turn(op) < best) {
			best = turn(op);
			move->op = op;
			move->axes = 0;
			move->from = p;
			move->to = q;
		}
		if (turn(op) == best && same_place(p, move->from) &&
		    same_place(q, move->to))
			move->axes |= 1u << a;
	}
	return best < 99;
}

static void
cut(struct st_type *type, struct st_place place, unsigned axes, int set,
    const struct st_mesh *mesh)
{
	uint8_t bits = (uint8_t)axes;

	switch (place.kind) {
	case ST_PLACE_FACTOR:
		type->f[place.factor].axes &= (uint8_t)~bits;
		st_type_cut(type, place.factor, set ? axes : 0, mesh);
		break;
	case ST_PLACE_FLAT:
		type->flat = (uint8_t)(set ? type->flat | bits
					   : type->flat & ~bits);
		break;
	case ST_PLACE_PARTIAL:
		type->partial = (uint8_t)(set ? type->partial | bits
					      : type->partial & ~bits);
		break;
	case ST_PLACE_NONE: break;
	}
}

static const char *
suffix(enum st_op op)
{
	switch (op) {
	case ST_OP_reduce_scatter: return "rs";
	case ST_OP_all_reduce: return "ar";
	case ST_OP_all_to_all: return "a2a";
	case ST_OP_all_gather: return "ag";
	case ST_OP_shard: return "cut";
	default: return "only";
	}
}

uint32_t
st_respread(struct st_builder *b, uint32_t value, const struct st_type *to)
{
	struct st_module *m = b->module;
	struct move move;

	while (value != ST_NONE &&
	       find_move(&m->mesh, st_value_type(m, value), to, &move)) {
		struct st_type next = *st_value_type(m, value);
		const char *name = st_arena_printf(m->arena, "%s.%s",
						   st_value_name(m, value),
						   suffix(move.op));

		cut(&next, move.from, move.axes, 0, &m->mesh);
		cut(&next, move.to, move.axes, 1, &m->mesh);
		if (!next.partial)
			next.reduction = ST_SUM;
		st_build_axes(b, move.axes);
		st_build_type(b, 0, &next);
		value = st_build(b, move.op, name ? name : "", ST_IN(value));
	}
	return value;
}
