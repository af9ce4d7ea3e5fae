#ifndef ST_WEIGHTS_H
#define ST_WEIGHTS_H

/* Params of a session from and to safetensors files, under their own names
 * (those of Hugging Face). */

#include "runtime/session.h"

/*
 * Every param must be there with its shape; the file may hold more,
 * which is a warning.  Names
 * may carry the prefix "transformer." of GPT-2 files.  Master copies are set
 * from the params; other optimizer state is left alone.  dtypes are converted
 * between f64, f32 and bf16.
 */
enum st_status st_weights_load(struct st_session *session,
			       struct st_arena *arena, struct st_diag *diag,
			       const struct st_module *module,
			       const char *path);

/* Whole tensors, in the dtype and order of the module. */
enum st_status st_weights_save(struct st_session *session,
			       struct st_arena *arena, struct st_diag *diag,
			       const struct st_module *module,
			       const char *path);

#endif
