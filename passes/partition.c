/*
 * partition: one program over whole tensors becomes the program of a rank.
 *
 * Reads the spreads of states, inputs and `reshard` marks; decides for every
 * node along which of its slots (ir/rule.h) each mesh axis cuts it, and
 * brings operands there by collectives:
 *
 *   before: %y = matmul %x, %w, dims="tbk,ck->tbc" : f32[64, 8, 32]
 *           %z = reshard %y : f32[64/tp, 8, 32]
 *   after:  %y = matmul ... : f32[64, 8, 32] partial<sum>(tp)
 *           %y.rs = reduce_scatter %y, axes=tp : f32[64/tp, 8, 32]
 *
 * For each axis of a node, in this order:
 *   1  flat operands of an element-wise op keep it flat
 *   2  a partial value passes through a linear op
 *   3  a cut param stays where it is: activations come to it
 *   4  the cut that the result is marked to have
 *   5  the cut of the operands; if they differ, that which moves fewest bytes
 *
 * A spread made from a value is used again only in the same region, so that
 * a gathered param does not live from the forward to the backward pass; a
 * reduction is never done twice.
 *
 * Padding holds zeros only where zeros stay zeros, which is so for extents
 * that params bring in; a bias would fill padded positions.  So inputs and
 * marks of the forward pass must cut evenly.
 *
 * Requires a logical module; linear in the number of nodes.  Without a mesh
 * it only changes the form.
 */

#include "passes/pass.h"
#include "passes/respread.h"

#include <string.h>

enum { NOWHERE = -1, AS_FLAT = -2, AS_PARTIAL = -3 };

/* Another spread of a value. */
struct version {
	uint32_t value;
	uint8_t region;
	struct version *next;
};

struct partitioner {
	const struct st_module *in;
	struct st_module *out;
	struct st_builder b;
	/* By value of `in`. */
	uint32_t *primary; /* value of `out` */
	struct version **versions;
	uint32_t *hint;      /* type of `in` that it will be given, or none */
	uint32_t *ret_state; /* state that it becomes, or none */
	int64_t moved;       /* collectives emitted */
};

/* One node on its way. */
struct job {
	const struct st_node *node;
	struct st_mapping map;
	uint32_t operands[ST_MAX_OPERANDS]; /* of `in` */
	int cut[ST_MAX_AXES];               /* slot, or one of the above */
};

static const struct st_type *
have(const struct partitioner *p, uint32_t value)
{
	return st_value_type(p->out, p->primary[value]);
}

/* The slot in which axis a cuts an operand now, or NOWHERE. */
static int
slot_now(const struct partitioner *p, const struct job *job, int i, int a)
{
	struct st_place place = st_type_place(have(p, job->operands[i]), a);
	int slot;

	if (place.kind != ST_PLACE_FACTOR)
		return NOWHERE;
	slot = job->map.operand[i][place.factor];
	return job->map.slot[slot].fixed ? NOWHERE : slot;
}

static int
is_unary(const struct job *job)
{
	return job->map.operands == 1 &&
	       (job->map.flat_operands[0] ||
		st_ops[job->node->op].rule[0] == '?');
}

/* Does the axis stay partial through this node? */
static int
stays_partial(const struct partitioner *p, const struct job *job, int a)
{
	enum st_linear linear = st_ops[job->node->op].linear;
	int partial = 0, scalars = 1;

	for (int i = 0; i < job->map.operands; i++) {
		const struct st_type *type = have(p, job->operands[i]);

		scalars &= type->factors == 0;
		if (type->partial >> a & 1) {
			if (type->reduction == ST_MAX)
				return 0;
			partial++;
		}
	}
	if (!partial)
		return 0;
	if (linear == ST_LINEAR_JOINT)
		return partial == job->map.operands || scalars;
	return linear == ST_LINEAR_EACH && is_unary(job);
}

static int
is_flat(const struct partitioner *p, const struct job *job, int a)
{
	for (int i = 0; i < job->map.operands; i++)
		if (job->map.flat_operands[i] &&
		    have(p, job->operands[i])->flat >> a & 1)
			return 1;
	return 0;
}

static int
slot_of_param(const struct partitioner *p, const struct job *job, int a)
{
	for (int i = 0; i < job->map.operands; i++) {
		int slot = slot_now(p, job, i, a);

		if (slot >= 0 && st_module_find_state(
					 p->in, job->operands[i]) != ST_NONE)
			return slot;
	}
	return NOWHERE;
}

