#ifndef ST_CLI_PREDICT_H
#define ST_CLI_PREDICT_H

/* What the cost model says of an entry: for explain, sim and timeline. */

#include "passes/explain.h"
#include "runtime/cli/cli.h"
#include "runtime/trace.h"

struct cli_prediction {
	const char *machine_name; /* that was asked for, or NULL */
	const char *entry_name;   /* "step" if NULL */
	const char *profile;      /* a trace, or NULL */
	struct st_machine machine;
	const struct st_module *module;
	const struct st_entry *entry;
	struct st_explanation x;
};

/* Runs the passes that are still to come first. */
enum st_status cli_predict(struct cli *cli, struct cli_prediction *p,
			   const char *path, const char *text, size_t length);

/* Explains the same order again on a machine that is changed as the text
 * says: "link.dp=2x,contention=0". */
enum st_status cli_whatif(struct cli *cli, struct cli_prediction *p,
			  const char *text);

/* A trace that is the file's content, or the prediction of a plan or
 * model. */
enum st_status cli_trace_of(struct cli *cli, struct cli_prediction *p,
			    const char *path, struct st_trace *trace);

/* To `path`; ranks other than 0 get a number before the suffix. */
enum st_status cli_trace_save(struct cli *cli, const struct st_trace *trace,
			      const char *path);

#endif
