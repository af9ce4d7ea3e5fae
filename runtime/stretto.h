#ifndef STRETTO_H
#define STRETTO_H

/*
 * stretto as a library: compile a model description once, replay its steps
 * from any trainer.
 *
 *   stretto_plan *plan;
 *   stretto_session *session;
 *   stretto_compile("net.yaml", NULL, 0, &plan);
 *   stretto_open(plan, NULL, &session);
 *   stretto_bind(session, "tokens", tokens, bytes);      whole batch, int32
 *   stretto_bind(session, "targets", targets, bytes);
 *   stretto_bind(session, "loss", &loss, sizeof loss);   f32 or f64 scalar
 *   stretto_capture(session);                            runs `init`
 *   fill(tokens, targets); stretto_replay(session, "prologue", NULL);
 *   for (;;) {
 *     fill(tokens, targets);                             the next batch
 *     stretto_replay(session, "step", NULL);             trains on the last
 *   }
 *   stretto_close(session);
 *   stretto_free(plan);
 *
 * Every function that can fail returns one of enum stretto_status (0 is
 * success); stretto_last_error then holds the message of this thread.  The
 * library never prints, exits or aborts.  Tensors are exchanged whole:
 * row-major, without padding, whatever the layout of ranks.  A session is
 * used by one thread at a time; different sessions are independent.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum stretto_status {
	STRETTO_OK = 0,
	STRETTO_CHECK_FAILED = 1,
	STRETTO_USAGE = 2,
	STRETTO_BAD_INPUT = 3,
	STRETTO_INFEASIBLE = 4, /* the mesh or the memory does not allow it */
	STRETTO_DEVICE = 5,     /* device, driver or out of memory */
	STRETTO_COMMUNICATION = 6,
	STRETTO_TIMEOUT = 7,
};

typedef struct stretto_plan stretto_plan;
typedef struct stretto_session stretto_session;

/* "0.1.0". */
const char *stretto_version(void);

/* The last failure on this thread: one or more rendered messages, ended by
 * newlines; "" if nothing has failed.  Valid until the thread's next call. */
const char *stretto_last_error(void);

/* Compiles a YAML net; sets[] are "a.b=value" strings that override keys. */
int stretto_compile(const char *path, const char *const *sets,
		    size_t set_count, stretto_plan **plan);

/* Loads IR text of any stage, from a file or from memory; passes that are
 * still to come are run. */
int stretto_load(const char *path, stretto_plan **plan);
int stretto_load_text(const char *text, size_t length, stretto_plan **plan);

/* The plan as IR text; owned by the plan. */
int stretto_plan_text(const stretto_plan *plan, const char **text,
		      size_t *length);

/* Ranks of the plan's mesh, params without padding, arena of one rank. */
struct stretto_plan_info {
	size_t struct_size; /* set to sizeof(struct stretto_plan_info) */
	int64_t ranks, parameters, nodes, arena_bytes;
};
int stretto_plan_info(const stretto_plan *plan,
		      struct stretto_plan_info *info);

/* Accepts NULL; sessions must be closed first. */
void stretto_free(stretto_plan *plan);

struct stretto_options {
	size_t struct_size; /* set to sizeof(struct stretto_options) */
	int reference;      /* plain kernels instead of the fast ones */
	int timeout_ms;     /* for ranks to meet; 0: for ever */
};

/* Opens the plan on the CPU: ranks are threads of this process.  options may
 * be NULL. */
int stretto_open(const stretto_plan *plan,
		 const struct stretto_options *options,
		 stretto_session **session);

/* Lends memory for an input (read at the beginning of each replay) or an
 * output (written at its end) of that name in any entry.  bytes is the size
 * of the whole tensor.  Names that no entry has (the message names those that
 * there are), other sizes and NULL are STRETTO_USAGE. */
int stretto_bind(stretto_session *session, const char *name, void *data,
		 size_t bytes);

/* Prepares replays and runs `init`: params and optimizer state begin.
 *
 * The order: open, capture; then load_weights, save_weights, read and write
 * in any order, which before are STRETTO_USAGE; then replay of `prologue`,
 * without which `step` and `accumulate` are STRETTO_USAGE too.  bind comes
 * before the replay that needs it.  Another capture begins anew. */
int stretto_capture(stretto_session *session);

/*
 * Runs an entry: prologue, accumulate, step, eval.  Every input of it must be
 * bound.  stream must be NULL on the CPU.  Allocates nothing.
 *
 * A run that fails in a rank (a token outside the vocabulary, a timeout) ends
 * the session: it can only be closed, and every later capture, replay, read,
 * write, load and save returns the first status and reason.
 */
int stretto_replay(stretto_session *session, const char *entry, void *stream);

/* Whole states by name, such as a param; bytes is their size. */
int stretto_read(stretto_session *session, const char *state, void *data,
		 size_t bytes);
int stretto_write(stretto_session *session, const char *state,
		  const void *data, size_t bytes);

/* Params from and to safetensors, under their Hugging Face names.  Keeps no
 * memory behind. */
int stretto_load_weights(stretto_session *session, const char *path);
int stretto_save_weights(stretto_session *session, const char *path);

/* Accepts NULL. */
void stretto_close(stretto_session *session);

#ifdef __cplusplus
}
#endif

#endif
