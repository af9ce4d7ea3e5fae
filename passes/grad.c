/*
 * grad: from a loss to a training step.
 *
 * Reads a logical module with the entries `init` and `eval` (inputs ->
 * loss) and makes
 *
 *   init        params as before, optimizer state, counters, accumulators
 *   prologue    brings the first batch into the batch states
 *   accumulate  one micro-batch: adds gradients to accumulators
 *   step        the last micro-batch, gradient clipping, AdamW
 *   eval        as before
 *
 * `accumulate` and the accumulators exist only with more than one
 * micro-batch.  Each step trains on the batch that the call before brought,
 * and brings the next one while it computes.
 *
 *   before: entry @eval(%tokens, %targets) { ... ret %loss as loss }
 *   after:  entry @step(%tokens, %targets) {
 *             %tokens.now = copy %batch.tokens ...
 *             %batch.tokens.1 = copy %tokens ...
 *             (forward, backward, optimizer)
 *             ret %wte.weight.1 -> %wte.weight ...
 *
 * ZeRO stages are spreads of states over dp_shard, nothing else:
 *   1  optimizer state is flat; accumulators hold whole partial gradients
 *   2  accumulators are flat too
 *   3  the params themselves are declared flat by the front end
 *
 * Keeps: purity, locations, layers.  Linear in the number of nodes.
 */

#include "passes/backward.h"
#include "passes/pass.h"

#include <string.h>

struct param {
	uint32_t value; /* of `in` and of `out`: states keep their index */
	uint32_t master, moment1, moment2, gradient; /* of `out` or none */
	uint32_t complete; /* gradient in the open entry */
};

struct trainer {
	const struct st_module *in;
	struct st_module *out;
	struct st_builder b;
	const struct st_entry *init, *eval;
	uint32_t loss; /* value of `in` */
	struct param *params;
	size_t param_count;
	uint32_t *param_of;  /* by state: index in params or none */
	uint32_t *batch;     /* by input of eval: state of `out` */
	uint32_t step_state; /* counter */
	uint32_t loss_state; /* sum over micro-batches, or none */
	int64_t micro_batches;
	enum st_recompute recompute;
	unsigned replicate, shard; /* mesh axes of data parallelism */
	int64_t stage;
	enum st_dtype master_dtype, reduce_dtype;
	int has_master_dtype, has_reduce_dtype;
	double grad_clip;
};

static enum st_status
bad_option(const struct trainer *t, const char *what)
{
	return st_error(t->in->diag, ST_EINPUT, st_no_loc(), "grad: %s", what);
}

static enum st_status
read_dtype(const struct trainer *t, enum st_option option,
	   enum st_dtype *dtype, int *set)
{
	const char *name = t->in->options[option].s;
	int found = st_dtype_find(name, strlen(name));

	*set = name[0] != '\0';
	if (!*set)
		return ST_OK;
	if (found < 0 || found > ST_BF16)
		return bad_option(t, "master_dtype and reduce_dtype must be "
				     "f64, f32 or bf16");
	*dtype = (enum st_dtype)found;
	return ST_OK;
}

static enum st_status
read_options(struct trainer *t)
{
	const struct st_option_value *o = t->in->options;
	const char *recompute = o[ST_OPTION_recompute].s;
	int replicate = st_module_find_axis(t->in, "dp_replicate");
	int shard = st_module_find_axis(t->in, "dp_shard");

	t->micro_batches = o[ST_OPTION_micro_batches].i;
	t->stage = o[ST_OPTION_zero_stage].i;
	t->grad_clip = o[ST_OPTION_grad_clip].f;
	t->replicate = replicate < 0 ? 0 : 1u << replicate;
	t->shard = shard < 0 ? 0 : 1u << shard;
	if (t->micro_batches < 1)
		return bad_option(t, "micro_batches must be at least 1");
	if (t->stage < 0 || t->stage > 3)
		return bad_option(t, "zero_stage must be 0, 1, 2 or 3");
	if (strcmp(recompute, "selective") == 0)
		t->recompute = ST_RECOMPUTE_SELECTIVE;
	else if (strcmp(recompute, "full") == 0)
		t->recompute = ST_RECOMPUTE_FULL;
	else if (strcmp(recompute, "none") != 0)
		return bad_option(t, "recompute must be none, selective or "
				     "full");
	ST_TRY(read_dtype(t, ST_OPTION_master_dtype, &t->master_dtype,
			  &t->has_master_dtype));
	return read_dtype(t, ST_OPTION_reduce_dtype, &t->reduce_dtype,
			  &t->has_reduce_dtype);
}

