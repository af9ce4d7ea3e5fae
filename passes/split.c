/*
 * split: the sequences of a micro-batch in k pieces, so that the collectives
 * of one piece run beside the computations of another.
 *
 *   before: %y = matmul %x, %w, dims="tbk,ok->tbo" : f32[64, 4, 8] ...
 *           %z = all_reduce %y ...
 *   after:  %y.p0 = matmul %x.p0, %w, ... : f32[64, 2, 8]
 *           %y.p1 = matmul %x.p1, %w, ... : f32[64, 2, 8]
 *           %z.p0 = all_reduce %y.p0 ...
 *           %z.p1 = all_reduce %y.p1 ...
 *
 * Tensor- and sequence-parallel collectives stand between one matmul and the
 * next: within one piece nothing can hide them.  The pieces start from the
 * token ids, which are sliced; the factor that was cut is followed through
 * every node by the op's mapping (ops.def).  Where a node sums over it (the
 * gradient of a weight, the loss) the pieces are added up.  Weights and their
 * collectives are not split: they are gathered once.
 *
 * k is that of the option `split`; 0 tries 1, 2 and 4 and keeps the quickest
 * step by the model, under the limit on memory.  Sums are re-associated, so
 * results agree to rounding only.
 *
 * Requires a ranked module without starts.  Does nothing where fewer than k
 * sequences are on a rank, where a node needs them all at once, or where the
 * model says that it would not pay; and says so.  Linear in nodes.
 */

#include "passes/explain.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

#include <string.h>

enum { NOT_SPLIT = -1, MOST_PIECES = 8 };

struct splitter {
	struct st_rewrite w;
	const struct st_module *in;
	int k;
	int8_t *factor;  /* by value: which is split, or NOT_SPLIT */
	uint8_t *split;  /* by node */
	uint32_t *piece; /* by value: first of k entries in `pieces` + 1 */
	uint32_t *pieces;
	size_t piece_count;
	const char *why;
	uint32_t blocked; /* node */
};

static enum st_status
map_node(struct splitter *s, const struct st_node *node,
	 struct st_mapping *mapping)
{
	const struct st_module *m = s->in;
	struct st_type stated[ST_MAX_RESULTS];
	struct st_node_view view = {
		.op = node->op,
		.operands = &m->refs.at[node->first_operand],
		.operand_count = node->operands,
		.attrs = &m->attrs.at[node->first_attr],
		.attr_count = node->attrs,
		.stated = stated,
		.loc = st_module_loc_at(m, node->loc),
	};

	for (int i = 0; i < node->results; i++)
		stated[i] = *st_value_type(m, node->first_result + (uint32_t)i);
	return st_mapping_make(m, &view, mapping);
}

static int
block(struct splitter *s, uint32_t node, const char *why)
{
	s->blocked = node;
	s->why = why;
	return 0;
}

/* Can the factor of a value be had in k pieces on every rank? */
static int
divides(const struct splitter *s, uint32_t value, int f)
{
	const struct st_type *type = st_value_type(s->in, value);

	return !type->flat && type->f[f].pad == 0 &&
	       st_type_local_factor(type, f, &s->in->mesh) % s->k == 0;
}

/* Collectives and the like keep their factors; what they do to the one that
 * is split must be nothing. */
static int
follow_spread(struct splitter *s, uint32_t n, const struct st_node *node)
{
	uint32_t from = st_node_operand(s->in, node, 0);
	const struct st_type *a = st_value_type(s->in, from);
	const struct st_type *b = st_value_type(s->in, node->first_result);
	int f = s->factor[from];

	if (f == NOT_SPLIT)
		return 1;
	if (a->flat || b->flat || a->f[f].axes != b->f[f].axes)
		return block(s, n, "gathers or cuts it");
	s->factor[node->first_result] = (int8_t)f;
	s->split[n] = 1;
	return 1;
}

static int
is_integer(const struct st_type *type)
{
	return type->dtype == ST_I32 || type->dtype == ST_U8;
}

