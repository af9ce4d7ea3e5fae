/* Kinds of layers: the parameters of each, and the nodes that it becomes. */

#include "models/lower.h"

#include <math.h>
#include <string.h>

enum cut { CUT_NONE, CUT_COLUMN, CUT_ROW, CUT_VOCABULARY };

static int
failed(const struct st_lowering *l)
{
	return l->b.status != ST_OK;
}

/* ---- arguments ---- */

static int64_t
count_of(struct st_lowering *l, const struct st_yaml *node, const char *what)
{
	int64_t value = 1;

	if (!failed(l))
		l->b.status = st_expr_count(l->model, node, what, &value);
	return value;
}

static double
number_of(struct st_lowering *l, const char *arg)
{
	double value = 0;

	if (!failed(l))
		l->b.status = st_expr_number(l->model, st_lower_arg(l, arg),
					     arg, &value);
	return value;
}

static int
flag_of(struct st_lowering *l, const char *arg, int otherwise)
{
	const struct st_yaml *node = st_lower_arg(l, arg);

	if (node && !failed(l))
		l->b.status = st_expr_flag(l->model, node, arg, &otherwise);
	return otherwise;
}

/* A word of a layer itself, such as `cut: column`. */
static int
choice_of(struct st_lowering *l, const char *arg, const char *const *words,
	  int otherwise)
{
	const struct st_yaml *node = st_lower_arg(l, arg);
	const char *near;

	if (!node || failed(l))
		return otherwise;
	for (int i = 0; words[i]; i++)
		if (strcmp(words[i], node->text) == 0)
			return i;
	near = st_nearest(node->text, words);
	l->b.status = st_error(l->model->diag, ST_EINPUT, node->loc,
			       "%s: unknown word '%s'%s%s%s", arg, node->text,
			       near ? "; did you mean '" : "", near ? near : "",
			       near ? "'?" : "");
	return otherwise;
}

static enum cut
cut_of(struct st_lowering *l)
{
	static const char *const words[] = {"none", "column", "row",
					    "vocabulary", NULL};

	return (enum cut)choice_of(l, "cut", words, CUT_NONE);
}

/* Standard deviation of random weights: `std`, else the key
 * initializer_range, else 0.02. */
static double
std_of(struct st_lowering *l)
{
	static const char range[] = "initializer_range";
	struct st_yaml *node;
	double value = 0.02;

	if (st_lower_arg(l, "std")) {
		value = number_of(l, "std");
	} else if (st_family_key(l->model, range, sizeof(range) - 1)) {
		node = st_yaml_plain(l->model->arena, range);
		if (node)
			node->loc = l->at;
		l->b.status = node ? st_expr_number(l->model, node, "std",
						    &value)
				   : st_error_memory(l->model->diag);
	}
	if (value < 0 || value > 1e6)
		st_lower_fail(l, "std: want a number from 0 to 1e6", "");
	return value;
}

/* Base of the parameters' names: `param`, else the layer's name. */
static const char *
base_of(const struct st_lowering *l)
{
	const struct st_yaml *param = st_lower_arg(l, "param");

	return param ? param->text : l->name;
}

/* Adds an extent of the stated factors, behind `fused` of them; returns the
 * index of the first stated one: that is what a cut falls on. */
static int
add_extent(struct st_lowering *l, struct st_type *type, const char *arg,
	   int64_t fused)
{
	const struct st_yaml *node = st_lower_arg(l, arg);
	int list = node->kind == ST_YAML_LIST;
	size_t n = list ? node->count : 1;
	int first, joined = fused > 1;

	if (joined && st_type_add_extent(type, fused))
		st_lower_fail(l, "too many factors", "");
	first = type->factors;
	if (n == 0)
		st_lower_fail(l, arg, ": the list is empty");
	for (size_t i = 0; i < n && !failed(l); i++) {
		int64_t size = count_of(l, list ? node->items[i].value : node,
					arg);

		if (joined ? st_type_join_factor(type, size)
			   : st_type_add_extent(type, size))
			st_lower_fail(l, "too many factors", "");
		joined = 1;
	}
	return first;
}

/* ---- linear ---- */

struct linear {
	enum cut cut;
	int in_out; /* order of the weight's extents */
	int bias, tied;
	int64_t fused;
};

static struct linear
linear_of(struct st_lowering *l)
{
	static const char *const orders[] = {"out-in", "in-out", NULL};
	const struct st_yaml *fused = st_lower_arg(l, "fused");
	struct linear linear = {.cut = cut_of(l), .fused = 1};

	linear.in_out = choice_of(l, "order", orders, 0);
	linear.bias = flag_of(l, "bias", 0);
	linear.tied = st_lower_arg(l, "tied_to") && flag_of(l, "tied_if", 1);
	if (fused)
		linear.fused = count_of(l, fused, "fused");
	return linear;
}