static enum st_status
find_entries(struct trainer *t)
{
	uint32_t init = st_module_find_entry(t->in, "init");
	uint32_t eval = st_module_find_entry(t->in, "eval");

	if (init == ST_NONE || eval == ST_NONE || t->in->entries.count != 2)
		return bad_option(t, "the module must have the entries init "
				     "and eval, and no others");
	t->init = &t->in->entries.at[init];
	t->eval = &t->in->entries.at[eval];
	for (uint32_t i = 0; i < t->init->outputs; i++)
		if (t->in->outputs.at[t->init->first_output + i].state ==
		    ST_NONE)
			return bad_option(t, "entry init fills states and "
					     "returns nothing else");
	if (t->init->inputs)
		return bad_option(t, "entry init takes no inputs");
	t->loss = ST_NONE;
	for (uint32_t i = 0; i < t->eval->outputs; i++) {
		const struct st_output *output =
			&t->in->outputs.at[t->eval->first_output + i];

		if (strcmp(st_names_text(t->in->names, output->name),
			   "loss") == 0)
			t->loss = output->value;
	}
	return t->loss == ST_NONE
		       ? bad_option(t, "entry eval must return a loss")
		       : ST_OK;
}

/* Adds a state named BASE.SUFFIX. */
static uint32_t
add_state(struct trainer *t, const char *base, const char *suffix,
	  const struct st_type *type, enum st_role role, uint32_t loc)
{
	const char *text = st_arena_printf(t->in->arena, "%s%s%s", base,
					   suffix[0] ? "." : "", suffix);
	uint32_t name = text ? st_names_add(t->in->names, text, strlen(text))
			     : 0;
	uint32_t value = st_module_add_state(t->out, name, type, role, loc);

	if (value == ST_NONE && t->b.status == ST_OK)
		t->b.status = st_error(t->in->diag, ST_EINPUT,
				       st_module_loc_at(t->in, loc),
				       "grad: the name '%%%s' is taken",
				       text ? text : "");
	return value;
}

/* Spread of optimizer state: that of the param before ZeRO, flat from
 * stage 1 on. */
static struct st_type
optimizer_type(const struct trainer *t, uint32_t param)
{
	struct st_type type = *st_value_type(t->in, param);

	if (t->stage >= 1 && !(st_type_axes(&type) & t->shard))
		type.flat = (uint8_t)(type.flat | t->shard);
	if (t->has_master_dtype)
		type.dtype = (uint8_t)t->master_dtype;
	return type;
}

static struct st_type
accumulator_type(const struct trainer *t, uint32_t param)
{
	struct st_type type = *st_value_type(t->in, param);

	if (t->stage >= 2 && !(st_type_axes(&type) & t->shard))
		type.flat = (uint8_t)(type.flat | t->shard);
	type.partial = (uint8_t)((t->replicate | t->shard) &
				 ~st_type_axes(&type));
	type.reduction = ST_SUM;
	if (t->has_reduce_dtype)
		type.dtype = (uint8_t)t->reduce_dtype;
	return type;
}