static int
slot_of_hint(const struct partitioner *p, const struct job *job, int a)
{
	for (int r = 0; r < job->map.results; r++) {
		uint32_t hint =
			p->hint[job->node->first_result + (uint32_t)r];
		struct st_place place;
		int slot;

		if (hint == ST_NONE)
			continue;
		place = st_type_place(&p->in->types.at[hint], a);
		if (place.kind == ST_PLACE_FLAT && job->map.operands == 0)
			return AS_FLAT;
		if (place.kind == ST_PLACE_PARTIAL &&
		    job->node->op == ST_OP_fill)
			return AS_PARTIAL;
		if (place.kind != ST_PLACE_FACTOR)
			continue;
		slot = job->map.result[r][place.factor];
		if (!job->map.slot[slot].fixed)
			return slot;
	}
	return NOWHERE;
}

/* Bytes that must move if axis a cuts the node in `slot`. */
static int64_t
bytes_moved(const struct partitioner *p, const struct job *job, int a,
	    int slot)
{
	int64_t bytes = 0;

	for (int i = 0; i < job->map.operands; i++) {
		int now = slot_now(p, job, i, a);

		if (now >= 0 && now != slot)
			bytes += st_type_local_bytes(have(p, job->operands[i]),
						     &p->out->mesh);
	}
	return bytes;
}

static int
slot_of_operands(const struct partitioner *p, const struct job *job, int a)
{
	int64_t least = INT64_MAX;
	int best = NOWHERE;

	for (int i = 0; i < job->map.operands; i++) {
		int slot = slot_now(p, job, i, a);
		int64_t bytes;

		if (slot < 0)
			continue;
		bytes = bytes_moved(p, job, a, slot);
		if (bytes < least) {
			least = bytes;
			best = slot;
		}
	}
	return best;
}

static void
decide(const struct partitioner *p, struct job *job)
{
	for (int a = 0; a < (int)p->out->mesh.count; a++) {
		int cut = AS_FLAT;

		if (!is_flat(p, job, a)) {
			cut = AS_PARTIAL;
			if (!stays_partial(p, job, a))
				cut = slot_of_param(p, job, a);
			if (cut == NOWHERE)
				cut = slot_of_hint(p, job, a);
			if (cut == NOWHERE)
				cut = slot_of_operands(p, job, a);
		}
		job->cut[a] = cut;
	}
}

/* Puts the decided cuts on a whole type with the given slots. */
static struct st_type
spread(const struct partitioner *p, const struct job *job,
       const struct st_type *whole, const uint8_t *slots, int may_be_flat)
{
	struct st_type type = st_type_whole(whole);

	for (int a = 0; a < (int)p->out->mesh.count; a++) {
		int cut = job->cut[a];

		if (cut == AS_PARTIAL)
			type.partial |= (uint8_t)(1u << a);
		else if (cut == AS_FLAT && may_be_flat)
			type.flat |= (uint8_t)(1u << a);
		for (int f = 0; cut >= 0 && f < type.factors; f++)
			if (slots[f] == cut)
				st_type_cut(&type, f, 1u << a, &p->out->mesh);
	}
	return type;
}

static void
remember(struct partitioner *p, uint32_t value, uint32_t version)
{
	struct version *v = st_arena_alloc(p->in->arena, sizeof(*v));

	if (!v) {
		p->b.status = st_error_memory(p->in->diag);
		return;
	}
	v->value = version;
	v->region = (uint8_t)p->b.region;
	v->next = p->versions[value];
	p->versions[value] = v;
}

/* The type that is left when the partial axes go where `want` has them. */
static struct st_type
reduced(const struct partitioner *p, const struct st_type *from,
	const struct st_type *want)
{
	struct st_type type = *from;

	for (int a = 0; a < (int)p->out->mesh.count; a++) {
		struct st_place to = st_type_place(want, a);

		if (!(from->partial >> a & 1) || to.kind == ST_PLACE_PARTIAL)
			continue;
		type.partial &= (uint8_t)~(1u << a);
		if (to.kind == ST_PLACE_FLAT)
			type.flat |= (uint8_t)(1u << a);
		else if (to.kind == ST_PLACE_FACTOR)
			st_type_cut(&type, to.factor, 1u << a, &p->out->mesh);
	}
	if (!type.partial)
		type.reduction = ST_SUM;
	return type;
}

