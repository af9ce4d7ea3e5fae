#ifndef ST_TRAIN_HARNESS_H
#define ST_TRAIN_HARNESS_H

/* Compiles small nets from text and runs them on made-up batches. */

#include "models/model.h"
#include "passes/pass.h"
#include "runtime/session.h"

enum { RUN_SETS = 24 };

struct run {
	struct st_arena arena;
	struct st_diag diag;
	struct st_names names;
	struct st_module *module; /* the plan */
	struct st_session *session;
	uint32_t init, prologue, accumulate, step, eval;
	int64_t rows, length; /* of one micro-batch */
	int64_t micro_batches, vocabulary;
	int64_t fed; /* micro-batches so far */
	int32_t *tokens, *targets;
};

/* Plain kernels for what is opened from now on. */
extern int run_reference;
/* Keep the times of the nodes likewise. */
extern int run_trace;

/* sets: "a.b=c d.e=f".  Messages go to stderr; 0 on success. */
int run_open(struct run *run, const char *yaml, const char *sets);
/* Only the logical module; run_close frees it. */
int run_lower(struct run *run, const char *yaml, const char *sets,
	      struct st_module **module);
int run_open_ir(struct run *run, const char *text, int64_t vocabulary);
void run_close(struct run *run);

/* One optimizer step over the next global batch; the batch depends on the
 * step alone, not on how it is cut into micro-batches or ranks. */
int run_step(struct run *run, double *loss);

/* Loss of the first micro-batch under the params as they are. */
int run_eval(struct run *run, double *loss);

/* How many nodes of an op an entry has. */
int run_count(const struct run *run, uint32_t entry, enum st_op op);

/* Results of the program: call check for each assertion, finish at the end of
 * main. */
void check(int ok, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
int finish(void);

extern const char net_gpt2[], net_llama[];

#endif