static void
add_param_states(struct trainer *t, const struct st_state *state)
{
	struct param *param = &t->params[t->param_count++];
	const char *name = st_value_name(t->in, state->value);
	struct st_type kept = optimizer_type(t, state->value);
	struct st_type sum = accumulator_type(t, state->value);

	param->value = state->value;
	param->complete = ST_NONE;
	param->master = ST_NONE;
	param->gradient = ST_NONE;
	if (kept.dtype != st_value_type(t->in, state->value)->dtype)
		param->master = add_state(t, name, "master", &kept,
					  ST_ROLE_master, state->loc);
	param->moment1 = add_state(t, name, "exp_avg", &kept, ST_ROLE_moment1,
				   state->loc);
	param->moment2 = add_state(t, name, "exp_avg_sq", &kept,
				   ST_ROLE_moment2, state->loc);
	if (t->micro_batches > 1)
		param->gradient = add_state(t, name, "grad", &sum,
					    ST_ROLE_gradient, state->loc);
}

static void
add_batch_states(struct trainer *t)
{
	for (uint32_t i = 0; i < t->eval->inputs; i++) {
		uint32_t input = t->eval->first_input + i;
		const char *name = st_arena_printf(t->in->arena, "batch.%s",
						   st_value_name(t->in, input));

		t->batch[i] = add_state(t, name ? name : "", "",
					st_value_type(t->in, input),
					ST_ROLE_batch, t->eval->loc);
	}
}

/* The states of `in` keep their indices; those of training follow. */
static enum st_status
add_states(struct trainer *t)
{
	struct st_type count = st_type_scalar(ST_I32);
	struct st_type loss = *st_value_type(t->in, t->loss);
	size_t n = t->in->states.count;

	t->params = st_arena_array(t->in->arena, n, sizeof(*t->params));
	t->param_of = st_arena_array(t->in->arena, n, sizeof(uint32_t));
	t->batch = st_arena_array(t->in->arena, t->eval->inputs + 1,
				  sizeof(uint32_t));
	if (t->in->arena->failed)
		return st_error_memory(t->in->diag);
	for (size_t i = 0; i < n; i++) {
		const struct st_state *state = &t->in->states.at[i];

		st_module_add_state(t->out,
				    t->in->values.at[state->value].name,
				    st_value_type(t->in, state->value),
				    state->role, state->loc);
	}
	for (size_t i = 0; i < n; i++) {
		t->param_of[i] = ST_NONE;
		if (t->in->states.at[i].role != ST_ROLE_param)
			continue;
		t->param_of[i] = (uint32_t)t->param_count;
		add_param_states(t, &t->in->states.at[i]);
	}
	t->step_state = add_state(t, "step", "", &count, ST_ROLE_counter, 0);
	t->loss_state = ST_NONE;
	loss.partial = (uint8_t)(t->replicate | t->shard);
	if (t->micro_batches > 1)
		t->loss_state = add_state(t, "loss.sum", "", &loss,
					  ST_ROLE_gradient, 0);
	add_batch_states(t);
	return t->b.status;
}

static uint32_t
fill(struct trainer *t, uint32_t state, double value)
{
	st_build_float(&t->b, ST_KEY_factor, value);
	st_build_type(&t->b, 0, st_value_type(t->out, state));
	if (t->out->form == ST_LOGICAL) {
		struct st_type whole =
			st_type_whole(st_value_type(t->out, state));

		st_build_type(&t->b, 0, &whole);
	}
	return st_build(&t->b, ST_OP_fill, st_value_name(t->out, state),
			ST_NO_OPERANDS);
}

static void
keep(struct trainer *t, uint32_t value, uint32_t state)
{
	if (t->b.status == ST_OK)
		st_module_add_output(t->out, value, 0,
				     st_module_find_state(t->out, state));
}

static void
give(struct trainer *t, uint32_t value, const char *name)
{
	if (t->b.status == ST_OK)
		st_module_add_output(
			t->out, value,
			st_names_add(t->out->names, name, strlen(name)),
			ST_NONE);
}

