/* From a checked net to its logical module. */

#include "models/lower.h"

#include <math.h>
#include <string.h>

enum { MAX_LAYERS = 16384 };

void
st_lower_fail(struct st_lowering *l, const char *what, const char *text)
{
	if (l->b.status == ST_OK)
		l->b.status = st_error(l->model->diag, ST_EINPUT, l->at, "%s%s",
				       what, text);
}

static void
fail_memory(struct st_lowering *l)
{
	if (l->b.status == ST_OK)
		l->b.status = st_error_memory(l->model->diag);
}

const struct st_yaml *
st_lower_arg(const struct st_lowering *l, const char *name)
{
	return st_yaml_get(l->layer, name);
}

static const char *
join(struct st_lowering *l, const char *separator, const char *name,
     const char *suffix)
{
	const char *text =
		st_arena_printf(l->model->arena, "%s%s%s%s", l->prefix,
				l->prefix[0] ? separator : "", name, suffix);

	if (!text)
		fail_memory(l);
	return text ? text : "";
}

const char *
st_lower_value_name(struct st_lowering *l, const char *name, const char *suffix)
{
	return join(l, "/", name, suffix);
}

const char *
st_lower_param_name(struct st_lowering *l, const char *name, const char *suffix)
{
	return join(l, ".", name, suffix);
}

void
st_lower_declare(struct st_lowering *l, const char *base, const char *suffix,
		 const struct st_type *type, int is_random, double value)
{
	struct st_module *m = l->module;
	const char *fault = st_type_fault(type, &m->mesh);
	const char *text = st_lower_param_name(l, base, suffix);
	struct st_initial fresh = {0, is_random, value, l->b.loc};
	struct st_initial *grown;
	uint32_t name;

	if (l->b.status != ST_OK)
		return;
	if (fault) {
		st_lower_fail(l, "the parameter cannot be: ", fault);
		return;
	}
	name = st_names_add(m->names, text, strlen(text));
	fresh.state = (uint32_t)m->states.count;
	if (!st_module_name_is_free(m, name)) {
		st_lower_fail(l, "a second parameter of the name ", text);
		return;
	}
	grown = st_arena_grow(l->model->arena, l->initials.at,
			      l->initials.count, &l->initials.capacity,
			      l->initials.count + 1, sizeof(*grown));
	if (!grown || st_module_add_state(m, name, type, ST_ROLE_param,
					  l->b.loc) == ST_NONE) {
		fail_memory(l);
		return;
	}
	l->initials.at = grown;
	grown[l->initials.count++] = fresh;
}

uint32_t
st_lower_param(struct st_lowering *l, const char *base, const char *suffix)
{
	const char *text = st_lower_param_name(l, base, suffix);
	uint32_t name = st_names_find(l->module->names, text, strlen(text));
	uint32_t value = st_module_lookup(l->module, name);

	if (value == ST_NONE ||
	    st_module_find_state(l->module, value) == ST_NONE) {
		st_lower_fail(l, "there is no parameter ", text);
		return ST_NONE;
	}
	return value;
}

/* ---- results by name ---- */

static void
define(struct st_lowering *l, const char *name, uint32_t value)
{
	struct st_named *grown = st_arena_grow(
		l->model->arena, l->named.at, l->named.count,
		&l->named.capacity, l->named.count + 1, sizeof(*grown));

	if (!grown) {
		fail_memory(l);
		return;
	}
	l->named.at = grown;
	grown[l->named.count].name = name;
	grown[l->named.count++].value = value;
}

/* The last result of that name, or ST_NONE. */
static uint32_t
find_result(const struct st_lowering *l, const char *name)
{
	for (size_t i = l->named.count; i-- > 0;)
		if (strcmp(l->named.at[i].name, name) == 0)
			return l->named.at[i].value;
	return ST_NONE;
}

int
st_lower_operands(const struct st_lowering *l)
{
	const struct st_yaml *of = st_lower_arg(l, "of");

	return of && of->kind == ST_YAML_LIST ? (int)of->count : 1;
}

uint32_t
st_lower_operand(struct st_lowering *l, int i)
{
	const struct st_yaml *of = st_lower_arg(l, "of");
	uint32_t value = l->current;

	if (l->b.status != ST_OK)
		return ST_NONE;
	if (of && of->kind == ST_YAML_LIST)
		of = i < (int)of->count ? of->items[i].value : NULL;
	if (st_lower_arg(l, "of") && (!of || of->kind != ST_YAML_STRING)) {
		st_lower_fail(l,
			      "of: want the name of a layer, or a list of "
			      "names",
			      "");
		return ST_NONE;
	}
	if (of) {
		value = find_result(l, st_lower_value_name(l, of->text, ""));
		if (value == ST_NONE)
			value = find_result(l, of->text);
		if (value == ST_NONE)
			st_lower_fail(l,
				      "of: no layer before this one is "
				      "called ",
				      of->text);
	} else if (value == ST_NONE) {
		st_lower_fail(l,
			      "there is no layer before this one to read "
			      "from",
			      "");
	}
	return value;
}