/* The slot that is split among the operands, or -1; token ids seed it. */
static int
find_slot(struct splitter *s, uint32_t n, const struct st_node *node,
	  const struct st_mapping *mapping)
{
	int slot = -1;

	for (uint32_t i = 0; i < node->operands; i++) {
		uint32_t ref = st_node_operand(s->in, node, i);
		const struct st_type *type = st_value_type(s->in, ref);
		int f = s->factor[ref];

		if (f == NOT_SPLIT && is_integer(type) && type->factors > 1 &&
		    st_ops[node->op].class == ST_COMPUTE)
			f = 0;
		if (f == NOT_SPLIT)
			continue;
		if (slot >= 0 && slot != mapping->operand[i][f]) {
			block(s, n, "meets it in two places");
			return -1;
		}
		slot = mapping->operand[i][f];
	}
	return slot;
}

static int
factor_of_slot(const uint8_t *slots, int factors, int slot)
{
	int found = NOT_SPLIT;

	for (int f = 0; f < factors; f++)
		if (slots[f] == slot)
			found = found == NOT_SPLIT ? f : -2;
	return found;
}

static int
take_operands(struct splitter *s, uint32_t n, const struct st_node *node,
	      const struct st_mapping *mapping, int slot)
{
	for (uint32_t i = 0; i < node->operands; i++) {
		uint32_t ref = st_node_operand(s->in, node, i);
		const struct st_type *type = st_value_type(s->in, ref);
		int f = factor_of_slot(mapping->operand[i], type->factors,
				       slot);

		if (f == NOT_SPLIT)
			continue;
		if (f < 0 || !divides(s, ref, f))
			return block(s, n, "has too few sequences for it");
		/* A value that is whole is sliced: one factor an extent. */
		if (s->factor[ref] == NOT_SPLIT &&
		    (type->joined >> f & 1 ||
		     (f + 1 < type->factors && type->joined >> (f + 1) & 1)))
			return block(s, n, "needs a slice of a factor");
	}
	return 1;
}

static int
take_results(struct splitter *s, uint32_t n, const struct st_node *node,
	     const struct st_mapping *mapping, int slot)
{
	for (uint32_t r = 0; r < node->results; r++) {
		uint32_t value = node->first_result + r;
		const struct st_type *type = st_value_type(s->in, value);
		int f = factor_of_slot(mapping->result[r], type->factors, slot);

		if (f == -2)
			return block(s, n, "makes it twice");
		if (f == NOT_SPLIT && (mapping->maximum >> r & 1))
			return block(s, n, "takes a maximum over it");
		if (f == NOT_SPLIT && type->flat)
			return block(s, n, "makes a flat value");
		s->factor[value] = (int8_t)f;
	}
	s->split[n] = 1;
	return 1;
}

static int
follow(struct splitter *s, uint32_t n)
{
	const struct st_node *node = &s->in->nodes.at[n];
	struct st_mapping mapping;
	int slot;

	if (st_shape_is_spread(node->op))
		return follow_spread(s, n, node);
	if (map_node(s, node, &mapping) != ST_OK)
		return block(s, n, "has no mapping");
	slot = find_slot(s, n, node, &mapping);
	if (s->why)
		return 0;
	if (slot < 0)
		return 1;
	if (mapping.slot[slot].fixed)
		return block(s, n, "needs it whole");
	return take_operands(s, n, node, &mapping, slot) &&
	       take_results(s, n, node, &mapping, slot);
}

/* Marks what is split in an entry; 0 where that cannot be. */
static int
mark(struct splitter *s, const struct st_entry *entry)
{
	int any = 0;

	s->why = NULL;
	for (uint32_t i = 0; i < entry->nodes; i++) {
		uint32_t n = entry->first_node + i;

		if (!follow(s, n))
			return 0;
		any |= s->split[n];
	}
	for (uint32_t i = 0; i < entry->outputs; i++) {
		uint32_t value =
			s->in->outputs.at[entry->first_output + i].value;

		if (s->factor[value] == NOT_SPLIT)
			continue;
		return block(s, s->in->values.at[value].node,
			     "returns it whole");
	}
	if (!any)
		s->why = "no token ids are read";
	return any;
}

/* ---- writing ---- */

static uint32_t
piece_name(struct splitter *s, uint32_t value, int j)
{
	char mark[8] = {'p', (char)('0' + j), '\0'};

	return st_rewrite_name(&s->w, value, mark);
}

