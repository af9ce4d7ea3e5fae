/* The loop over batches. */

#include "runtime/trainer.h"

#include <string.h>

enum { MOST_MICRO_BATCHES = 1 << 20 }; /* as many as a net may have */

static enum st_status
check_entries(struct st_trainer *t)
{
	const struct st_module *m = t->module;
	const struct st_entry *step;
	const struct st_type *type;

	t->init = st_module_find_entry(m, "init");
	t->prologue = st_module_find_entry(m, "prologue");
	t->accumulate = st_module_find_entry(m, "accumulate");
	t->step = st_module_find_entry(m, "step");
	t->eval = st_module_find_entry(m, "eval");
	if (t->init == ST_NONE || t->prologue == ST_NONE || t->step == ST_NONE)
		return st_error(t->diag, ST_EINPUT, st_no_loc(),
				"train: the plan has no entries init, "
				"prologue and step");
	step = &m->entries.at[t->step];
	if (step->inputs != 2)
		return st_error(t->diag, ST_EINPUT,
				st_module_loc_at(m, step->loc),
				"train: entry step must take tokens and "
				"targets");
	type = st_value_type(m, step->first_input);
	if (type->dtype != ST_I32 || type->factors != 2)
		return st_error(t->diag, ST_EINPUT,
				st_module_loc_at(m, step->loc),
				"train: tokens must be i32[batch, length]");
	t->rows = type->f[0].size;
	t->seq_len = type->f[1].size;
	t->micro_batches = m->options[ST_OPTION_micro_batches].i;
	if (t->micro_batches < 1 || t->micro_batches > MOST_MICRO_BATCHES ||
	    (t->micro_batches > 1) != (t->accumulate != ST_NONE))
		return st_error(t->diag, ST_EINPUT,
				st_module_loc_at(m, step->loc),
				"train: %lld micro-batches, but the plan has "
				"%s entry accumulate",
				(long long)t->micro_batches,
				t->accumulate == ST_NONE ? "no" : "an");
	return ST_OK;
}

/* Draws the next training batch into the inputs of an entry. */
static enum st_status
feed(struct st_trainer *t, uint32_t entry, const struct st_batch *batch)
{
	size_t bytes = (size_t)(t->rows * t->seq_len) * sizeof(int32_t);

	ST_TRY(st_dataset_batch(t->dataset, t->diag, batch, t->tokens,
				t->targets));
	ST_TRY(st_session_write_input(t->session, entry, "tokens", t->tokens,
				      bytes));
	return st_session_write_input(t->session, entry, "targets", t->targets,
				      bytes);
}

static enum st_status
feed_next(struct st_trainer *t, uint32_t entry)
{
	struct st_batch batch = {
		.split = ST_SPLIT_TRAIN,
		.step = t->next_batch++,
		.global_rows = t->rows,
		.rows = t->rows,
		.seq_len = t->seq_len,
	};

	ST_TRY(feed(t, entry, &batch));
	return st_session_run(t->session, entry);
}

enum st_status
st_trainer_begin(struct st_trainer *t, struct st_arena *arena,
		 struct st_diag *diag, struct st_session *session,
		 const struct st_module *module,
		 const struct st_dataset *dataset)
{
	size_t n;

	memset(t, 0, sizeof(*t));
	t->session = session;
	t->diag = diag;
	t->module = module;
	t->dataset = dataset;
	ST_TRY(check_entries(t));
	n = (size_t)(t->rows * t->seq_len);
	t->tokens = st_arena_array(arena, n, sizeof(int32_t));
	t->targets = st_arena_array(arena, n, sizeof(int32_t));
	if (!t->tokens || !t->targets)
		return st_error_memory(diag);
	return st_session_run(session, t->init);
}

enum st_status
st_trainer_step(struct st_trainer *t, struct st_step_result *result)
{
	if (t->next_batch == 0)
		ST_TRY(feed_next(t, t->prologue));
	for (int64_t i = 1; i < t->micro_batches; i++)
		ST_TRY(feed_next(t, t->accumulate));
	ST_TRY(feed_next(t, t->step));
	ST_TRY(st_session_read_scalar(t->session, t->step, "loss",
				      &result->loss));
	ST_TRY(st_session_read_scalar(t->session, t->step, "grad_norm",
				      &result->grad_norm));
	return st_session_read_scalar(t->session, t->step, "lr", &result->lr);
}

enum st_status
st_trainer_evaluate(struct st_trainer *t, int64_t most, double *loss,
		    int64_t *batches)
{
	int64_t windows = st_dataset_windows(t->dataset, ST_SPLIT_HELD_OUT,
					     t->seq_len);
	int64_t count = windows / t->rows;
	double sum = 0, one;

	if (most > 0 && most < count)
		count = most;
	*batches = 0;
	*loss = 0;
	if (t->eval == ST_NONE || count == 0)
		return ST_OK;
	for (int64_t i = 0; i < count && !(t->stop && *t->stop); i++) {
		struct st_batch batch = {
			.split = ST_SPLIT_HELD_OUT,
			.step = i,
			.global_rows = t->rows,
			.rows = t->rows,
			.seq_len = t->seq_len,
		};

		ST_TRY(feed(t, t->eval, &batch));
		ST_TRY(st_session_run(t->session, t->eval));
		ST_TRY(st_session_read_scalar(t->session, t->eval, "loss",
					      &one));
		sum += one;
		++*batches;
	}
	*loss = *batches ? sum / (double)*batches : 0;
	return ST_OK;
}