/* ---- walking ---- */

static st_layer_fn *const declare[] = {
#define LAYER(kind, ...) st_declare_##kind,
#include "models/layers.def"
};

static st_layer_fn *const lower[] = {
#define LAYER(kind, ...) st_lower_##kind,
#include "models/layers.def"
};

/* A fault found in the family leads to the net that chose it. */
static void
lead_to_net(struct st_lowering *l)
{
	const struct st_diag *diag = l->model->diag;
	const struct st_message *last =
		diag->count ? &diag->messages[diag->count - 1] : NULL;

	if (l->model->family && last && last->loc.source == l->at.source)
		st_note(l->model->diag, l->model->model_loc,
			"in '%s' of the family '%s', lowered for this net",
			st_lower_value_name(l, l->name, ""), l->model->family);
}

static void
lower_one(struct st_lowering *l, const struct st_yaml *layer)
{
	const struct st_yaml_item *item;
	int kind;

	l->layer = layer;
	item = st_layer_kind(layer, &kind);
	l->name = item->value->text;
	l->at = item->loc;
	if (l->layers++ == MAX_LAYERS)
		st_lower_fail(l, "the net has too many layers", "");
	l->b.loc = st_module_loc(l->module, l->at);
	if (l->b.loc == ST_NONE)
		fail_memory(l);
	if (l->b.status == ST_OK)
		(l->declaring ? declare : lower)[kind](l);
	if (l->b.status == ST_OK && !l->declaring)
		define(l, st_lower_value_name(l, item->value->text, ""),
		       l->current);
}

void
st_lower_list(struct st_lowering *l, const struct st_yaml *list)
{
	for (size_t i = 0; i < list->count && l->b.status == ST_OK; i++) {
		lower_one(l, list->items[i].value);
		if (l->b.status != ST_OK && l->name) {
			lead_to_net(l);
			l->name = NULL; /* once, for the innermost */
		}
	}
}

/* Each turn is a layer of its own: NAME.0, NAME.1 and so on. */
static void
repeat(struct st_lowering *l)
{
	const struct st_yaml *list = st_lower_arg(l, "layers");
	const char *name = st_lower_arg(l, "name")->text;
	const char *outer = l->prefix;
	int64_t turns = 0;

	l->b.status = st_expr_count(l->model, st_lower_arg(l, "repeat"),
				    "repeat", &turns);
	for (int64_t i = 0; i < turns && l->b.status == ST_OK; i++) {
		l->prefix = st_arena_printf(l->model->arena, "%s%s%s.%lld",
					    outer, outer[0] ? "." : "", name,
					    (long long)i);
		if (!l->prefix) {
			l->prefix = outer;
			fail_memory(l);
			return;
		}
		st_lower_list(l, list);
	}
	l->prefix = outer;
}

void
st_declare_repeat(struct st_lowering *l)
{
	repeat(l);
}

void
st_lower_repeat(struct st_lowering *l)
{
	repeat(l);
}

void
st_declare_residual(struct st_lowering *l)
{
	st_lower_list(l, st_lower_arg(l, "layers"));
}

void
st_lower_residual(struct st_lowering *l)
{
	const struct st_yaml *list = st_lower_arg(l, "layers");
	const char *name = l->name;
	struct st_loc at = l->at;
	uint32_t loc = l->b.loc, stream = l->current, branch;

	if (stream == ST_NONE) {
		st_lower_fail(l,
			      "there is no layer before this one to add "
			      "to",
			      "");
		return;
	}
	st_lower_list(l, list);
	if (l->b.status != ST_OK)
		return;
	branch = st_spread_residual(
		l, st_lower_value_name(l, l->name, ".spread"), l->current);
	l->name = name;
	l->at = at;
	l->b.loc = loc;
	l->current =
		st_build(&l->b, ST_OP_sum, st_lower_value_name(l, name, ""),
			 ST_IN(stream, branch));
}

/* ---- entries ---- */

static void
begin(struct st_lowering *l, const char *name)
{
	struct st_module *m = l->module;
	uint32_t loc = st_module_loc(m, l->model->model_loc);

	st_module_begin_entry(m, st_names_add(m->names, name, strlen(name)),
			      loc);
}