static uint32_t *
room_for_pieces(struct splitter *s, uint32_t value)
{
	uint32_t *at = s->pieces + s->piece_count;

	s->piece[value] = (uint32_t)s->piece_count + 1;
	s->piece_count += (size_t)s->k;
	return at;
}

/* Pieces of a value that was made whole: slices. */
static void
slice_value(struct splitter *s, uint32_t value, int f, uint32_t loc)
{
	const struct st_type *type = st_value_type(s->in, value);
	uint32_t *pieces = room_for_pieces(s, value);
	int extent = 0;

	while (st_type_first(type, extent) != f)
		extent++;
	for (int j = 0; j < s->k; j++) {
		struct st_type small = *type;
		uint32_t name = piece_name(s, value, j);
		struct st_attr attrs[2] = {{.key = ST_KEY_dim},
					   {.key = ST_KEY_at}};
		struct st_new_node fresh = {
			.op = ST_OP_slice,
			.operands = &s->w.map[value],
			.operand_count = 1,
			.attrs = attrs,
			.attr_count = 2,
			.types = &small,
			.names = &name,
			.loc = loc,
		};
		uint32_t made;

		small.f[f].size /= s->k;
		attrs[0].i = extent;
		attrs[1].i = j * small.f[f].size;
		made = st_module_add_node(s->w.out, &fresh);
		pieces[j] = made == ST_NONE
				    ? 0
				    : s->w.out->nodes.at[made].first_result;
	}
}

static void
slice_operands(struct splitter *s, const struct st_node *node)
{
	struct st_mapping mapping;
	int slot = -1;

	if (st_shape_is_spread(node->op) ||
	    map_node(s, node, &mapping) != ST_OK)
		return;
	for (uint32_t i = 0; i < node->operands && slot < 0; i++) {
		uint32_t ref = st_node_operand(s->in, node, i);
		const struct st_type *type = st_value_type(s->in, ref);

		if (s->factor[ref] != NOT_SPLIT)
			slot = mapping.operand[i][s->factor[ref]];
		else if (is_integer(type) && type->factors > 1)
			slot = mapping.operand[i][0];
	}
	for (uint32_t i = 0; i < node->operands; i++) {
		uint32_t ref = st_node_operand(s->in, node, i);
		int f = factor_of_slot(mapping.operand[i],
				       st_value_type(s->in, ref)->factors,
				       slot);

		if (f >= 0 && s->factor[ref] == NOT_SPLIT && !s->piece[ref])
			slice_value(s, ref, f, node->loc);
	}
}

/* Pieces of an operand where it is split in this node, else the value. */
static uint32_t
operand_of(const struct splitter *s, const struct st_node *node,
	   const struct st_mapping *mapping, int slot, uint32_t i, int j)
{
	uint32_t ref = st_node_operand(s->in, node, i);
	int f = s->factor[ref];

	if (f == NOT_SPLIT && mapping)
		f = factor_of_slot(mapping->operand[i],
				   st_value_type(s->in, ref)->factors, slot);
	return f == NOT_SPLIT ? s->w.map[ref]
			      : s->pieces[s->piece[ref] - 1 + (uint32_t)j];
}

static void
write_piece(struct splitter *s, const struct st_node *node,
	    const struct st_mapping *mapping, int slot, int j,
	    uint32_t results[ST_MAX_RESULTS])
{
	const struct st_module *in = s->in;
	uint32_t operands[ST_MAX_OPERANDS], names[ST_MAX_RESULTS], made;
	struct st_type types[ST_MAX_RESULTS];
	struct st_new_node fresh = {
		.op = node->op,
		.region = node->region,
		.operands = operands,
		.operand_count = node->operands,
		.attrs = &in->attrs.at[node->first_attr],
		.attr_count = node->attrs,
		.types = types,
		.names = names,
		.loc = node->loc,
	};

	for (uint32_t i = 0; i < node->operands; i++)
		operands[i] = operand_of(s, node, mapping, slot, i, j);
	for (uint32_t r = 0; r < node->results; r++) {
		uint32_t value = node->first_result + r;

		types[r] = *st_value_type(in, value);
		if (s->factor[value] != NOT_SPLIT)
			types[r].f[s->factor[value]].size /= s->k;
		names[r] = piece_name(s, value, j);
	}
	made = st_module_add_node(s->w.out, &fresh);
	for (uint32_t r = 0; r < node->results; r++)
		results[r] =
			made == ST_NONE
				? 0
				: s->w.out->nodes.at[made].first_result + r;
}

