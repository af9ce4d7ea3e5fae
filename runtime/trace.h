#ifndef ST_TRACE_H
#define ST_TRACE_H

/*
 * When each node of an entry ran on one rank: predicted by the cost model or
 * measured by a session, in one form.
 *
 * Lane 0 computes; each other lane is one set of mesh axes that collectives
 * run over, and on no lane do events overlap.  A start is shown by its
 * transfer and a wait not at all: while the compute lane waits, it has no
 * event.  Times are picoseconds from the begin of the entry.
 */

#include "passes/explain.h"
#include "runtime/session.h"

enum { ST_TRACE_MAX_LANES = 1 + (1 << ST_MAX_AXES) };

struct st_trace_event {
	const char *node; /* name of its first result, without '%' */
	int64_t begin, end;
	int64_t bytes; /* of a collective: of the whole buffer */
	uint16_t op;   /* enum st_op */
	uint8_t region; /* enum st_region */
	uint8_t lane;
	struct st_loc loc; /* in the file that it was read from */
};

struct st_trace {
	const char *kind; /* "predicted", "measured" or "emulated" */
	const char *machine; /* that was predicted for, or "" */
	int64_t rank, ranks;
	const char *lanes[ST_TRACE_MAX_LANES];
	int lane_count;
	struct st_trace_event *at;
	uint32_t count;
	int64_t step; /* from the first begin to the last end */
};

/* What `explanation` says of the entry; the same for every rank. */
enum st_status st_trace_predict(const struct st_module *module,
				const struct st_entry *entry,
				const struct st_explanation *explanation,
				struct st_trace *trace);

/* The last run of the entry; the session must have been opened with
 * `trace`. */
enum st_status st_trace_measure(const struct st_session *session,
				const struct st_module *module, uint32_t entry,
				int64_t rank, struct st_trace *trace);

struct st_trace_sums {
	int64_t compute; /* time in which the compute lane is busy */
	int64_t comm;    /* time in which any other is */
	int64_t both;
	int64_t busy[ST_TRACE_MAX_LANES];
	int64_t alone[ST_TRACE_MAX_LANES]; /* a lane's, beside no compute */
};
enum st_status st_trace_sum(struct st_arena *arena,
			    const struct st_trace *trace,
			    struct st_trace_sums *sums);

/* Computation while communicating over communication, in percent, as
 * HolisticTraceAnalysis defines its overlap; 0 without communication. */
double st_trace_hta_overlap_pct(const struct st_trace_sums *sums);

/* Chrome's JSON, one rank a text: Perfetto and HolisticTraceAnalysis read
 * it. */
enum st_status st_trace_write(struct st_arena *arena,
			      const struct st_trace *trace, char **text,
			      size_t *length);

/* What st_trace_write wrote, or ST_EINPUT with a located message. */
enum st_status st_trace_read(struct st_arena *arena, struct st_diag *diag,
			     uint32_t source, const char *text, size_t length,
			     struct st_trace *trace);

/* Lanes as lines of `width` columns, from `from` to `to` ps (0: the end). */
struct st_timeline {
	int width, ascii;
	int64_t from, to;
};
enum st_status st_timeline_draw(struct st_arena *arena,
				const struct st_trace *trace,
				const struct st_timeline *options,
				struct st_buffer *out);

#endif
