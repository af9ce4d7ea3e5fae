/* One gradient rule for each op. */

#include "passes/grad.h"

#include <string.h>

st_grad_fn *const st_grad_rules[ST_OP_COUNT] = {
#define OP(name, ...) [ST_OP_##name] = st_grad_of_##name,
#include "ir/ops.def"
};

static void
keep_attr(struct st_grad *g, enum st_key key)
{
	const struct st_attr *attr = st_node_attr(g->in, g->node, key);

	if (attr)
		g->b->attrs[g->b->attr_count++] = *attr;
}

static void
refuse(struct st_grad *g)
{
	if (g->b->status == ST_OK)
		g->b->status = st_error(
			g->in->diag, ST_EINPUT,
			st_module_loc_at(g->in, g->node->loc),
			"%s has no gradient, but one is needed here",
			st_ops[g->node->op].name);
}

/* The items of "ab,bc->ac". */
struct dims {
	char item[3][ST_MAX_FACTORS + 1]; /* operand 1, operand 2, result */
};

static struct dims
read_dims(struct st_grad *g)
{
	const char *text = st_node_string(g->in, g->node, ST_KEY_dims);
	struct dims dims;
	int item = 0;
	size_t n = 0;

	memset(&dims, 0, sizeof(dims));
	for (; *text; text++) {
		if (*text == ',' || *text == '>') {
			item = *text == '>' ? 2 : 1;
			n = 0;
		} else if (*text != '-' && n < ST_MAX_FACTORS) {
			dims.item[item][n++] = *text;
		}
	}
	return dims;
}

static void
set_dims(struct st_grad *g, const char *a, const char *b, const char *result)
{
	const char *text = st_arena_printf(g->in->arena, "%s%s%s->%s", a,
					   b ? "," : "", b ? b : "", result);

	st_build_string(g->b, ST_KEY_dims, text ? text : "");
}

/* d operand i = product of dy and the other operand; the one that holds the
 * first letter of the result comes first, as a row-major product wants. */
static void
matmul_operand(struct st_grad *g, const struct dims *d, int i)
{
	uint32_t dy = g->dout[0], other = st_grad_operand(g, 1 - i), result;
	const char *to = d->item[i], *with = d->item[1 - i];
	struct st_type type = st_grad_type(g, i);
	const char *name = st_grad_name(g, i ? "dw" : "dx");

	st_build_type(g->b, 0, &type);
	if (strchr(d->item[2], to[0])) {
		set_dims(g, d->item[2], with, to);
		result = st_build(g->b, ST_OP_matmul, name, ST_IN(dy, other));
	} else {
		set_dims(g, with, d->item[2], to);
		result = st_build(g->b, ST_OP_matmul, name, ST_IN(other, dy));
	}
	st_grad_give(g, i, result);
}

void
st_grad_of_matmul(struct st_grad *g)
{
	struct dims d = read_dims(g);

	for (int i = 0; i < 2; i++)
		if (st_grad_wanted(g, i))
			matmul_operand(g, &d, i);
}

/* dy itself, or its sum over the letters that the operand lacks. */
void
st_grad_of_add(struct st_grad *g)
{
	struct dims d = read_dims(g);

	for (int i = 0; i < 2; i++) {
		struct st_type type = st_grad_type(g, i);
		uint32_t dy = g->dout[0];

		if (!st_grad_wanted(g, i))
			continue;
		if (strcmp(d.item[i], d.item[2]) != 0) {
			st_build_type(g->b, 0, &type);
			set_dims(g, d.item[2], NULL, d.item[i]);
			dy = st_build(g->b, ST_OP_reduce_sum,
				      st_grad_name(g, "db"), ST_IN(dy));
		}
		st_grad_give(g, i, dy);
	}
}

void
st_grad_of_sum(struct st_grad *g)
{
	for (int i = 0; i < g->node->operands; i++)
		st_grad_give(g, i, g->dout[0]);
}

void
st_grad_of_scale(struct st_grad *g)
{
	keep_attr(g, ST_KEY_factor);
	st_grad_give(g, 0,
		     st_build(g->b, ST_OP_scale, st_grad_name(g, "dx"),
			      ST_IN(g->dout[0])));
}

void
st_grad_of_cast(struct st_grad *g)
{
	struct st_type type = st_grad_type(g, 0);

	st_build_type(g->b, 0, &type);
	st_grad_give(g, 0,
		     st_build(g->b, ST_OP_cast, st_grad_name(g, "dx"),
			      ST_IN(g->dout[0])));
}

