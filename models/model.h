#ifndef ST_MODEL_H
#define ST_MODEL_H

/*
 * From a YAML description to a logical module.
 *
 * A net (models/nets) names a family (models/families) or lists its layers
 * itself; the result is one module with the entries `init` (fills every
 * param) and `eval` (tokens, targets -> loss), the spreads of params, inputs
 * and marked activations, and the options that the passes read.  Every
 * message leads back to a line of the YAML.
 */

#include "ir/ir.h"

struct st_model; /* in the arena it was loaded with */

/*
 * Reads a net.  path is what messages show; text may be NULL: the file is
 * read then.  sets[] are "a.b=value" strings that override keys, in order.
 * Families are looked up beside the net (../families), then in each
 * directory of `search` (NULL-terminated).  ST_EINPUT with located messages;
 * ST_EINFEASIBLE for meshes and sizes that cannot be.
 */
struct st_model_source {
	const char *path;
	const char *text;
	size_t length;
	const char *const *sets;
	size_t set_count;
	const char *const *search;
};
enum st_status st_model_load(struct st_arena *arena, struct st_diag *diag,
			     struct st_names *names,
			     const struct st_model_source *source,
			     struct st_model **model);

/* The logical module. */
enum st_status st_model_lower(struct st_model *model,
			      struct st_module **module);

/* What the trainer needs besides the module. */
struct st_model_training {
	int64_t seq_len;
	int64_t micro_batch_size; /* sequences of one data-parallel rank */
	int64_t micro_batches;    /* for one optimizer step */
	int64_t global_batch_size;
	int64_t steps; /* 0: not stated */
	int64_t vocab_size;
	int64_t seed;
	const char *data; /* path, as stated; "" if not */
	const char *device; /* cpu, cuda, auto; "" if not stated */
};
void st_model_training(const struct st_model *model,
		       struct st_model_training *training);

/* target.machine: a name or path for st_machine_load; "" if not stated. */
const char *st_model_machine(const struct st_model *model);

/* Every key with its value and where that came from ("default", "--set",
 * file:line), as YAML that loads to the same model. */
void st_model_print(const struct st_model *model, struct st_buffer *out);

#endif
