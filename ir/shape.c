/*
 * Ops whose rule is "?": views and slices, sources, and everything that
 * changes how a value is spread over the mesh.
 */

#include "ir/rule.h"

#include <string.h>

static enum st_status
fail(const struct st_module *module, const struct st_node_view *node,
     const char *what)
{
	return st_error(module->diag, ST_EINPUT, node->loc, "%s: %s",
			st_ops[node->op].name, what);
}

static int
add_slot(struct st_mapping *m, int64_t size, int fixed)
{
	m->slot[m->slots].size = size;
	m->slot[m->slots].fixed = (uint8_t)fixed;
	return m->slots++;
}

/* fill, random: everything comes from the stated type. */
static enum st_status
map_source(const struct st_module *module, const struct st_node_view *node,
	   struct st_mapping *m)
{
	(void)module;
	m->result_type[0] = st_type_whole(&node->stated[0]);
	for (int f = 0; f < node->stated[0].factors; f++)
		m->result[0][f] =
			(uint8_t)add_slot(m, node->stated[0].f[f].size, 0);
	m->flat_results = 1;
	return ST_OK;
}

/* reshape: the same factors, grouped otherwise. */
static enum st_status
map_reshape(const struct st_module *module, const struct st_node_view *node,
	    struct st_mapping *m)
{
	const struct st_type *from = st_value_type(module, node->operands[0]);
	const struct st_type *to = &node->stated[0];

	if (from->factors != to->factors)
		return fail(module, node,
			    "the result must have the operand's factors, "
			    "grouped otherwise");
	m->result_type[0] = st_type_whole(to);
	for (int f = 0; f < to->factors; f++) {
		int slot = add_slot(m, to->f[f].size, 0);

		if (from->f[f].size != to->f[f].size)
			return fail(module, node,
				    "the result must have the operand's "
				    "factors, grouped otherwise");
		m->operand[0][f] = m->result[0][f] = (uint8_t)slot;
	}
	return ST_OK;
}

/* slice and unslice: one extent of one factor becomes shorter or longer.  In
 * a ranked module it may be cut over axes: then each rank takes, of its own
 * part, what `at` and the sizes say of the whole. */
static enum st_status
map_slice(const struct st_module *module, const struct st_node_view *node,
	  struct st_mapping *m)
{
	const struct st_type *from = st_value_type(module, node->operands[0]);
	const struct st_type *to = &node->stated[0];
	const struct st_type *longer = node->op == ST_OP_slice ? from : to;
	const struct st_type *shorter = node->op == ST_OP_slice ? to : from;
	int64_t dim = st_view_int(node, ST_KEY_dim);
	int64_t at = st_view_int(node, ST_KEY_at);
	int cut, local;

	if (dim < 0 || dim >= st_type_rank(from))
		return fail(module, node, "dim: no such extent");
	cut = st_type_first(from, (int)dim);
	if (from->factors != to->factors || from->joined != to->joined ||
	    st_type_end(from, (int)dim) != cut + 1)
		return fail(module, node, "the result must have the "
					  "operand's extents but for one");
	if (at < 0 || at > longer->f[cut].size - shorter->f[cut].size)
		return fail(module, node, "at: outside the longer extent");
	local = module->form == ST_RANKED && from->f[cut].axes != 0 &&
		from->f[cut].axes == to->f[cut].axes && !from->f[cut].pad &&
		!to->f[cut].pad;
	if (local && at % st_mesh_span(&module->mesh, from->f[cut].axes))
		return fail(module, node, "at: does not divide over the ranks");
	m->result_type[0] = st_type_whole(to);
	for (int f = 0; f < to->factors; f++) {
		int slot = add_slot(m, from->f[f].size, f == cut && !local);

		m->operand[0][f] = m->result[0][f] = (uint8_t)slot;
		if (f == cut && !local)
			m->result[0][f] =
				(uint8_t)add_slot(m, to->f[f].size, 1);
		else if (f == cut)
			continue;
		else if (from->f[f].size != to->f[f].size)
			return fail(module, node,
				    "the result must have the operand's "
				    "extents but for one");
	}
	return ST_OK;
}

enum st_status
st_shape_map(const struct st_module *module, const struct st_node_view *node,
	     struct st_mapping *m)
{
	int sources = node->op == ST_OP_fill || node->op == ST_OP_random;

	if (node->operand_count != (sources ? 0 : 1))
		return fail(module, node,
			    sources ? "takes no operands"
				    : "takes one operand");
	if (!node->stated)
		return fail(module, node, "the result type must be stated");
	m->operands = (int)node->operand_count;
	m->results = 1;
	switch (node->op) {
	case ST_OP_fill:
	case ST_OP_random: return map_source(module, node, m);
	case ST_OP_reshape: return map_reshape(module, node, m);
	case ST_OP_slice:
	case ST_OP_unslice: return map_slice(module, node, m);
	default: return fail(module, node, "has no shape rule");
	}
}

int
st_shape_is_spread(enum st_op op)
{
	switch (op) {
	case ST_OP_reshard:
	case ST_OP_shard:
	case ST_OP_only:
	case ST_OP_all_reduce:
	case ST_OP_reduce_scatter:
	case ST_OP_all_gather:
	case ST_OP_all_to_all:
	case ST_OP_wait: return 1;
	default: return 0;
	}
}