void
st_grad_of_activation(struct st_grad *g)
{
	uint32_t x = st_grad_operand(g, 0);

	keep_attr(g, ST_KEY_act);
	st_grad_give(g, 0,
		     st_build(g->b, ST_OP_activation_grad,
			      st_grad_name(g, "dx"), ST_IN(x, g->dout[0])));
}

void
st_grad_of_swiglu(struct st_grad *g)
{
	uint32_t gate = st_grad_operand(g, 0), up = st_grad_operand(g, 1);
	const char *names = st_arena_printf(g->in->arena, "%s,%s",
					    st_grad_name(g, "dgate"),
					    st_grad_name(g, "dup"));
	uint32_t d = st_build(g->b, ST_OP_swiglu_grad, names ? names : "",
			      ST_IN(gate, up, g->dout[0]));

	st_grad_give(g, 0, d);
	st_grad_give(g, 1, d + 1);
}

/* dx, dw and db of a norm; the types of dw and db are stated. */
static void
norm(struct st_grad *g, enum st_op op, const uint32_t *operands, size_t count,
     int results)
{
	const char *names = st_arena_printf(
		g->in->arena, "%s,%s,%s", st_grad_name(g, "dx"),
		st_grad_name(g, "dw"), st_grad_name(g, "db"));
	uint32_t d;

	for (int i = 0; i < results; i++) {
		struct st_type type = st_grad_type(g, i);

		st_build_type(g->b, i, &type);
	}
	d = st_build(g->b, op, names ? names : "", operands, count);
	for (int i = 0; i < results; i++)
		st_grad_give(g, i, d + (uint32_t)i);
}

void
st_grad_of_layernorm(struct st_grad *g)
{
	uint32_t x = st_grad_operand(g, 0), w = st_grad_operand(g, 1);
	uint32_t mean = st_grad_result(g, 1), rstd = st_grad_result(g, 2);

	norm(g, ST_OP_layernorm_grad, ST_IN(x, w, mean, rstd, g->dout[0]), 3);
}

void
st_grad_of_rmsnorm(struct st_grad *g)
{
	uint32_t x = st_grad_operand(g, 0), w = st_grad_operand(g, 1);
	uint32_t rstd = st_grad_result(g, 1);

	norm(g, ST_OP_rmsnorm_grad, ST_IN(x, w, rstd, g->dout[0]), 2);
}

void
st_grad_of_rope(struct st_grad *g)
{
	int64_t inverse = st_node_int(g->in, g->node, ST_KEY_inverse);

	keep_attr(g, ST_KEY_theta);
	if (!inverse)
		st_build_int(g->b, ST_KEY_inverse, 1);
	st_grad_give(g, 0,
		     st_build(g->b, ST_OP_rope, st_grad_name(g, "dx"),
			      ST_IN(g->dout[0])));
}

void
st_grad_of_attention(struct st_grad *g)
{
	uint32_t q = st_grad_operand(g, 0), k = st_grad_operand(g, 1);
	uint32_t v = st_grad_operand(g, 2);
	uint32_t o = st_grad_result(g, 0), lse = st_grad_result(g, 1);
	const char *names = st_arena_printf(
		g->in->arena, "%s,%s,%s", st_grad_name(g, "dq"),
		st_grad_name(g, "dk"), st_grad_name(g, "dv"));
	uint32_t d;

	keep_attr(g, ST_KEY_scale);
	d = st_build(g->b, ST_OP_attention_grad, names ? names : "",
		     ST_IN(q, k, v, o, lse, g->dout[0]));
	for (int i = 0; i < 3; i++)
		st_grad_give(g, i, d + (uint32_t)i);
}

void
st_grad_of_attention_qkv(struct st_grad *g)
{
	uint32_t qkv = st_grad_operand(g, 0);
	uint32_t o = st_grad_result(g, 0), lse = st_grad_result(g, 1);

	keep_attr(g, ST_KEY_scale);
	st_grad_give(g, 0,
		     st_build(g->b, ST_OP_attention_qkv_grad,
			      st_grad_name(g, "dqkv"),
			      ST_IN(qkv, o, lse, g->dout[0])));
}

void
st_grad_of_embedding(struct st_grad *g)
{
	uint32_t tokens = st_grad_operand(g, 0);
	struct st_type type = st_grad_type(g, 1);

	st_build_type(g->b, 0, &type);
	st_grad_give(g, 1,
		     st_build(g->b, ST_OP_embedding_grad,
			      st_grad_name(g, "dw"),
			      ST_IN(tokens, g->dout[0])));
}

