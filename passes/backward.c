/* Forward copy, reverse walk, recompute. */

#include "passes/backward.h"

#include <string.h>

struct st_grad_list {
	uint32_t gradient;
	struct st_grad_list *before;
};

/* Everything before the '/' of a name; length 0: in no layer. */
static size_t
layer_length(const char *name)
{
	const char *slash = strchr(name, '/');

	return slash ? (size_t)(slash - name) : 0;
}

static int
same_layer(const char *a, const char *b)
{
	size_t n = layer_length(a);

	return n == layer_length(b) && memcmp(a, b, n) == 0;
}

static void
find_wanted(struct st_grad_state *s)
{
	const struct st_module *in = s->in;

	for (size_t i = 0; i < in->states.count; i++)
		s->wanted[in->states.at[i].value] =
			in->states.at[i].role == ST_ROLE_param;
	for (uint32_t i = 0; i < s->entry->nodes; i++) {
		uint32_t index = s->entry->first_node + i;
		const struct st_node *node = &in->nodes.at[index];
		uint8_t wanted = 0;

		for (uint32_t j = 0; j < node->operands; j++) {
			uint32_t ref = st_node_operand(in, node, j);

			wanted |= s->wanted[ref];
			if (s->first_reader[ref] == ST_NONE)
				s->first_reader[ref] = index;
			if (!same_layer(st_value_name(in, ref),
					st_value_name(in, node->first_result)))
				s->crosses[ref] = 1;
		}
		for (uint32_t j = 0; j < node->results; j++)
			s->wanted[node->first_result + j] = wanted;
	}
}

enum st_status
st_backward_init(struct st_grad_state *s, const struct st_module *in,
		 const struct st_entry *entry, struct st_builder *builder)
{
	size_t n = in->values.count;

	memset(s, 0, sizeof(*s));
	s->in = in;
	s->entry = entry;
	s->b = builder;
	s->arena = in->arena;
	s->loss_factor = 1.0;
	s->forward = st_arena_array(s->arena, n, sizeof(uint32_t));
	s->again = st_arena_array(s->arena, n, sizeof(uint32_t));
	s->first_reader = st_arena_array(s->arena, n, sizeof(uint32_t));
	s->gradient = st_arena_array(s->arena, n, sizeof(*s->gradient));
	s->wanted = st_arena_array(s->arena, n, 1);
	s->crosses = st_arena_array(s->arena, n, 1);
	if (s->arena->failed)
		return st_error_memory(in->diag);
	memset(s->forward, 0xff, n * sizeof(uint32_t));
	memset(s->again, 0xff, n * sizeof(uint32_t));
	memset(s->first_reader, 0xff, n * sizeof(uint32_t));
	find_wanted(s);
	return ST_OK;
}

/* Emits a copy of a node; the mean over micro-batches goes into the factor of
 * the loss and of its gradient. */
static uint32_t
copy_node(struct st_grad_state *s, const struct st_node *node,
	  const uint32_t *operands)
{
	uint32_t first;

	s->b->loc = node->loc;
	first = st_build_like(s->b, s->in, node, operands);
	if (first != ST_NONE && node->op == ST_OP_xent_loss) {
		struct st_module *out = s->b->module;
		const struct st_node *made =
			&out->nodes.at[out->values.at[first].node];

		out->attrs.at[made->first_attr].f *= s->loss_factor;
	}
	return first;
}

void
st_backward_forward(struct st_grad_state *s)
{
	const struct st_module *in = s->in;

	s->b->region = ST_FORWARD;
	for (uint32_t i = 0; i < s->entry->nodes; i++) {
		const struct st_node *node =
			&in->nodes.at[s->entry->first_node + i];
		uint32_t operands[ST_MAX_OPERANDS], first;

		for (uint32_t j = 0; j < node->operands; j++)
			operands[j] = s->forward[st_node_operand(in, node, j)];
		first = copy_node(s, node, operands);
		if (first == ST_NONE)
			return;
		for (uint32_t j = 0; j < node->results; j++)
			s->forward[node->first_result + j] = first + j;
	}
}

static int
is_cheap(enum st_op op)
{
	return op == ST_OP_layernorm || op == ST_OP_rmsnorm ||
	       op == ST_OP_activation || op == ST_OP_swiglu ||
	       op == ST_OP_rope;
}

static int
is_recomputed(const struct st_grad_state *s, uint32_t value)
{
	uint32_t node = s->in->values.at[value].node;

	if (node == ST_NONE || s->crosses[value] ||
	    layer_length(st_value_name(s->in, value)) == 0)
		return 0;
	if (s->recompute == ST_RECOMPUTE_SELECTIVE)
		return is_cheap(s->in->nodes.at[node].op);
	return s->recompute == ST_RECOMPUTE_FULL;
}

/* The value of the new module that stands for `value` in the backward
 * pass. */
static uint32_t
live(struct st_grad_state *s, uint32_t value)
{
	const struct st_node *node;
	uint32_t operands[ST_MAX_OPERANDS], first, loc = s->b->loc;

	if (!is_recomputed(s, value))
		return s->forward[value];
	if (s->again[value] != ST_NONE)
		return s->again[value];
	node = &s->in->nodes.at[s->in->values.at[value].node];
	for (uint32_t i = 0; i < node->operands; i++)
		operands[i] = live(s, st_node_operand(s->in, node, i));
	first = copy_node(s, node, operands);
	s->b->loc = loc;
	if (first == ST_NONE)
		return ST_NONE;
	for (uint32_t i = 0; i < node->results; i++)
		s->again[node->first_result + i] = first + i;
	return s->again[value];
}

uint32_t
st_grad_operand(struct st_grad *g, int i)
{
	return live(g->state, st_node_operand(g->in, g->node, (size_t)i));
}