static void
begin(struct trainer *t, const char *name, uint32_t loc)
{
	st_module_begin_entry(t->out,
			      st_names_add(t->out->names, name, strlen(name)),
			      loc);
	t->b.region = ST_FORWARD;
	t->b.loc = loc;
}

/* Copies the nodes of `init` and lets map[] lead to the new values. */
static enum st_status
make_init(struct trainer *t)
{
	struct st_grad_state copy;

	begin(t, "init", t->init->loc);
	ST_TRY(st_backward_init(&copy, t->in, t->init, &t->b));
	for (uint32_t i = 0; i < t->in->states.count; i++)
		copy.forward[i] = i;
	st_backward_forward(&copy);
	if (t->b.status != ST_OK)
		return t->b.status;
	for (uint32_t i = 0; i < t->init->outputs; i++) {
		const struct st_output *output =
			&t->in->outputs.at[t->init->first_output + i];
		uint32_t value = copy.forward[output->value], param;

		keep(t, value, t->in->states.at[output->state].value);
		param = t->param_of[output->state];
		if (param == ST_NONE || t->params[param].master == ST_NONE)
			continue;
		{
			uint32_t master = t->params[param].master;
			struct st_type type =
				st_type_whole(st_value_type(t->out, master));

			st_build_type(&t->b, 0, &type);
			keep(t,
			     st_build(&t->b, ST_OP_cast,
				      st_value_name(t->out, master),
				      ST_IN(value)),
			     master);
		}
	}
	for (size_t i = 0; i < t->param_count; i++) {
		const struct param *p = &t->params[i];

		keep(t, fill(t, p->moment1, 0.0), p->moment1);
		keep(t, fill(t, p->moment2, 0.0), p->moment2);
		if (p->gradient != ST_NONE)
			keep(t, fill(t, p->gradient, 0.0), p->gradient);
	}
	keep(t, fill(t, t->step_state, 0.0), t->step_state);
	if (t->loss_state != ST_NONE)
		keep(t, fill(t, t->loss_state, 0.0), t->loss_state);
	st_module_end_entry(t->out);
	return t->b.status;
}

static void
add_inputs(struct trainer *t, uint32_t *inputs)
{
	for (uint32_t i = 0; i < t->eval->inputs; i++) {
		uint32_t input = t->eval->first_input + i;

		inputs[i] = st_module_add_input(t->out,
						t->in->values.at[input].name,
						st_value_type(t->in, input));
		if (inputs[i] == ST_NONE && t->b.status == ST_OK)
			t->b.status = st_error(
				t->in->diag, ST_EINPUT,
				st_module_loc_at(t->in, t->eval->loc),
				"grad: the name '%%%s' is taken",
				st_value_name(t->in, input));
	}
}

/* The next batch: inputs -> batch states. */
static void
bring_batch(struct trainer *t, const uint32_t *inputs)
{
	for (uint32_t i = 0; i < t->eval->inputs; i++)
		keep(t,
		     st_build(&t->b, ST_OP_copy,
			      st_value_name(t->out, t->batch[i]),
			      ST_IN(inputs[i])),
		     t->batch[i]);
}

static enum st_status
make_prologue(struct trainer *t)
{
	uint32_t *inputs = st_arena_array(t->in->arena, t->eval->inputs + 1,
					  sizeof(uint32_t));

	if (!inputs)
		return st_error_memory(t->in->diag);
	begin(t, "prologue", t->eval->loc);
	add_inputs(t, inputs);
	bring_batch(t, inputs);
	st_module_end_entry(t->out);
	return t->b.status;
}

/* Brings the gradient of a param to where it is kept: the accumulator, or
 * straight to the spread of the optimizer. */
