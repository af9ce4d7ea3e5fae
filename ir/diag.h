#ifndef ST_DIAG_H
#define ST_DIAG_H

/*
 * Status codes and located messages.
 *
 * A function that can fail returns enum st_status and has put the reason
 * into the st_diag it was given.  Statuses are also the exit codes of the
 * command-line program.  Nothing here prints: the caller renders a message
 * with st_diag_render and decides where it goes.
 *
 * A location is (source, line, column), all from 1; source 0 means that no
 * location is known.  Locations travel with the nodes of the graph, so an
 * error found passes later still leads back into the YAML.  In data files
 * (safetensors, token files) line is 0 and column holds nothing: their
 * offset is kept in `offset`.
 */

#include <stddef.h>
#include <stdint.h>

#include "ir/arena.h"

/* X(name, exit code, text) */
#define ST_STATUSES(X)                                     \
	X(OK, 0, "ok")                                     \
	X(ECHECK, 1, "check failed")                       \
	X(EUSAGE, 2, "usage")                              \
	X(EINPUT, 3, "bad input")                          \
	X(EINFEASIBLE, 4, "infeasible")                    \
	X(EDEVICE, 5, "device, driver or memory")          \
	X(ECOMM, 6, "communication")                       \
	X(ETIMEOUT, 7, "timeout")

enum st_status {
#define X(name, code, text) ST_##name = (code),
	ST_STATUSES(X)
#undef X
};

/* Propagates a failure; the message has been given where it arose. */
#define ST_TRY(call)                                      \
	do {                                              \
		enum st_status st_try_ = (call);          \
		if (st_try_ != ST_OK)                     \
			return st_try_;                   \
	} while (0)

struct st_loc {
	uint32_t source; /* index from st_diag_add_source; 0: unknown */
	uint32_t line;   /* from 1; 0: `offset` counts */
	uint32_t column; /* from 1, in bytes */
	uint32_t length; /* bytes to underline; 0 counts as 1 */
	uint64_t offset; /* for data files */
};

enum st_severity { ST_ERROR, ST_WARNING, ST_NOTE };

struct st_message {
	enum st_severity severity;
	enum st_status status;
	struct st_loc loc;
	const char *text;
};

struct st_source {
	const char *name; /* as the user gave it: "nets/tiny.yaml", "-" */
	const char *text; /* whole text, for the quoted line; may be NULL */
	size_t length;
};

struct st_diag {
	struct st_arena *arena;
	struct st_message *messages;
	size_t count, capacity;
	struct st_source *sources; /* sources[0] is unused */
	size_t source_count, source_capacity;
	size_t errors;
	int full; /* memory ran out while reporting */
};

void st_diag_init(struct st_diag *diag, struct st_arena *arena);

/* Copies name and text into the arena; returns the index for st_loc, or 0
 * when memory is exhausted. */
uint32_t st_diag_add_source(struct st_diag *diag, const char *name,
			    const char *text, size_t length);

/* Makes the locations of another diag mean the same in this one, which has no
 * sources yet.  Texts stay where they are; 0 without memory. */
int st_diag_share_sources(struct st_diag *diag, const struct st_diag *from);

/* Adds an error and returns status, so that a caller can write
 * `return st_error(...)`. */
enum st_status st_error(struct st_diag *diag, enum st_status status,
			struct st_loc loc, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

void st_warn(struct st_diag *diag, struct st_loc loc, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Explains the message before it: "in layer 'h.3', lowered here". */
void st_note(struct st_diag *diag, struct st_loc loc, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* ST_EDEVICE with "out of memory". */
enum st_status st_error_memory(struct st_diag *diag);

/* "file:line:col: error: text", the source line and a caret, each line ended
 * by a newline.  Data files: "file:offset: error: text".  No location:
 * "stretto: error: text".  In diag's arena; never NULL. */
const char *st_diag_render(struct st_diag *diag, size_t index);

/* "bad input" and so on. */
const char *st_status_text(enum st_status status);

static inline struct st_loc
st_no_loc(void)
{
	struct st_loc loc = {0, 0, 0, 0, 0};

	return loc;
}

#endif