uint32_t
st_grad_result(struct st_grad *g, int i)
{
	return live(g->state, g->node->first_result + (uint32_t)i);
}

int
st_grad_wanted(const struct st_grad *g, int i)
{
	return g->state->wanted[st_node_operand(g->in, g->node, (size_t)i)];
}

void
st_grad_give(struct st_grad *g, int i, uint32_t gradient)
{
	st_grad_give_value(g, st_node_operand(g->in, g->node, (size_t)i),
			   gradient);
}

void
st_grad_give_value(struct st_grad *g, uint32_t value, uint32_t gradient)
{
	struct st_grad_state *s = g->state;
	struct st_grad_list *item;

	if (!s->wanted[value] || gradient == ST_NONE)
		return;
	item = st_arena_alloc(s->arena, sizeof(*item));
	if (!item) {
		s->b->status = st_error_memory(s->in->diag);
		return;
	}
	item->gradient = gradient;
	item->before = s->gradient[value];
	s->gradient[value] = item;
}

const char *
st_grad_name(struct st_grad *g, const char *mark)
{
	const char *name = st_arena_printf(
		g->state->arena, "%s.%s",
		st_value_name(g->in, g->node->first_result), mark);

	return name ? name : "";
}

static int
is_param(const struct st_module *m, uint32_t value)
{
	uint32_t state = st_module_find_state(m, value);

	return state != ST_NONE && m->states.at[state].role == ST_ROLE_param;
}

struct st_type
st_grad_type(struct st_grad *g, int i)
{
	uint32_t value = st_node_operand(g->in, g->node, (size_t)i);
	struct st_type type = st_type_whole(st_value_type(g->in, value));

	if (is_param(g->in, value) && g->state->reduce_dtype_set)
		type.dtype = (uint8_t)g->state->reduce_dtype;
	return type;
}

/* All gradients of a value as one; ST_NONE if there is none.  The oldest
 * comes first, so that the order of summation is that of the walk. */
static uint32_t
take_gradient(struct st_grad_state *s, uint32_t value)
{
	struct st_grad_list *item = s->gradient[value];
	const char *name = st_arena_printf(s->arena, "%s.d",
					   st_value_name(s->in, value));
	uint32_t *all;
	size_t n = 0, i;

	for (; item; item = item->before)
		n++;
	item = s->gradient[value];
	s->gradient[value] = NULL;
	if (n < 2)
		return n ? item->gradient : ST_NONE;
	all = st_arena_array(s->arena, n, sizeof(*all));
	if (!all || !name) {
		s->b->status = st_error_memory(s->in->diag);
		return ST_NONE;
	}
	for (i = n; item; item = item->before)
		all[--i] = item->gradient;
	/* As many as a sum takes, then the sums. */
	while (n > 1) {
		size_t made = 0, count;

		for (i = 0; i < n; i += count) {
			count = n - i < ST_MAX_OPERANDS ? n - i
							: ST_MAX_OPERANDS;
			all[made++] = count == 1 ? all[i]
						 : st_build(s->b, ST_OP_sum,
							    name, all + i,
							    count);
		}
		n = made;
	}
	return all[0];
}

static void
finish_params(struct st_grad_state *s, const struct st_node *node,
	      uint32_t index)
{
	for (uint32_t i = 0; i < node->operands; i++) {
		uint32_t value = st_node_operand(s->in, node, i);
		uint32_t gradient;

		if (!is_param(s->in, value) || s->first_reader[value] != index)
			continue;
		gradient = take_gradient(s, value);
		if (gradient != ST_NONE)
			s->param_done(s->user, value, gradient);
	}
}

/* Rules of ops with several results know the gradient of the first alone; the
 * others (a mean, a log of sums) are for the backward pass to read. */
static int
only_first(struct st_grad_state *s, const struct st_node *node,
	   const uint32_t *dout)
{
	for (uint32_t i = 1; i < node->results; i++)
		if (dout[i] != ST_NONE) {
			s->b->status = st_error(
				s->in->diag, ST_EINPUT,
				st_module_loc_at(s->in, node->loc),
				"grad: %s has no gradient through its result "
				"'%%%s'",
				st_ops[node->op].name,
				st_value_name(s->in, node->first_result + i));
			return 0;
		}
	if (dout[0] != ST_NONE)
		return 1;
	return 0;
}

static void
step_back(struct st_grad_state *s, uint32_t index, uint32_t loss)
{
	const struct st_node *node = &s->in->nodes.at[index];
	uint32_t dout[ST_MAX_RESULTS];
	struct st_grad g = {s->b, s->in, node, dout, s->loss_factor, s};
	int any = loss == node->first_result;

	s->b->loc = node->loc;
	for (uint32_t i = 0; i < node->results; i++) {
		dout[i] = take_gradient(s, node->first_result + i);
		any |= dout[i] != ST_NONE;
	}
	if (any && (node->results == 1 || only_first(s, node, dout)))
		st_grad_rules[node->op](&g);
	if (s->b->status == ST_OK)
		finish_params(s, node, index);
}

void
st_backward_run(struct st_grad_state *s, uint32_t loss)
{
	uint32_t node = s->in->values.at[loss].node;

	s->b->region = ST_BACKWARD;
	if (node == ST_NONE || s->in->nodes.at[node].op != ST_OP_xent_loss) {
		s->b->status = st_error(
			s->in->diag, ST_EINPUT,
			st_module_loc_at(s->in, s->entry->loc),
			"grad: the loss must be made by xent_loss");
		return;
	}
	for (uint32_t i = s->entry->nodes; i-- > 0;) {
		if (s->b->status != ST_OK)
			return;
		step_back(s, s->entry->first_node + i, loss);
	}
}