static void
param_done(void *user, uint32_t value, uint32_t gradient)
{
	struct trainer *t = user;
	struct param *param = &t->params[t->param_of[value]];
	struct st_type type = optimizer_type(t, value);
	const char *name = st_arena_printf(t->in->arena, "%s.g",
					   st_value_name(t->in, value));

	if (!name)
		return;
	if (param->gradient != ST_NONE)
		type = accumulator_type(t, value);
	type.dtype = st_value_type(t->out, gradient)->dtype;
	st_build_type(&t->b, 0, &type);
	gradient = st_build(&t->b, ST_OP_reshard, name, ST_IN(gradient));
	if (param->gradient != ST_NONE)
		gradient = st_build(&t->b, ST_OP_sum, name,
				    ST_IN(param->gradient, gradient));
	param->complete = gradient;
}

/* Forward and backward over the current batch; returns the loss of the new
 * module. */
static uint32_t
make_body(struct trainer *t)
{
	struct st_grad_state s;
	uint32_t *inputs = st_arena_array(t->in->arena, t->eval->inputs + 1,
					  sizeof(uint32_t));

	if (!inputs || st_backward_init(&s, t->in, t->eval, &t->b) != ST_OK) {
		t->b.status = ST_EDEVICE;
		return ST_NONE;
	}
	s.recompute = t->recompute;
	s.reduce_dtype = t->reduce_dtype;
	s.reduce_dtype_set = (uint8_t)t->has_reduce_dtype;
	s.loss_factor = 1.0 / (double)t->micro_batches;
	s.param_done = param_done;
	s.user = t;
	for (uint32_t i = 0; i < t->in->states.count; i++)
		s.forward[i] = i;
	add_inputs(t, inputs);
	for (uint32_t i = 0; i < t->eval->inputs; i++) {
		const char *name = st_arena_printf(
			t->in->arena, "%s.now",
			st_value_name(t->in, t->eval->first_input + i));

		s.forward[t->eval->first_input + i] =
			st_build(&t->b, ST_OP_copy, name ? name : "",
				 ST_IN(t->batch[i]));
	}
	bring_batch(t, inputs);
	st_backward_forward(&s);
	if (t->b.status == ST_OK)
		st_backward_run(&s, t->loss);
	return t->b.status == ST_OK ? s.forward[t->loss] : ST_NONE;
}

/* loss.sum + this micro-batch's loss, still partial over data parallelism. */
static uint32_t
add_loss(struct trainer *t, uint32_t loss)
{
	if (t->loss_state == ST_NONE || t->b.status != ST_OK)
		return loss;
	st_build_type(&t->b, 0, st_value_type(t->out, t->loss_state));
	loss = st_build(&t->b, ST_OP_reshard, "loss.part", ST_IN(loss));
	return st_build(&t->b, ST_OP_sum, "loss.sum",
			ST_IN(t->loss_state, loss));
}

static enum st_status
make_accumulate(struct trainer *t)
{
	uint32_t loss;

	begin(t, "accumulate", t->eval->loc);
	loss = add_loss(t, make_body(t));
	for (size_t i = 0; i < t->param_count; i++)
		if (t->params[i].complete != ST_NONE)
			keep(t, t->params[i].complete, t->params[i].gradient);
	keep(t, loss, t->loss_state);
	st_module_end_entry(t->out);
	return t->b.status;
}

/* From the accumulators to the spread of the optimizer. */
static void
reduce_accumulators(struct trainer *t)
{
	for (size_t i = 0; i < t->param_count; i++) {
		struct param *p = &t->params[i];
		struct st_type type = optimizer_type(t, p->value);

		if (p->gradient == ST_NONE || p->complete == ST_NONE)
			continue;
		type.dtype = st_value_type(t->out, p->complete)->dtype;
		st_build_type(&t->b, 0, &type);
		p->complete = st_build(&t->b, ST_OP_reshard,
				       st_value_name(t->out, p->complete),
				       ST_IN(p->complete));
		if (t->b.status != ST_OK)
			return;
	}
}