static void
make_init(struct st_lowering *l)
{
	struct st_module *m = l->module;

	begin(l, "init");
	for (size_t i = 0; i < l->initials.count; i++) {
		const struct st_initial *initial = &l->initials.at[i];
		uint32_t state = m->states.at[initial->state].value;
		const char *name = st_value_name(m, state);
		struct st_type whole = st_type_whole(st_value_type(m, state));
		uint32_t value;

		l->b.loc = initial->loc;
		st_build_type(&l->b, 0, &whole);
		if (initial->is_random) {
			st_build_int(&l->b, ST_KEY_seed,
				     l->model->settings[ST_SET_seed].i);
			st_build_float(&l->b, ST_KEY_std, initial->value);
			st_build_string(&l->b, ST_KEY_stream, name);
		} else {
			st_build_float(&l->b, ST_KEY_factor, initial->value);
		}
		value = st_build(&l->b,
				 initial->is_random ? ST_OP_random : ST_OP_fill,
				 name, ST_NO_OPERANDS);
		if (l->b.status != ST_OK)
			return;
		st_module_add_output(m, value, 0, initial->state);
	}
	st_module_end_entry(m);
}

static void
make_eval(struct st_lowering *l)
{
	struct st_module *m = l->module;
	struct st_type type = st_spread_tokens(l);

	begin(l, "eval");
	l->tokens = st_module_add_input(m, st_names_add(m->names, "tokens", 6),
					&type);
	l->targets = st_module_add_input(
		m, st_names_add(m->names, "targets", 7), &type);
	if (l->tokens == ST_NONE || l->targets == ST_NONE) {
		fail_memory(l);
		return;
	}
	l->current = l->loss = ST_NONE;
	l->layers = 0;
	st_lower_list(l, l->model->layers);
	if (l->b.status != ST_OK)
		return;
	st_module_add_output(m, l->loss, st_names_add(m->names, "loss", 4),
			     ST_NONE);
	st_module_end_entry(m);
}

/* ---- options ---- */

static void
set(struct st_lowering *l, enum st_option option, int64_t i, double f,
    const char *s)
{
	struct st_option_value value = {i, f, s};

	l->module->options[option] = value;
	l->module->options_set |= (uint64_t)1 << option;
}

static void
set_options(struct st_lowering *l)
{
	const struct st_setting_value *s = l->model->settings;
	const char *dtype = s[ST_SET_dtype].s;

	set(l, ST_OPTION_micro_batches, l->model->micro_batches, 0, "");
	set(l, ST_OPTION_recompute, 0, 0, s[ST_SET_recompute].s);
	set(l, ST_OPTION_zero_stage, s[ST_SET_zero_stage].i, 0, "");
	set(l, ST_OPTION_grad_clip, 0, s[ST_SET_grad_clip].f[0], "");
	if (strcmp(s[ST_SET_master_dtype].s, dtype) != 0)
		set(l, ST_OPTION_master_dtype, 0, 0, s[ST_SET_master_dtype].s);
	if (strcmp(s[ST_SET_reduce_dtype].s, dtype) != 0)
		set(l, ST_OPTION_reduce_dtype, 0, 0, s[ST_SET_reduce_dtype].s);
	set(l, ST_OPTION_lr, 0, s[ST_SET_lr].f[0], "");
	set(l, ST_OPTION_lr_min, 0, s[ST_SET_lr_min].f[0], "");
	set(l, ST_OPTION_warmup_steps, s[ST_SET_warmup_steps].i, 0, "");
	set(l, ST_OPTION_total_steps, s[ST_SET_total_steps].i, 0, "");
	set(l, ST_OPTION_beta1, 0, s[ST_SET_betas].f[0], "");
	set(l, ST_OPTION_beta2, 0, s[ST_SET_betas].f[1], "");
	set(l, ST_OPTION_adam_eps, 0, s[ST_SET_eps].f[0], "");
	set(l, ST_OPTION_weight_decay, 0, s[ST_SET_weight_decay].f[0], "");
	set(l, ST_OPTION_seed, s[ST_SET_seed].i, 0, "");
	set(l, ST_OPTION_overlap, 0, 0, s[ST_SET_policy].s);
	set(l, ST_OPTION_split, s[ST_SET_split].i, 0, "");
	set(l, ST_OPTION_bucket, 0, 0, s[ST_SET_bucket].s);
}

enum st_status
st_model_lower(struct st_model *model, struct st_module **module)
{
	const char *dtype = model->settings[ST_SET_dtype].s;
	struct st_lowering l = {.model = model, .prefix = ""};

	l.module = st_module_create(model->arena, model->diag, model->names);
	if (!l.module)
		return st_error_memory(model->diag);
	st_build_init(&l.b, l.module);
	l.dtype = (enum st_dtype)st_dtype_find(dtype, strlen(dtype));
	l.batch =
		model->settings[ST_SET_micro_batch_size].i * st_plan_dp(model);
	l.steps = model->settings[ST_SET_seq_len].i;
	st_spread_mesh(&l);
	set_options(&l);
	l.declaring = 1;
	st_lower_list(&l, model->layers);
	l.declaring = 0;
	if (l.b.status == ST_OK)
		make_init(&l);
	if (l.b.status == ST_OK)
		make_eval(&l);
	if (l.b.status == ST_OK && model->arena->failed)
		fail_memory(&l);
	*module = l.b.status == ST_OK ? l.module : NULL;
	return l.b.status;
}