/*
 * The loss reaches the logits through maximum, sum and picked logit; their
 * gradients together are softmax minus one-hot, one op.  So the rule of
 * xent_loss goes straight to the logits; who else reads the maximum or the sum
 * is refused.
 */
void
st_grad_of_xent_loss(struct st_grad *g)
{
	uint32_t sum = g->in->values.at[st_node_operand(g->in, g->node, 1)]
			       .node;
	const struct st_node *head = g->node, *stats;
	uint32_t logits, targets, m, s, d;

	if (sum == ST_NONE || g->in->nodes.at[sum].op != ST_OP_xent_sum) {
		refuse(g);
		return;
	}
	stats = &g->in->nodes.at[sum];
	if (st_node_operand(g->in, g->node, 0) !=
		    st_node_operand(g->in, stats, 2) ||
	    st_node_operand(g->in, g->node, 1) != stats->first_result ||
	    st_node_operand(g->in, g->node, 2) != stats->first_result + 1) {
		g->b->status = st_error(
			g->in->diag, ST_EINPUT,
			st_module_loc_at(g->in, g->node->loc),
			"grad: xent_loss wants the maximum, the sum and the "
			"picked logit of one xent_sum, in this order");
		return;
	}
	m = st_grad_operand(g, 0);
	s = st_grad_operand(g, 1);
	g->node = stats;
	logits = st_grad_operand(g, 0);
	targets = st_grad_operand(g, 1);
	st_build_float(g->b, ST_KEY_factor,
		       g->loss_factor *
			       st_node_float(g->in, head, ST_KEY_factor));
	d = st_build(g->b, ST_OP_xent_grad, st_grad_name(g, "dlogits"),
		     ST_IN(logits, targets, m, s));
	st_grad_give(g, 0, d);
	g->node = head;
}


void
st_grad_of_copy(struct st_grad *g)
{
	st_grad_give(g, 0, g->dout[0]);
}

void
st_grad_of_reshape(struct st_grad *g)
{
	struct st_type type = st_grad_type(g, 0);

	st_build_type(g->b, 0, &type);
	st_grad_give(g, 0,
		     st_build(g->b, ST_OP_reshape, st_grad_name(g, "dx"),
			      ST_IN(g->dout[0])));
}

static void
slice(struct st_grad *g, enum st_op op)
{
	struct st_type type = st_grad_type(g, 0);

	keep_attr(g, ST_KEY_dim);
	keep_attr(g, ST_KEY_at);
	st_build_type(g->b, 0, &type);
	st_grad_give(g, 0,
		     st_build(g->b, op, st_grad_name(g, "dx"),
			      ST_IN(g->dout[0])));
}

void
st_grad_of_slice(struct st_grad *g)
{
	slice(g, ST_OP_unslice);
}

void
st_grad_of_unslice(struct st_grad *g)
{
	slice(g, ST_OP_slice);
}

/* The gradient of a marked activation is spread as the activation is. */
void
st_grad_of_reshard(struct st_grad *g)
{
	struct st_type type = *st_value_type(g->in, g->node->first_result);

	type.dtype = st_value_type(g->b->module, g->dout[0])->dtype;
	st_build_type(g->b, 0, &type);
	st_grad_give(g, 0,
		     st_build(g->b, ST_OP_reshard, st_grad_name(g, "dx"),
			      ST_IN(g->dout[0])));
}

/* Ops that no trained value passes through. */
#define NO_GRADIENT(name)                        \
	void st_grad_of_##name(struct st_grad *g) \
	{                                        \
		refuse(g);                       \
	}

NO_GRADIENT(xent_max)
NO_GRADIENT(xent_sum)
NO_GRADIENT(reduce_sum)
NO_GRADIENT(activation_grad)
NO_GRADIENT(swiglu_grad)
NO_GRADIENT(layernorm_grad)
NO_GRADIENT(rmsnorm_grad)
NO_GRADIENT(attention_grad)
NO_GRADIENT(attention_qkv_grad)
NO_GRADIENT(embedding_grad)
NO_GRADIENT(xent_grad)
NO_GRADIENT(sumsq)
NO_GRADIENT(clip)
NO_GRADIENT(step_count)
NO_GRADIENT(learning_rate)
NO_GRADIENT(adamw)
NO_GRADIENT(fill)
NO_GRADIENT(random)
NO_GRADIENT(shard)
NO_GRADIENT(only)
NO_GRADIENT(all_reduce)
NO_GRADIENT(reduce_scatter)
NO_GRADIENT(all_gather)
NO_GRADIENT(all_to_all)
NO_GRADIENT(wait)