/* Sum over any number of scalars. */
static uint32_t
sum_all(struct trainer *t, uint32_t *values, size_t count)
{
	while (count > 1) {
		size_t made = 0;

		for (size_t i = 0; i < count; i += ST_MAX_OPERANDS) {
			size_t n = count - i < ST_MAX_OPERANDS
					   ? count - i
					   : ST_MAX_OPERANDS;

			values[made++] = st_build(&t->b, ST_OP_sum,
						  "grad_norm.sumsq",
						  values + i, n);
		}
		count = made;
	}
	return values[0];
}

/* The factor of all gradients; *norm is the global norm. */
static uint32_t
clip(struct trainer *t, uint32_t *norm)
{
	uint32_t *squares = st_arena_array(t->in->arena, t->param_count + 1,
					   sizeof(uint32_t));
	struct st_type type;
	uint32_t clipped, total;
	size_t n = 0;

	if (!squares) {
		t->b.status = st_error_memory(t->in->diag);
		return ST_NONE;
	}
	for (size_t i = 0; i < t->param_count; i++) {
		const struct param *p = &t->params[i];
		const char *name = st_arena_printf(
			t->in->arena, "%s.sumsq",
			st_value_name(t->in, p->value));

		if (p->complete != ST_NONE)
			squares[n++] = st_build(&t->b, ST_OP_sumsq,
						name ? name : "",
						ST_IN(p->complete));
	}
	if (n == 0 && t->b.status == ST_OK)
		t->b.status = st_error(t->in->diag, ST_EINPUT,
				       st_module_loc_at(t->in, t->eval->loc),
				       "grad: no param reaches the loss");
	if (t->b.status != ST_OK)
		return ST_NONE;
	total = sum_all(t, squares, n);
	st_build_float(&t->b, ST_KEY_max_norm, t->grad_clip);
	clipped = st_build(&t->b, ST_OP_clip, "clip,grad_norm", ST_IN(total));
	*norm = clipped + 1;
	if (t->grad_clip > 0 || t->b.status != ST_OK)
		return clipped;
	/* Without clipping no update waits for the norm. */
	type = *st_value_type(t->out, clipped);
	st_build_float(&t->b, ST_KEY_factor, 1.0);
	st_build_type(&t->b, 0, &type);
	return st_build(&t->b, ST_OP_fill, "clip.none", ST_NO_OPERANDS);
}

static void
update(struct trainer *t, const struct param *p, uint32_t factor,
       uint32_t rate, uint32_t count)
{
	const struct st_option_value *o = t->in->options;
	uint32_t weights = p->master == ST_NONE ? p->value : p->master;
	struct st_type type = *st_value_type(t->out, p->value);
	const char *name = st_value_name(t->out, p->value);
	const char *names = st_arena_printf(
		t->in->arena, "%s,%s,%s", st_value_name(t->out, weights),
		st_value_name(t->out, p->moment1),
		st_value_name(t->out, p->moment2));
	int matrix = st_type_rank(&type) >= 2;
	uint32_t fresh, next;

	st_build_float(&t->b, ST_KEY_beta1, o[ST_OPTION_beta1].f);
	st_build_float(&t->b, ST_KEY_beta2, o[ST_OPTION_beta2].f);
	st_build_float(&t->b, ST_KEY_eps, o[ST_OPTION_adam_eps].f);
	st_build_float(&t->b, ST_KEY_decay,
		       matrix ? o[ST_OPTION_weight_decay].f : 0.0);
	fresh = st_build(&t->b, ST_OP_adamw, names ? names : "",
			 ST_IN(weights, p->complete, p->moment1, p->moment2,
			       factor, rate, count));
	keep(t, fresh + 1, p->moment1);
	keep(t, fresh + 2, p->moment2);
	next = fresh;
	if (p->master != ST_NONE) {
		struct st_type whole = st_type_whole(&type);

		keep(t, fresh, p->master);
		st_build_type(&t->b, 0, &whole);
		next = st_build(&t->b, ST_OP_cast, name, ST_IN(fresh));
	}
	keep(t, next, p->value);
}