/* What the pieces sum over is added up. */
static void
add_up(struct splitter *s, const struct st_node *node, uint32_t value,
       const uint32_t *parts)
{
	struct st_type type = *st_value_type(s->in, value);
	uint32_t name = s->in->values.at[value].name, made;
	struct st_new_node fresh = {
		.op = ST_OP_sum,
		.region = node->region,
		.operands = parts,
		.operand_count = (size_t)s->k,
		.types = &type,
		.names = &name,
		.loc = node->loc,
	};

	made = st_module_add_node(s->w.out, &fresh);
	s->w.map[value] =
		made == ST_NONE ? 0 : s->w.out->nodes.at[made].first_result;
}

static int
split_slot(struct splitter *s, const struct st_node *node,
	   const struct st_mapping *mapping)
{
	for (uint32_t i = 0; i < node->operands; i++) {
		uint32_t ref = st_node_operand(s->in, node, i);
		const struct st_type *type = st_value_type(s->in, ref);

		if (s->factor[ref] != NOT_SPLIT)
			return mapping->operand[i][s->factor[ref]];
		if (is_integer(type) && type->factors > 1)
			return mapping->operand[i][0];
	}
	return -1;
}

static void
write_split(struct splitter *s, uint32_t n)
{
	const struct st_node *node = &s->in->nodes.at[n];
	uint32_t parts[ST_MAX_RESULTS][MOST_PIECES];
	struct st_mapping mapping;
	const struct st_mapping *by = NULL;
	int slot = -1;

	slice_operands(s, node);
	if (!st_shape_is_spread(node->op) &&
	    map_node(s, node, &mapping) == ST_OK) {
		by = &mapping;
		slot = split_slot(s, node, by);
	}
	for (int j = 0; j < s->k; j++) {
		uint32_t results[ST_MAX_RESULTS];

		write_piece(s, node, by, slot, j, results);
		for (uint32_t r = 0; r < node->results; r++)
			parts[r][j] = results[r];
	}
	for (uint32_t r = 0; r < node->results; r++) {
		uint32_t value = node->first_result + r;

		if (s->factor[value] == NOT_SPLIT)
			add_up(s, node, value, parts[r]);
		else
			memcpy(room_for_pieces(s, value), parts[r],
			       (size_t)s->k * sizeof(uint32_t));
	}
}

static void
write_entry(struct splitter *s, const struct st_entry *entry, int splits)
{
	st_rewrite_begin(&s->w, entry);
	/* Pieces of states are made anew in each entry. */
	memset(s->piece, 0, s->in->states.count * sizeof(uint32_t));
	for (uint32_t i = 0; i < entry->nodes; i++) {
		uint32_t n = entry->first_node + i;

		if (splits && s->split[n])
			write_split(s, n);
		else
			st_rewrite_node(&s->w, n);
	}
	st_rewrite_end(&s->w, entry);
}

/* How many entries are in pieces. */
static enum st_status
split_module(struct splitter *s, const struct st_module *in, int k,
	     struct st_module **out, int *entries)
{
	size_t values = in->values.count + 1;

	memset(s, 0, sizeof(*s));
	s->in = in;
	s->k = k;
	*entries = 0;
	ST_TRY(st_rewrite_init(&s->w, in));
	s->factor = st_arena_array(in->arena, values, 1);
	s->split = st_arena_array(in->arena, in->nodes.count + 1, 1);
	s->piece = st_arena_array(in->arena, values, sizeof(uint32_t));
	s->pieces =
		st_arena_array(in->arena, values * (size_t)k, sizeof(uint32_t));
	if (in->arena->failed)
		return st_error_memory(in->diag);
	memset(s->factor, NOT_SPLIT, values);
	for (size_t e = 0; e < in->entries.count; e++) {
		int splits = mark(s, &in->entries.at[e]);

		write_entry(s, &in->entries.at[e], splits);
		*entries += splits;
	}
	*out = s->w.out;
	return st_rewrite_status(&s->w);
}

