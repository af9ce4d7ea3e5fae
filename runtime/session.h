#ifndef ST_SESSION_H
#define ST_SESSION_H

/*
 * A plan in execution on the CPU: ranks are threads of this process.
 *
 * Opening compiles every entry into launch records for each rank and
 * allocates one arena a rank; running an entry allocates nothing.  Inputs,
 * outputs and states are exchanged as whole tensors (row-major, without
 * padding); the session cuts them and puts them together.
 *
 * One thread at a time may call into a session.  A run that failed
 * ends the session: later ones do nothing but say why it ended, and it can
 * only be closed.  All messages go to the diag it was opened with, never to
 * that of the module, which several sessions may share.
 */

#include "ir/graph.h"
#include "runtime/collective.h"

struct st_session;

struct st_session_options {
	int reference;  /* plain kernels instead of the fast ones */
	int timeout_ms; /* for ranks to meet in a collective; 0: for ever */
	int64_t largest_mesh; /* more ranks are refused; 0: 256 */
	struct st_link link;  /* emulated, of every group; 0: none */
	int trace;            /* keep the times of the last run */
	int no_collectives;   /* leave them out, to time computation alone */
};

/* module must be ranked and laid out by `memory`, and must outlive the
 * session, as must arena and diag. */
enum st_status st_session_open(struct st_arena *arena, struct st_diag *diag,
			       const struct st_module *module,
			       const struct st_session_options *options,
			       struct st_session **session);
void st_session_close(struct st_session *session);

/* Runs an entry on all ranks and waits for them. */
enum st_status st_session_run(struct st_session *session, uint32_t entry);

/* A whole input tensor for the next run of an entry; bytes must be its
 * size. */
enum st_status st_session_write_input(struct st_session *session,
				      uint32_t entry, const char *name,
				      const void *data, size_t bytes);

/* A whole output of the entry that ran last. */
enum st_status st_session_read_output(struct st_session *session,
				      uint32_t entry, const char *name,
				      void *data, size_t bytes);

/* A scalar output, of f32 or f64, as a double. */
enum st_status st_session_read_scalar(struct st_session *session,
				      uint32_t entry, const char *name,
				      double *value);

/* Whole states, by index in module->states; partial ones are refused. */
enum st_status st_session_read_state(struct st_session *session,
				     uint32_t state, void *data);
enum st_status st_session_write_state(struct st_session *session,
				      uint32_t state, const void *data);

/* Nanoseconds that rank 0 has spent in nodes of an op since it was opened,
 * and how often; collectives include waiting. */
int64_t st_session_op_ns(const struct st_session *session, enum st_op op);

/* Times of the nodes of the run before, by place in its entry, in monotonic
 * nanoseconds; of a start those of its transfer.  NULL without `trace`. */
struct st_trace_time {
	int64_t begin, end;
};
const struct st_trace_time *
st_session_trace(const struct st_session *session, int64_t rank,
		 uint32_t entry);

/* Bytes of one rank's arena. */
int64_t st_session_arena_bytes(const struct st_session *session);

#endif