static void
optimize(struct trainer *t)
{
	const struct st_option_value *o = t->in->options;
	struct st_type rate_type;
	uint32_t norm = ST_NONE, factor, count, rate;

	t->b.region = ST_OPTIMIZER;
	t->b.loc = 0;
	reduce_accumulators(t);
	factor = t->b.status == ST_OK ? clip(t, &norm) : ST_NONE;
	if (factor == ST_NONE)
		return;
	count = st_build(&t->b, ST_OP_step_count, "step", ST_IN(t->step_state));
	rate_type = *st_value_type(t->out, factor);
	st_build_float(&t->b, ST_KEY_rate, o[ST_OPTION_lr].f);
	st_build_float(&t->b, ST_KEY_floor, o[ST_OPTION_lr_min].f);
	st_build_int(&t->b, ST_KEY_warmup, o[ST_OPTION_warmup_steps].i);
	st_build_int(&t->b, ST_KEY_total, o[ST_OPTION_total_steps].i);
	st_build_type(&t->b, 0, &rate_type);
	rate = st_build(&t->b, ST_OP_learning_rate, "lr", ST_IN(count));
	for (size_t i = 0; i < t->param_count; i++)
		if (t->params[i].complete != ST_NONE)
			update(t, &t->params[i], factor, rate, count);
	keep(t, count, t->step_state);
	give(t, norm, "grad_norm");
	give(t, rate, "lr");
}

static enum st_status
make_step(struct trainer *t)
{
	uint32_t loss;

	begin(t, "step", t->eval->loc);
	loss = add_loss(t, make_body(t));
	if (t->b.status == ST_OK)
		optimize(t);
	if (t->loss_state != ST_NONE && t->b.status == ST_OK) {
		for (size_t i = 0; i < t->param_count; i++)
			keep(t, fill(t, t->params[i].gradient, 0.0),
			     t->params[i].gradient);
		keep(t, fill(t, t->loss_state, 0.0), t->loss_state);
	}
	give(t, loss, "loss");
	st_module_end_entry(t->out);
	return t->b.status;
}

static enum st_status
make_eval(struct trainer *t)
{
	struct st_grad_state copy;

	begin(t, "eval", t->eval->loc);
	ST_TRY(st_backward_init(&copy, t->in, t->eval, &t->b));
	for (uint32_t i = 0; i < t->in->states.count; i++)
		copy.forward[i] = i;
	add_inputs(t, &copy.forward[t->eval->first_input]);
	st_backward_forward(&copy);
	for (uint32_t i = 0; i < t->eval->outputs; i++) {
		const struct st_output *output =
			&t->in->outputs.at[t->eval->first_output + i];

		if (t->b.status == ST_OK)
			st_module_add_output(t->out,
					     copy.forward[output->value],
					     output->name, output->state);
	}
	st_module_end_entry(t->out);
	return t->b.status;
}

enum st_status
st_pass_grad(struct st_pass_context *cx, const struct st_module *in,
	     struct st_module **out)
{
	struct trainer t;

	memset(&t, 0, sizeof(t));
	t.in = in;
	ST_TRY(read_options(&t));
	ST_TRY(find_entries(&t));
	t.out = st_module_create_like(in);
	if (!t.out)
		return st_error_memory(in->diag);
	st_build_init(&t.b, t.out);
	ST_TRY(add_states(&t));
	ST_TRY(make_init(&t));
	ST_TRY(make_prologue(&t));
	if (t.micro_batches > 1)
		ST_TRY(make_accumulate(&t));
	ST_TRY(make_step(&t));
	ST_TRY(make_eval(&t));
	cx->changes = (int64_t)t.out->nodes.count - (int64_t)in->nodes.count;
	*out = t.out;
	return ST_OK;
}
