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

/*
 * Order in which the moves are applied.  Reductions come before gathers, so
 * that less is gathered; but a flat run is made of what the factors leave, so
 * it is cut last, and the reductions that remain work on the smaller run.
 */
static int
turn(enum st_op op, struct st_place to, int flat_is_coming)
{
	switch (op) {
	case ST_OP_reduce_scatter: return to.kind == ST_PLACE_FLAT ? 5 : 0;
	case ST_OP_all_reduce: return flat_is_coming ? 7 : 1;
	case ST_OP_all_to_all: return 2;
	case ST_OP_all_gather: return 3;
	case ST_OP_shard: return to.kind == ST_PLACE_FLAT ? 6 : 4;
	default: return 8;
	}
}

/* Does an axis come to or leave a factor; does one come to the flat run? */
static void
find_pending(const struct st_mesh *mesh, const struct st_type *from,
	     const struct st_type *to, int *factors, int *flat)
{
	*factors = *flat = 0;
	for (int a = 0; a < (int)mesh->count; a++) {
		struct st_place p = st_type_place(from, a);
		struct st_place q = st_type_place(to, a);

		if (same_place(p, q))
			continue;
		*factors |= p.kind == ST_PLACE_FACTOR ||
			    q.kind == ST_PLACE_FACTOR;
		*flat |= q.kind == ST_PLACE_FLAT;
	}
}

/* The axes of the earliest op that move from one place to one other. */
static int
find_move(const struct st_mesh *mesh, const struct st_type *from,
	  const struct st_type *to, struct move *move)
{
	int best = 99, factors, flat;

	find_pending(mesh, from, to, &factors, &flat);
	if (factors && from->flat) {
		/* Factors cannot be touched inside a flat run. */
		move->op = ST_OP_all_gather;
		move->axes = from->flat;
		move->from.kind = ST_PLACE_FLAT;
		move->to.kind = ST_PLACE_NONE;
		return 1;
	}
	for (int a = 0; a < (int)mesh->count; a++) {
		struct st_place p = st_type_place(from, a);
		struct st_place q = st_type_place(to, a);
		enum st_op op = next_op(p, q);
		int when;

		if (op == ST_OP_COUNT)
			continue;
		if (op == ST_OP_all_gather)
			q.kind = ST_PLACE_NONE;
		when = turn(op, q, flat);
		if (when < best) {
			best = when;
			move->op = op;
			move->axes = 0;
			move->from = p;
			move->to = q;
		}
		if (when == best && same_place(p, move->from) &&
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
	struct move move = {ST_OP_COUNT, 0, {0}, {0}};

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