static void
declare_bias(struct st_lowering *l, const struct linear *linear)
{
	struct st_type type = st_type_scalar(l->dtype);
	int out = add_extent(l, &type, "out", linear->fused);
	int is_cut = linear->cut == CUT_COLUMN ||
		     linear->cut == CUT_VOCABULARY;

	st_spread_param(l, &type, is_cut ? out : -1);
	st_lower_declare(l, base_of(l), ".bias", &type, 0, 0.0);
}

void
st_declare_linear(struct st_lowering *l)
{
	struct linear linear = linear_of(l);
	struct st_type type = st_type_scalar(l->dtype);
	int in = 0, out, cut = -1;

	if (linear.in_out)
		in = add_extent(l, &type, "in", 1);
	out = add_extent(l, &type, "out", linear.fused);
	if (!linear.in_out)
		in = add_extent(l, &type, "in", 1);
	if (linear.cut != CUT_NONE)
		cut = linear.cut == CUT_ROW ? in : out;
	if (failed(l))
		return;
	st_spread_param(l, &type, cut);
	if (!linear.tied)
		st_lower_declare(l, base_of(l), ".weight", &type, 1,
				 std_of(l));
	if (linear.bias)
		declare_bias(l, &linear);
}

/* Letters as each cut is usually written: "tbc,oc->tbo", "tbk,ck->tbc",
 * "tbc,vc->tbv". */
static void
set_dims(struct st_lowering *l, const struct linear *linear)
{
	char in = linear->cut == CUT_ROW ? 'k' : 'c';
	char out = linear->cut == CUT_ROW	   ? 'c'
		   : linear->cut == CUT_VOCABULARY ? 'v'
						   : 'o';
	char dims[16] = "tb-,--->tb-";

	dims[2] = in;
	dims[4] = linear->in_out ? in : out;
	dims[5] = linear->in_out ? out : in;
	dims[10] = out;
	st_build_string(&l->b, ST_KEY_dims, dims);
}

static void
add_bias(struct st_lowering *l, const struct linear *linear)
{
	uint32_t bias = st_lower_param(l, base_of(l), ".bias");

	if (failed(l))
		return;
	st_build_string(&l->b, ST_KEY_dims,
			linear->cut == CUT_ROW ? "tbc,c->tbc" : "tbo,o->tbo");
	l->current = st_build(&l->b, ST_OP_add,
			      st_lower_value_name(l, l->name, ""),
			      ST_IN(l->current, bias));
}

void
st_lower_linear(struct st_lowering *l)
{
	struct linear linear = linear_of(l);
	uint32_t x = st_lower_operand(l, 0), weight;

	if (linear.tied) {
		const char *prefix = l->prefix;

		l->prefix = "";
		weight = st_lower_param(l, st_lower_arg(l, "tied_to")->text,
					".weight");
		l->prefix = prefix;
	} else {
		weight = st_lower_param(l, base_of(l), ".weight");
	}
	if (failed(l))
		return;
	set_dims(l, &linear);
	l->current = st_build(
		&l->b, ST_OP_matmul,
		st_lower_value_name(l, l->name, linear.bias ? ".mm" : ""),
		ST_IN(x, weight));
	if (linear.bias)
		add_bias(l, &linear);
}

/* ---- embeddings ---- */

static void
declare_table(struct st_lowering *l, enum cut cut)
{
	struct st_type type = st_type_scalar(l->dtype);
	int rows = add_extent(l, &type, "rows", 1);

	add_extent(l, &type, "width", 1);
	if (cut != CUT_NONE && cut != CUT_VOCABULARY)
		st_lower_fail(l, "cut: an embedding is cut by vocabulary or "
				 "not at all", "");
	if (failed(l))
		return;
	st_spread_param(l, &type, cut == CUT_VOCABULARY ? rows : -1);
	st_lower_declare(l, base_of(l), ".weight", &type, 1, std_of(l));
}

void
st_declare_embedding(struct st_lowering *l)
{
	declare_table(l, cut_of(l));
}

void
st_lower_embedding(struct st_lowering *l)
{
	uint32_t table = st_lower_param(l, base_of(l), ".weight");
	uint32_t x;

	if (failed(l))
		return;
	x = st_build(&l->b, ST_OP_embedding,
		     st_lower_value_name(l, l->name, ".tokens"),
		     ST_IN(l->tokens, table));
	l->current = st_spread_residual(
		l, st_lower_value_name(l, l->name, ".spread"), x);
}

void
st_declare_position(struct st_lowering *l)
{
	declare_table(l, CUT_NONE);
}

/* The first rows of the table: one for each position in use. */
static uint32_t
take_rows(struct st_lowering *l, uint32_t table)
{
	struct st_type type = st_type_whole(st_value_type(l->module, table));
	int64_t rows = type.f[0].size;
	const char *name = st_arena_printf(l->model->arena, "%s.t",
					   base_of(l));

	if (rows < l->steps) {
		l->b.status = st_error(
			l->model->diag, ST_EINPUT,
			st_setting_loc(l->model, ST_SET_seq_len),
			"seq_len %lld is longer than the %lld positions of "
			"the model",
			(long long)l->steps, (long long)rows);
		return ST_NONE;
	}
	if (rows == l->steps)
		return table;
	type.f[0].size = l->steps;
	st_build_int(&l->b, ST_KEY_dim, 0);
	st_build_int(&l->b, ST_KEY_at, 0);
	st_build_type(&l->b, 0, &type);
	return st_build(&l->b, ST_OP_slice,
			st_lower_value_name(l, name ? name : "", ""),
			ST_IN(table));
}

