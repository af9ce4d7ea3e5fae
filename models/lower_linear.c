/* Layers with a matrix: linear, embedding, position. */

#include "models/lower.h"

struct linear {
	enum st_cut cut;
	int in_out; /* order of the weight's extents */
	int bias, tied;
	int64_t fused;
};

static struct linear
linear_of(struct st_lowering *l)
{
	static const char *const orders[] = {"out-in", "in-out", NULL};
	const struct st_yaml *fused = st_lower_arg(l, "fused");
	struct linear linear = {.cut = st_lower_cut(l), .fused = 1};

	linear.in_out = st_lower_word(l, "order", orders);
	linear.bias = st_lower_flag(l, "bias", 0);
	linear.tied =
		st_lower_arg(l, "tied_to") && st_lower_flag(l, "tied_if", 1);
	if (fused)
		linear.fused = st_lower_count(l, fused, "fused");
	return linear;
}

static void
declare_bias(struct st_lowering *l, const struct linear *linear)
{
	struct st_type type = st_type_scalar(l->dtype);
	int out = st_lower_extent(l, &type, "out", linear->fused);
	int is_cut = linear->cut == ST_CUT_COLUMN ||
		     linear->cut == ST_CUT_VOCABULARY;

	st_spread_param(l, &type, is_cut ? out : -1);
	st_lower_declare(l, st_lower_base(l), ".bias", &type, 0, 0.0);
}

void
st_declare_linear(struct st_lowering *l)
{
	struct linear linear = linear_of(l);
	struct st_type type = st_type_scalar(l->dtype);
	int in = 0, out, cut = -1;

	if (linear.in_out)
		in = st_lower_extent(l, &type, "in", 1);
	out = st_lower_extent(l, &type, "out", linear.fused);
	if (!linear.in_out)
		in = st_lower_extent(l, &type, "in", 1);
	if (linear.cut != ST_CUT_NONE)
		cut = linear.cut == ST_CUT_ROW ? in : out;
	if (st_lower_failed(l))
		return;
	st_spread_param(l, &type, cut);
	if (!linear.tied)
		st_lower_declare(l, st_lower_base(l), ".weight", &type, 1,
				 st_lower_std(l));
	if (linear.bias)
		declare_bias(l, &linear);
}

/* Letters as each cut is usually written: "tbc,oc->tbo", "tbk,ck->tbc",
 * "tbc,vc->tbv". */
static void
set_dims(struct st_lowering *l, const struct linear *linear)
{
	char in = linear->cut == ST_CUT_ROW ? 'k' : 'c';
	char out = linear->cut == ST_CUT_ROW          ? 'c'
		   : linear->cut == ST_CUT_VOCABULARY ? 'v'
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
	uint32_t bias = st_lower_param(l, st_lower_base(l), ".bias");

	if (st_lower_failed(l))
		return;
	st_build_string(&l->b, ST_KEY_dims,
			linear->cut == ST_CUT_ROW ? "tbc,c->tbc"
						  : "tbo,o->tbo");
	l->current =
		st_build(&l->b, ST_OP_add, st_lower_value_name(l, l->name, ""),
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
		weight = st_lower_param(l, st_lower_base(l), ".weight");
	}
	if (st_lower_failed(l))
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
declare_table(struct st_lowering *l, enum st_cut cut)
{
	struct st_type type = st_type_scalar(l->dtype);
	int rows = st_lower_extent(l, &type, "rows", 1);

	st_lower_extent(l, &type, "width", 1);
	if (cut != ST_CUT_NONE && cut != ST_CUT_VOCABULARY)
		st_lower_fail(l,
			      "cut: an embedding is cut by vocabulary or "
			      "not at all",
			      "");
	if (st_lower_failed(l))
		return;
	st_spread_param(l, &type, cut == ST_CUT_VOCABULARY ? rows : -1);
	st_lower_declare(l, st_lower_base(l), ".weight", &type, 1,
			 st_lower_std(l));
}

void
st_declare_embedding(struct st_lowering *l)
{
	declare_table(l, st_lower_cut(l));
}

void
st_lower_embedding(struct st_lowering *l)
{
	uint32_t table = st_lower_param(l, st_lower_base(l), ".weight");
	uint32_t x;

	if (st_lower_failed(l))
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
	declare_table(l, ST_CUT_NONE);
}

/* The first rows of the table: one for each position in use. */
static uint32_t
take_rows(struct st_lowering *l, uint32_t table)
{
	struct st_type type = st_type_whole(st_value_type(l->module, table));
	int64_t rows = type.f[0].size;
	const char *name =
		st_arena_printf(l->model->arena, "%s.t", st_lower_base(l));

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
	uint32_t table = st_lower_param(l, st_lower_base(l), ".weight");

	if (!st_lower_failed(l))
		table = take_rows(l, table);
	if (st_lower_failed(l))
		return;
	st_build_string(&l->b, ST_KEY_dims, "tbc,tc->tbc");
	l->current =
		st_build(&l->b, ST_OP_add, st_lower_value_name(l, l->name, ""),
			 ST_IN(x, table));
}