/* A value of `in`, spread as wanted. */
static uint32_t
bring(struct partitioner *p, uint32_t value, const struct st_type *want)
{
	size_t before = p->out->nodes.count;
	struct st_type first;
	uint32_t made;

	if (p->b.status != ST_OK || st_type_equal(have(p, value), want))
		return p->primary[value];
	for (struct version *v = p->versions[value]; v; v = v->next)
		if (v->region == p->b.region &&
		    st_type_equal(st_value_type(p->out, v->value), want))
			return v->value;
	/* Whatever is reduced once replaces the partial value for good. */
	first = reduced(p, have(p, value), want);
	made = st_respread(&p->b, p->primary[value], &first);
	if (made == ST_NONE)
		return ST_NONE;
	p->primary[value] = made;
	made = st_respread(&p->b, made, want);
	if (made != ST_NONE && made != p->primary[value])
		remember(p, value, made);
	p->moved += (int64_t)(p->out->nodes.count - before);
	return made;
}

static struct st_node_view
view_node(const struct partitioner *p, const struct st_node *node,
	  struct st_type stated[ST_MAX_RESULTS])
{
	const struct st_module *in = p->in;
	struct st_node_view view = {
		.op = node->op,
		.operands = &in->refs.at[node->first_operand],
		.operand_count = node->operands,
		.attrs = &in->attrs.at[node->first_attr],
		.attr_count = node->attrs,
		.stated = stated,
		.loc = st_module_loc_at(in, node->loc),
	};

	for (uint32_t i = 0; i < node->results; i++)
		stated[i] = *st_value_type(in, node->first_result + i);
	return view;
}

/* A result that becomes a state is brought to the state's spread at once. */
static void
settle(struct partitioner *p, uint32_t value)
{
	uint32_t state = p->ret_state[value];

	if (state != ST_NONE && p->b.status == ST_OK)
		bring(p, value,
		      st_value_type(p->in, p->in->states.at[state].value));
}

/* Of an input or a mark. */
static void
check_even(struct partitioner *p, uint32_t value, uint32_t loc)
{
	const struct st_type *type = st_value_type(p->in, value);

	for (int f = 0; f < type->factors; f++)
		if (type->f[f].pad && p->b.status == ST_OK)
			p->b.status = st_error(
				p->in->diag, ST_EINFEASIBLE,
				st_module_loc_at(p->in, loc),
				"partition: %%%s: an extent of %lld cannot be "
				"cut evenly over %lld ranks",
				st_value_name(p->in, value),
				(long long)type->f[f].size,
				(long long)st_mesh_span(&p->in->mesh,
							type->f[f].axes));
}

static void
do_reshard(struct partitioner *p, const struct st_node *node)
{
	uint32_t from = st_node_operand(p->in, node, 0), made;

	if (node->region == ST_FORWARD)
		check_even(p, node->first_result, node->loc);
	made = bring(p, from, st_value_type(p->in, node->first_result));
	p->primary[node->first_result] = made;
	settle(p, node->first_result);
}

static void
do_node(struct partitioner *p, const struct st_node *node)
{
	struct st_type stated[ST_MAX_RESULTS];
	uint32_t operands[ST_MAX_OPERANDS], first;
	struct job job = {.node = node};
	struct st_node_view view = view_node(p, node, stated);

	p->b.loc = node->loc;
	p->b.region = node->region;
	if (node->op == ST_OP_reshard) {
		do_reshard(p, node);
		return;
	}
	p->b.status = st_mapping_make(p->in, &view, &job.map);
	if (p->b.status != ST_OK)
		return;
	for (int i = 0; i < node->operands; i++)
		job.operands[i] = st_node_operand(p->in, node, (size_t)i);
	decide(p, &job);
	for (int i = 0; i < node->operands; i++) {
		struct st_type want = spread(
			p, &job, st_value_type(p->in, job.operands[i]),
			job.map.operand[i], job.map.flat_operands[i]);

		operands[i] = bring(p, job.operands[i], &want);
	}
	if (p->b.status != ST_OK)
		return;
	for (int r = 0; r < node->results; r++) {
		struct st_type type = spread(p, &job, &stated[r],
					     job.map.result[r],
					     job.map.flat_results >> r & 1);

		st_build_type(&p->b, r, &type);
	}
	first = st_build_like(&p->b, p->in, node, operands);
	for (uint32_t r = 0; first != ST_NONE && r < node->results; r++) {
		p->primary[node->first_result + r] = first + r;
		settle(p, node->first_result + r);
	}
}

