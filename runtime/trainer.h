#ifndef ST_TRAINER_H
#define ST_TRAINER_H

/*
 * Steps over a dataset: feeds a session batch by batch.
 *
 * A step trains on the batch that the call before brought, while the plan
 * copies the next one; the trainer draws one ahead.  Which rows a step sees
 * depends on its number alone, not on the layout of ranks.
 */

#include <signal.h>

#include "runtime/dataset.h"
#include "runtime/session.h"

struct st_trainer {
	struct st_session *session;
	struct st_diag *diag;
	const struct st_module *module;
	const struct st_dataset *dataset;
	uint32_t init, prologue, accumulate, step, eval; /* entries or none */
	int64_t rows, seq_len;   /* of one micro-batch, all ranks together */
	int64_t micro_batches;
	/* Ends an evaluation between two batches; NULL: nothing does. */
	const volatile sig_atomic_t *stop;
	int64_t next_batch; /* number of the micro-batch to be drawn next */
	int32_t *tokens, *targets;
};

struct st_step_result {
	double loss, grad_norm, lr;
};

/* The module must have init, prologue and step with inputs `tokens` and
 * `targets`.  Runs `init`; memory is in arena. */
enum st_status st_trainer_begin(struct st_trainer *trainer,
				struct st_arena *arena, struct st_diag *diag,
				struct st_session *session,
				const struct st_module *module,
				const struct st_dataset *dataset);

/* All micro-batches of one optimizer step. */
enum st_status st_trainer_step(struct st_trainer *trainer,
			       struct st_step_result *result);

/* Mean loss over the held-out windows, at most `most` batches (0: all);
 * *batches is how many there were. */
enum st_status st_trainer_evaluate(struct st_trainer *trainer, int64_t most,
				   double *loss, int64_t *batches);

#endif
