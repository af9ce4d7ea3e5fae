/* The other kinds of layers: norms, attention, activations, the loss. */

#include "models/lower.h"

#include <math.h>

/* ---- norms ---- */

static void
declare_norm(struct st_lowering *l, int bias)
{
	struct st_type type = st_type_scalar(l->dtype);

	st_lower_extent(l, &type, "width", 1);
	st_spread_param(l, &type, -1);
	st_lower_declare(l, st_lower_base(l), ".weight", &type, 0, 1.0);
	if (bias)
		st_lower_declare(l, st_lower_base(l), ".bias", &type, 0, 0.0);
}

static void
set_eps(struct st_lowering *l)
{
	double eps = st_lower_number(l, "eps", 0, 1);

	if (!st_lower_failed(l))
		st_build_float(&l->b, ST_KEY_eps, eps);
}

/* "x,x.mean,x.rstd" */
static const char *
result_names(struct st_lowering *l, const char *second, const char *third)
{
	const char *name = st_lower_value_name(l, l->name, "");
	const char *all =
		third ? st_arena_printf(l->model->arena, "%s,%s%s,%s%s", name,
					name, second, name, third)
		      : st_arena_printf(l->model->arena, "%s,%s%s", name, name,
					second);

	if (!all && !st_lower_failed(l))
		l->b.status = st_error_memory(l->model->diag);
	return all ? all : "";
}

void
st_declare_layernorm(struct st_lowering *l)
{
	declare_norm(l, 1);
}

void
st_lower_layernorm(struct st_lowering *l)
{
	uint32_t x = st_lower_operand(l, 0);
	uint32_t weight = st_lower_param(l, st_lower_base(l), ".weight");
	uint32_t bias = st_lower_param(l, st_lower_base(l), ".bias");

	set_eps(l);
	l->current = st_build(&l->b, ST_OP_layernorm,
			      result_names(l, ".mean", ".rstd"),
			      ST_IN(x, weight, bias));
}

void
st_declare_rmsnorm(struct st_lowering *l)
{
	declare_norm(l, 0);
}

void
st_lower_rmsnorm(struct st_lowering *l)
{
	uint32_t x = st_lower_operand(l, 0);
	uint32_t weight = st_lower_param(l, st_lower_base(l), ".weight");

	set_eps(l);
	l->current = st_build(&l->b, ST_OP_rmsnorm,
			      result_names(l, ".rstd", NULL), ST_IN(x, weight));
}

/* ---- attention ---- */

void
st_declare_rope(struct st_lowering *l)
{
	(void)l;
}

/* Size of a head: the last factor of [t, b, heads * size]. */
static int64_t
head_size(const struct st_lowering *l, uint32_t value)
{
	const struct st_type *type = st_value_type(l->module, value);

	return type->factors ? type->f[type->factors - 1].size : 1;
}

void
st_lower_rope(struct st_lowering *l)
{
	uint32_t x = st_lower_operand(l, 0);
	double theta = st_lower_number(l, "theta", 1, 1e18);

	if (!st_lower_failed(l) && head_size(l, x) % 2)
		st_lower_fail(l, "the size of a head must be even", "");
	if (st_lower_failed(l))
		return;
	st_build_float(&l->b, ST_KEY_theta, theta);
	l->current = st_build(&l->b, ST_OP_rope,
			      st_lower_value_name(l, l->name, ""), ST_IN(x));
}

void
st_declare_attention(struct st_lowering *l)
{
	(void)l;
}

void
st_lower_attention(struct st_lowering *l)
{
	int n = st_lower_operands(l);
	uint32_t in[3] = {ST_NONE, ST_NONE, ST_NONE};
	double scale;

	if (n != 1 && n != 3)
		st_lower_fail(l,
			      "of: want one layer with queries, keys and "
			      "values, or three",
			      "");
	for (int i = 0; i < n && !st_lower_failed(l); i++)
		in[i] = st_lower_operand(l, i);
	scale = st_lower_arg(l, "scale") ? st_lower_number(l, "scale", 0, 1e6)
					 : 0;
	if (st_lower_failed(l))
		return;
	if (!st_lower_arg(l, "scale"))
		scale = 1 / sqrt((double)head_size(l, in[0]));
	st_build_float(&l->b, ST_KEY_scale, scale);
	l->current =
		st_build(&l->b, n == 1 ? ST_OP_attention_qkv : ST_OP_attention,
			 result_names(l, ".lse", NULL), in, (size_t)n);
}

/* ---- element by element ---- */

void
st_declare_activation(struct st_lowering *l)
{
	(void)l;
}

void
st_lower_activation(struct st_lowering *l)
{
	static const char *const words[] = {
		"gelu_new",  "gelu_pytorch_tanh",
		"gelu_tanh", "gelu",
		"gelu_erf",  "relu",
		"silu",      "swish",
		NULL,
	};
	static const char *const acts[] = {
		"gelu_tanh", "gelu_tanh", "gelu_tanh", "gelu_erf",
		"gelu_erf",  "relu",      "silu",      "silu",
	};
	uint32_t x = st_lower_operand(l, 0);
	int index = st_lower_word(l, "fn", words);

	if (st_lower_failed(l))
		return;
	st_build_string(&l->b, ST_KEY_act, acts[index]);
	l->current = st_build(&l->b, ST_OP_activation,
			      st_lower_value_name(l, l->name, ""), ST_IN(x));
}

void
st_declare_swiglu(struct st_lowering *l)
{
	(void)l;
}

void
st_lower_swiglu(struct st_lowering *l)
{
	uint32_t gate = st_lower_operand(l, 0), up = ST_NONE;

	if (st_lower_operands(l) != 2)
		st_lower_fail(l, "of: want two layers, gate and up", "");
	else
		up = st_lower_operand(l, 1);
	l->current =
		st_build(&l->b, ST_OP_swiglu,
			 st_lower_value_name(l, l->name, ""), ST_IN(gate, up));
}

/* ---- loss ---- */

void
st_declare_cross_entropy(struct st_lowering *l)
{
	(void)l;
}

static int
has_all_tokens(const struct st_lowering *l, uint32_t logits)
{
	const struct st_type *type = st_value_type(l->module, logits);
	int64_t classes = 1;

	for (int f = st_type_first(type, 2); f < type->factors; f++)
		classes *= type->f[f].size;
	return classes >= l->model->vocab_size;
}

void
st_lower_cross_entropy(struct st_lowering *l)
{
	uint32_t logits = st_lower_operand(l, 0), most, sum;
	const char *names = st_arena_printf(
		l->model->arena, "%s.sum_exp,%s.target", l->name, l->name);

	if (!st_lower_failed(l) && !has_all_tokens(l, logits))
		st_lower_fail(l,
			      "there are fewer classes than tokens in the "
			      "vocabulary",
			      "");
	most = st_build(&l->b, ST_OP_xent_max,
			st_lower_value_name(l, l->name, ".max"), ST_IN(logits));
	sum = st_build(&l->b, ST_OP_xent_sum, names ? names : "",
		       ST_IN(logits, l->targets, most));
	if (st_lower_failed(l))
		return;
	st_build_float(&l->b, ST_KEY_factor,
		       1 / ((double)l->steps * (double)l->batch));
	l->current = l->loss = st_build(&l->b, ST_OP_xent_loss,
					st_lower_value_name(l, l->name, ""),
					ST_IN(most, sum, sum + 1));
}