/* What each value will be asked to be: by a mark, by a state, or through an
 * element-wise op by what that one will be asked to be. */
static void
find_hints(struct partitioner *p, const struct st_entry *entry)
{
	const struct st_module *in = p->in;

	for (uint32_t i = 0; i < entry->outputs; i++) {
		const struct st_output *output =
			&in->outputs.at[entry->first_output + i];

		if (output->state == ST_NONE)
			continue;
		p->ret_state[output->value] = output->state;
		p->hint[output->value] =
			in->values.at[in->states.at[output->state].value].type;
	}
	for (uint32_t i = entry->nodes; i-- > 0;) {
		const struct st_node *node =
			&in->nodes.at[entry->first_node + i];
		uint32_t hint = p->hint[node->first_result];

		if (node->op == ST_OP_reshard)
			hint = in->values.at[node->first_result].type;
		else if (st_ops[node->op].rule[0] != '=' || node->results > 1)
			continue;
		for (uint32_t j = 0; hint != ST_NONE && j < node->operands;
		     j++) {
			uint32_t ref = st_node_operand(in, node, j);

			if (p->hint[ref] == ST_NONE)
				p->hint[ref] = hint;
		}
	}
}

static void
do_outputs(struct partitioner *p, const struct st_entry *entry)
{
	for (uint32_t i = 0; i < entry->outputs; i++) {
		const struct st_output *output =
			&p->in->outputs.at[entry->first_output + i];
		struct st_type want =
			st_type_whole(have(p, output->value));
		uint32_t value;

		if (output->state != ST_NONE)
			want = *st_value_type(
				p->in, p->in->states.at[output->state].value);
		value = bring(p, output->value, &want);
		if (p->b.status != ST_OK)
			return;
		st_module_add_output(p->out, value, output->name,
				     output->state);
	}
}

static void
do_entry(struct partitioner *p, const struct st_entry *entry)
{
	st_module_begin_entry(p->out, entry->name, entry->loc);
	for (uint32_t i = 0; i < p->in->states.count; i++) {
		p->versions[i] = NULL;
		p->primary[i] = i; /* states keep their index */
	}
	for (uint32_t i = 0; i < entry->inputs; i++) {
		uint32_t input = entry->first_input + i;

		check_even(p, input, entry->loc);
		p->primary[input] = st_module_add_input(
			p->out, p->in->values.at[input].name,
			st_value_type(p->in, input));
	}
	find_hints(p, entry);
	for (uint32_t i = 0; i < entry->nodes && p->b.status == ST_OK; i++)
		do_node(p, &p->in->nodes.at[entry->first_node + i]);
	if (p->b.status == ST_OK)
		do_outputs(p, entry);
	st_module_end_entry(p->out);
}

static enum st_status
start(struct partitioner *p, const struct st_module *in)
{
	size_t n = in->values.count + 1;

	memset(p, 0, sizeof(*p));
	p->in = in;
	p->out = st_module_create_like(in);
	p->primary = st_arena_array(in->arena, n, sizeof(uint32_t));
	p->hint = st_arena_array(in->arena, n, sizeof(uint32_t));
	p->ret_state = st_arena_array(in->arena, n, sizeof(uint32_t));
	p->versions = st_arena_array(in->arena, n, sizeof(*p->versions));
	if (!p->out || in->arena->failed)
		return st_error_memory(in->diag);
	memset(p->hint, 0xff, n * sizeof(uint32_t));
	memset(p->ret_state, 0xff, n * sizeof(uint32_t));
	p->out->form = ST_RANKED;
	st_build_init(&p->b, p->out);
	for (uint32_t i = 0; i < in->states.count; i++) {
		const struct st_state *state = &in->states.at[i];

		st_module_add_state(p->out, in->values.at[i].name,
				    st_value_type(in, i), state->role,
				    state->loc);
	}
	return ST_OK;
}

enum st_status
st_pass_partition(struct st_pass_context *cx, const struct st_module *in,
		  struct st_module **out)
{
	struct partitioner p;

	ST_TRY(start(&p, in));
	for (size_t i = 0; i < in->entries.count && p.b.status == ST_OK; i++)
		do_entry(&p, &in->entries.at[i]);
	if (p.b.status != ST_OK)
		return p.b.status;
	cx->changes = p.moved;
	if (p.moved == 0)
		cx->skipped = "nothing is spread over the mesh";
	*out = p.out;
	return ST_OK;
}
