#ifndef ST_CLI_PROFILE_H
#define ST_CLI_PROFILE_H

/* Times of single nodes: a trace that was measured, or written by hand.  A
 * bucket goes by its first node. */

#include "runtime/cli/cli.h"
#include "runtime/trace.h"

struct cli_profile {
	const char *path;
	uint32_t source;
	struct st_trace trace;
	uint32_t *names; /* by event: number of its node's name */
	int64_t *ps;     /* by number of a name; 0: not known */
	size_t count;    /* of names */
};

enum st_status cli_profile_read(struct cli *cli, const char *path,
				struct cli_profile *profile);

/* Behind the passes: nodes that the plan does not have are an error, nodes of
 * the step that the profile does not have are counted, and an error under
 * --strict. */
enum st_status cli_profile_check(struct cli *cli, struct cli_profile *profile,
				 const struct st_module *plan);

#endif