/* ---- does it pay? ---- */

/* The predicted step of a module, once it has been scheduled. */
static enum st_status
predict(const struct st_pass_context *cx, const struct st_module *in,
	int64_t *time, int64_t *exposed)
{
	struct st_pass_context inner = {.machine = cx->machine,
					.memory_limit = cx->memory_limit};
	struct st_module *bucketed, *started, *ordered;
	int64_t turns = in->options[ST_OPTION_micro_batches].i;

	*time = *exposed = 0;
	ST_TRY(st_pass_bucket(&inner, in, &bucketed));
	ST_TRY(st_pass_async(&inner, bucketed, &started));
	ST_TRY(st_pass_schedule(&inner, started, &ordered));
	for (size_t e = 0; e < ordered->entries.count; e++) {
		const struct st_entry *entry = &ordered->entries.at[e];
		const char *name = st_names_text(in->names, entry->name);
		int64_t times = strcmp(name, "step") == 0 ? 1 : turns - 1;
		struct st_explanation x;
		const char *why;

		if (strcmp(name, "step") != 0 &&
		    strcmp(name, "accumulate") != 0)
			continue;
		ST_TRY(st_explain(ordered, entry, cx->machine, &x, &why));
		*time += times * x.step;
		*exposed += times * x.stalls;
	}
	return ST_OK;
}

static const char *
reason(struct splitter *s)
{
	const char *text;

	if (s->blocked == ST_NONE || s->blocked >= s->in->nodes.count)
		return s->why;
	text = st_arena_printf(s->in->arena, "%s %s",
			       st_ops[s->in->nodes.at[s->blocked].op].name,
			       s->why);
	return text ? text : s->why;
}

static enum st_status
choose(struct st_pass_context *cx, const struct st_module *in,
       struct st_module **out)
{
	int64_t best, exposed, time, none;
	struct splitter s;
	int entries;

	ST_TRY(predict(cx, in, &best, &exposed));
	cx->skipped = "less than a hundredth of the step is exposed";
	for (int k = 2; k <= 4 && exposed * 100 > best; k *= 2) {
		struct st_module *made;

		ST_TRY(split_module(&s, in, k, &made, &entries));
		if (entries == 0) {
			if (k == 2)
				cx->skipped = reason(&s);
			break;
		}
		if (predict(cx, made, &time, &none) != ST_OK)
			break;
		cx->skipped = "pieces would be slower by the model";
		if (time >= best)
			break;
		best = time;
		*out = made;
		cx->changes = entries;
	}
	if (cx->changes)
		cx->skipped = NULL;
	return ST_OK;
}

static int
has_comm(const struct st_module *m)
{
	for (size_t i = 0; i < m->nodes.count; i++)
		if (st_ops[m->nodes.at[i].op].class == ST_COMM)
			return 1;
	return 0;
}

enum st_status
st_pass_split(struct st_pass_context *cx, const struct st_module *in,
	      struct st_module **out)
{
	int64_t k = in->options[ST_OPTION_split].i;
	struct splitter s;
	int entries;

	*out = (struct st_module *)(uintptr_t)in;
	cx->skipped = "there is no collective";
	if (k == 1)
		cx->skipped = "one piece was asked for";
	if (strcmp(in->options[ST_OPTION_overlap].s, "none") == 0)
		cx->skipped = "overlap is off";
	else if (k == 0 && cx->machine->node_ps)
		/* What was measured may not be weighed against the model. */
		cx->skipped =
			"a profile is of one program; state overlap.split";
	else if (k != 1 && has_comm(in))
		cx->skipped = NULL;
	if (cx->skipped)
		return ST_OK;
	if (k == 0)
		return choose(cx, in, out);
	if (k < 0 || k > MOST_PIECES)
		return st_error(in->diag, ST_EINPUT, st_no_loc(),
				"split: 0 to %d pieces, not %lld", MOST_PIECES,
				(long long)k);
	ST_TRY(split_module(&s, in, (int)k, out, &entries));
	cx->changes = entries;
	if (entries == 0) {
		*out = (struct st_module *)(uintptr_t)in;
		cx->skipped = reason(&s);
	}
	return ST_OK;
}