struct st_place
st_type_place(const struct st_type *type, int axis)
{
	struct st_place place = {ST_PLACE_NONE, 0};

	if (type->flat >> axis & 1)
		place.kind = ST_PLACE_FLAT;
	else if (type->partial >> axis & 1)
		place.kind = ST_PLACE_PARTIAL;
	for (int f = 0; f < type->factors; f++)
		if (type->f[f].axes >> axis & 1) {
			place.kind = ST_PLACE_FACTOR;
			place.factor = f;
		}
	return place;
}

static int
is_cut(struct st_place place)
{
	return place.kind == ST_PLACE_FACTOR || place.kind == ST_PLACE_FLAT;
}

/* May `op` move an axis from one place to the other? */
static int
may_move(enum st_op op, struct st_place from, struct st_place to)
{
	int none_from = from.kind == ST_PLACE_NONE;
	int none_to = to.kind == ST_PLACE_NONE;

	switch (op) {
	case ST_OP_shard: return none_from && is_cut(to);
	case ST_OP_only: return none_from && to.kind == ST_PLACE_PARTIAL;
	case ST_OP_all_reduce:
		return from.kind == ST_PLACE_PARTIAL && none_to;
	case ST_OP_reduce_scatter:
		return from.kind == ST_PLACE_PARTIAL && is_cut(to);
	case ST_OP_all_gather: return is_cut(from) && none_to;
	case ST_OP_all_to_all:
		return from.kind == ST_PLACE_FACTOR &&
		       to.kind == ST_PLACE_FACTOR && from.factor != to.factor;
	default: return 0;
	}
}

/* Axes that come to or leave a place must be the minor ones there, so that
 * each rank's piece is one run; and where others stay, padding would move. */
static int
is_minor(const struct st_type *type, struct st_place place, unsigned axes)
{
	unsigned there = place.kind == ST_PLACE_FLAT
				 ? type->flat
				 : type->f[place.factor].axes;
	unsigned rest = there & ~axes;

	if (!is_cut(place) || rest == 0)
		return 1;
	return place.kind == ST_PLACE_FACTOR &&
	       rest >> __builtin_ctz(axes) == 0 &&
	       type->f[place.factor].pad == 0;
}

static enum st_status
check_axes(const struct st_module *module, const struct st_node_view *node,
	   const struct st_type *from, const struct st_type *to)
{
	unsigned axes = (unsigned)st_view_int(node, ST_KEY_axes);
	struct st_place first_from = {ST_PLACE_NONE, 0};
	struct st_place first_to = {ST_PLACE_NONE, 0};
	int moved = 0;

	for (int a = 0; a < (int)module->mesh.count; a++) {
		struct st_place p = st_type_place(from, a);
		struct st_place q = st_type_place(to, a);
		int same = p.kind == q.kind && p.factor == q.factor;

		if (!(axes >> a & 1)) {
			if (!same)
				return fail(module, node,
					    "an axis that it does not name "
					    "changes its place");
			continue;
		}
		if (!may_move(node->op, p, q))
			return fail(module, node,
				    "cannot turn the operand's spread into "
				    "the stated one");
		if (moved++ && (p.kind != first_from.kind ||
				p.factor != first_from.factor ||
				q.kind != first_to.kind ||
				q.factor != first_to.factor))
			return fail(module, node,
				    "the axes it names are not in one place");
		first_from = p;
		first_to = q;
	}
	if (!moved)
		return fail(module, node, "axes: names no axis");
	if ((first_from.kind == ST_PLACE_FACTOR ||
	     first_to.kind == ST_PLACE_FACTOR) &&
	    (from->flat || to->flat))
		return fail(module, node,
			    "cannot cut or gather a factor of a flat value");
	if (!is_minor(from, first_from, axes) || !is_minor(to, first_to, axes))
		return fail(module, node,
			    "the axes it names are not the minor ones");
	return ST_OK;
}

enum st_status
st_shape_spread(const struct st_module *module,
		const struct st_node_view *node, struct st_type *result)
{
	const struct st_type *from, *to;

	if (node->operand_count != 1)
		return fail(module, node, "takes one operand");
	from = st_value_type(module, node->operands[0]);
	if (node->op == ST_OP_wait) {
		if (!from->is_async)
			return fail(module, node, "nothing to wait for: the "
						  "operand is not async");
		*result = *from;
		result->is_async = 0;
		return ST_OK;
	}
	if (!node->stated)
		return fail(module, node, "the result type must be stated");
	to = &node->stated[0];
	if (!st_type_same_factors(from, to) || from->dtype != to->dtype)
		return fail(module, node,
			    "operand and result must have the same extents "
			    "and dtype");
	*result = *to;
	result->is_async = (uint8_t)(node->start != 0);
	if (node->op == ST_OP_reshard)
		return module->form == ST_LOGICAL
			       ? ST_OK
			       : fail(module, node,
				      "has no place in a ranked module");
	if (module->form == ST_LOGICAL)
		return fail(module, node,
			    "has no place in a logical module");
	if (from->partial && to->partial && from->reduction != to->reduction)
		return fail(module, node, "changes the kind of reduction");
	if (node->op == ST_OP_only && to->reduction == ST_MAX)
		return fail(module, node, "the zeros of the others are no "
					  "part of a maximum");
	return check_axes(module, node, from, to);
}
