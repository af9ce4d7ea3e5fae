/* Chooses the collectives between two spreads of one value. */

#include "passes/respread.h"

#include <string.h>

/* Where axes can cut a type: one of its factors, or the flat run. */
enum { FLAT = ST_MAX_FACTORS, PLACES, NOWHERE = -1 };

struct move {
	enum st_op op;
	unsigned axes;
	int from, to; /* NOWHERE: replicated, or partial as the op says */
};

static unsigned
axes_at(const struct st_type *type, int place)
{
	return place == FLAT ? type->flat : type->f[place].axes;
}

static unsigned
cut_axes(const struct st_type *type)
{
	unsigned axes = type->flat;

	for (int f = 0; f < type->factors; f++)
		axes |= type->f[f].axes;
	return axes;
}

static int
same_cuts(const struct st_type *a, const struct st_type *b)
{
	for (int f = 0; f < a->factors; f++)
		if (a->f[f].axes != b->f[f].axes)
			return 0;
	return 1;
}

/* Do pieces at this place move when an axis comes or goes beside another?
 * Padding lies behind the last element, so it moves when the number of ranks
 * changes; a flat run has it without saying so. */
static int
is_rigid(const struct st_type *from, const struct st_type *to, int place)
{
	return place == FLAT || from->f[place].pad || to->f[place].pad;
}

/*
 * Axes that must leave a place.  The minor ones go with any that comes or
 * goes before them, else a rank's piece would not be one run; a flat run goes
 * whenever the tensor that it is a run of changes.
 */
static unsigned
leaving(const struct st_type *from, const struct st_type *to, int place)
{
	unsigned here = axes_at(from, place);
	unsigned differ = here ^ axes_at(to, place);

	if (place == FLAT && !same_cuts(from, to))
		return here;
	if (!differ || is_rigid(from, to, place))
		return differ ? here : 0;
	return here & -(1u << __builtin_ctz(differ));
}

/* The axes that can come to a place next, major ones first, of those in
 * `which`; 0 while others must leave or come before. */
static unsigned
coming(const struct st_type *from, const struct st_type *to, int place,
       unsigned which)
{
	unsigned missing = axes_at(to, place) & ~axes_at(from, place);
	unsigned others = missing & ~which;

	if (leaving(from, to, place) ||
	    (place == FLAT ? !same_cuts(from, to) : from->flat != 0))
		return 0;
	if (!others || is_rigid(from, to, place))
		return others ? 0 : missing;
	return missing & ((1u << __builtin_ctz(others)) - 1);
}

static int
set_move(struct move *move, enum st_op op, unsigned axes, int from, int to)
{
	move->op = op;
	move->axes = axes;
	move->from = from;
	move->to = to;
	return axes != 0;
}

static int
find_exchange(const struct st_type *from, const struct st_type *to,
	      struct move *move)
{
	for (int i = 0; i < from->factors; i++)
		for (int j = 0; j < from->factors; j++) {
			unsigned axes = leaving(from, to, i);

			if (axes && i != j &&
			    coming(from, to, j, axes) == axes)
				return set_move(move, ST_OP_all_to_all, axes,
						i, j);
		}
	return 0;
}

/* Arrivals by `op` of the axes in `which`, at any place. */
static int
find_arrival(const struct st_type *from, const struct st_type *to,
	     enum st_op op, unsigned which, struct move *move)
{
	for (int place = 0; place < PLACES; place++)
		if ((place == FLAT || place < from->factors) &&
		    set_move(move, op, coming(from, to, place, which), NOWHERE,
			     place))
			return 1;
	return 0;
}

/* The flat run first: it is in the way of all others. */
static int
find_gather(const struct st_type *from, const struct st_type *to,
	    struct move *move)
{
	if (set_move(move, ST_OP_all_gather, leaving(from, to, FLAT), FLAT,
		     NOWHERE))
		return 1;
	for (int f = 0; f < from->factors; f++)
		if (set_move(move, ST_OP_all_gather, leaving(from, to, f), f,
			     NOWHERE))
			return 1;
	return 0;
}

/* The next op on the way; 0 on arrival.  Sums that stay nowhere wait for a
 * flat run that is to come, because they work on less then; those that found
 * no way to their place go round it. */
static int
find_move(const struct st_type *from, const struct st_type *to,
	  struct move *move)
{
	unsigned busy = cut_axes(from) | from->partial;
	unsigned sums = from->partial & ~to->partial;
	unsigned early = to->flat & ~from->flat ? 0 : sums & ~cut_axes(to);

	return find_arrival(from, to, ST_OP_reduce_scatter, from->partial,
			    move) ||
	       set_move(move, ST_OP_all_reduce, early, NOWHERE, NOWHERE) ||
	       find_exchange(from, to, move) || find_gather(from, to, move) ||
	       find_arrival(from, to, ST_OP_shard, ~busy, move) ||
	       set_move(move, ST_OP_all_reduce, sums, NOWHERE, NOWHERE) ||
	       set_move(move, ST_OP_only, to->partial & ~busy, NOWHERE,
			NOWHERE);
}

static struct st_type
moved(const struct st_type *type, const struct move *move,
      const struct st_mesh *mesh)
{
	uint8_t bits = (uint8_t)move->axes, rest = (uint8_t)~bits;
	struct st_type next = *type;

	next.partial &= rest;
	if (move->op == ST_OP_only)
		next.partial |= bits;
	if (!next.partial)
		next.reduction = ST_SUM;
	if (move->from == FLAT) {
		next.flat &= rest;
	} else if (move->from != NOWHERE) {
		next.f[move->from].axes &= rest;
		st_type_cut(&next, move->from, 0, mesh);
	}
	if (move->to == FLAT)
		next.flat |= bits;
	else if (move->to != NOWHERE)
		st_type_cut(&next, move->to, move->axes, mesh);
	return next;
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
	       find_move(st_value_type(m, value), to, &move)) {
		struct st_type next = moved(st_value_type(m, value), &move,
					    &m->mesh);
		const char *name = st_arena_printf(m->arena, "%s.%s",
						   st_value_name(m, value),
						   suffix(move.op));

		st_build_axes(b, move.axes);
		st_build_type(b, 0, &next);
		value = st_build(b, move.op, name ? name : "", ST_IN(value));
	}
	return value;
}