void
st_lower_position(struct st_lowering *l)
{
	uint32_t x = st_lower_operand(l, 0);
	uint32_t table = st_lower_param(l, base_of(l), ".weight");

	if (!failed(l))
		table = take_rows(l, table);
	if (failed(l))
		return;
	st_build_string(&l->b, ST_KEY_dims, "tbc,tc->tbc");
	l->current = st_build(&l->b, ST_OP_add,
			      st_lower_value_name(l, l->name, ""),
			      ST_IN(x, table));
}

/* ---- norms ---- */

static void
declare_norm(struct st_lowering *l, int bias)
{
	struct st_type type = st_type_scalar(l->dtype);

	add_extent(l, &type, "width", 1);
	st_spread_param(l, &type, -1);
	st_lower_declare(l, base_of(l), ".weight", &type, 0, 1.0);
	if (bias)
		st_lower_declare(l, base_of(l), ".bias", &type, 0, 0.0);
}

static void
set_eps(struct st_lowering *l)
{
	double eps = number_of(l, "eps");

	if (!failed(l) && (eps < 0 || eps > 1))
		st_lower_fail(l, "eps: want a number from 0 to 1", "");
	if (!failed(l))
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

	if (!all && !failed(l))
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
	uint32_t weight = st_lower_param(l, base_of(l), ".weight");
	uint32_t bias = st_lower_param(l, base_of(l), ".bias");

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
	uint32_t weight = st_lower_param(l, base_of(l), ".weight");

	set_eps(l);
	l->current = st_build(&l->b, ST_OP_rmsnorm,
			      result_names(l, ".rstd", NULL),
			      ST_IN(x, weight));
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
	double theta = number_of(l, "theta");

	if (!failed(l) && !(theta > 0))
		st_lower_fail(l, "theta: want a number above 0", "");
	if (!failed(l) && head_size(l, x) % 2)
		st_lower_fail(l, "the size of a head must be even", "");
	if (failed(l))
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
		st_lower_fail(l, "of: want one layer with queries, keys and "
				 "values, or three", "");
	for (int i = 0; i < n && !failed(l); i++)
		in[i] = st_lower_operand(l, i);
	scale = st_lower_arg(l, "scale") ? number_of(l, "scale") : 0;
	if (failed(l))
		return;
	if (!st_lower_arg(l, "scale"))
		scale = 1 / sqrt((double)head_size(l, in[0]));
	st_build_float(&l->b, ST_KEY_scale, scale);
	l->current = st_build(&l->b,
			      n == 1 ? ST_OP_attention_qkv : ST_OP_attention,
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
	static const char *const names[][2] = {
		{"gelu_new", "gelu_tanh"},
		{"gelu_pytorch_tanh", "gelu_tanh"},
		{"gelu_tanh", "gelu_tanh"},
		{"gelu", "gelu_erf"},
		{"gelu_erf", "gelu_erf"},
		{"relu", "relu"},
		{"silu", "silu"},
		{"swish", "silu"},
	};
	uint32_t x = st_lower_operand(l, 0);
	const char *word = "";

	if (!failed(l))
		l->b.status = st_expr_word(l->model, st_lower_arg(l, "fn"),
					   "fn", &word);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (failed(l) || strcmp(names[i][0], word) != 0)
			continue;
		st_build_string(&l->b, ST_KEY_act, names[i][1]);
		l->current = st_build(&l->b, ST_OP_activation,
				      st_lower_value_name(l, l->name, ""),
				      ST_IN(x));
		return;
	}
	st_lower_fail(l, "the activation is not supported: ", word);
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
	l->current = st_build(&l->b, ST_OP_swiglu,
			      st_lower_value_name(l, l->name, ""),
			      ST_IN(gate, up));
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
	const char *names = st_arena_printf(l->model->arena,
					    "%s.sum_exp,%s.target", l->name,
					    l->name);

	if (!failed(l) && !has_all_tokens(l, logits))
		st_lower_fail(l, "there are fewer classes than tokens in the "
				 "vocabulary", "");
	most = st_build(&l->b, ST_OP_xent_max,
			st_lower_value_name(l, l->name, ".max"),
			ST_IN(logits));
	sum = st_build(&l->b, ST_OP_xent_sum, names ? names : "",
		       ST_IN(logits, l->targets, most));
	if (failed(l))
		return;
	st_build_float(&l->b, ST_KEY_factor,
		       1 / ((double)l->steps * (double)l->batch));
	l->current = l->loss =
		st_build(&l->b, ST_OP_xent_loss,
			 st_lower_value_name(l, l->name, ""),
			 ST_IN(most, sum, sum + 1));
}
