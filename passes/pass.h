#ifndef ST_PASS_H
#define ST_PASS_H

/*
 * Passes and the driver that runs them.
 *
 * A pass reads one module and makes the next; it changes nothing in place.
 * The driver runs them in the order of the table (or as asked), verifies
 * after each, times it, counts its changes and hands out dumps.
 */

#include "ir/build.h"
#include "ir/ir.h"
#include "ir/machine.h"

struct st_pass_context {
	int64_t changes;     /* what the pass applied */
	const char *skipped; /* why it did nothing; NULL if it did something */
	/* What the pass may know of the world. */
	const struct st_machine *machine;
	int64_t memory_limit; /* of a rank's arena, in bytes; 0: none */
};

struct st_pass {
	const char *name;
	enum st_status (*run)(struct st_pass_context *cx,
			      const struct st_module *in,
			      struct st_module **out);
	enum st_form needs; /* form of the module it reads */
	const char *does;
};

/* Default pipeline in order, ended by a row without a name. */
extern const struct st_pass st_passes[];

const struct st_pass *st_pass_find(const char *name, size_t length);

/* What one pass did, for --json and for messages. */
struct st_pass_report {
	const char *name;
	double ms;
	int64_t changes;
	const char *skipped;
	size_t nodes; /* after it */
};

struct st_pipeline {
	/* Names separated by commas; NULL: all that the form allows. */
	const char *passes;
	const char *stop_after; /* NULL: run to the end */
	/* Called after each pass (index from 1) and, with index 0 and the name
	 * "input", before the first; may be NULL. */
	enum st_status (*after)(void *user, int index, const char *name,
				const struct st_module *module);
	void *user;
	const struct st_machine *machine; /* NULL: a laptop */
	int64_t memory_limit;             /* bytes of a rank; 0: none */
	/* Monotonic nanoseconds; NULL leaves the times 0. */
	int64_t (*clock)(void);
	struct st_pass_report reports[32];
	int report_count;
};

/* Unknown names are ST_EUSAGE with "did you mean"; a pass whose form does not
 * fit is ST_EINPUT. */
enum st_status st_pipeline_run(struct st_pipeline *pipeline,
			       const struct st_module *in,
			       struct st_module **out);

/* The passes themselves; what each does stands on top of its file. */
enum st_status st_pass_grad(struct st_pass_context *cx,
			    const struct st_module *in,
			    struct st_module **out);
enum st_status st_pass_partition(struct st_pass_context *cx,
				 const struct st_module *in,
				 struct st_module **out);
enum st_status st_pass_split(struct st_pass_context *cx,
			     const struct st_module *in,
			     struct st_module **out);
enum st_status st_pass_bucket(struct st_pass_context *cx,
			      const struct st_module *in,
			      struct st_module **out);
enum st_status st_pass_async(struct st_pass_context *cx,
			     const struct st_module *in,
			     struct st_module **out);
enum st_status st_pass_schedule(struct st_pass_context *cx,
				const struct st_module *in,
				struct st_module **out);
enum st_status st_pass_memory(struct st_pass_context *cx,
			      const struct st_module *in,
			      struct st_module **out);

#endif
