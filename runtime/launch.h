#ifndef ST_LAUNCH_H
#define ST_LAUNCH_H

/* The launch records of one rank. */

#include "runtime/bind.h"
#include "runtime/collective.h"

struct st_launch {
	uint32_t node;
	st_kernel_fn *fn; /* NULL: a collective or a wait */
	struct st_kernel kernel;
	struct st_comm_args comm;
	char *padded, *unstripped; /* scratch of the slices, or NULL */
	struct st_team *team;
	int member;
	/* A start is the n-th of its entry on its lane, from 1; a wait waits
	 * for that many. */
	unsigned axes;
	uint32_t number;
	int is_start, is_wait;
};

/* Teams by axes: groups[axes] holds one team for each group, in the order of
 * the ranks that lead them. */
struct st_teams {
	struct st_team **groups[1 << ST_MAX_AXES];
	int64_t count[1 << ST_MAX_AXES];
};

/* Creates the teams that the module's collectives need. */
enum st_status st_teams_create(struct st_teams *teams, struct st_arena *arena,
			       const struct st_module *module, int timeout_ms,
			       const struct st_link *link);
void st_teams_destroy(struct st_teams *teams);
void st_teams_cancel(struct st_teams *teams, enum st_status status,
		     const char *reason);

/* Records of one entry for one rank, over the arena at `base`. */
/* In arena: scratch as well. */
enum st_status st_launch_build(struct st_arena *arena,
			       const struct st_module *module,
			       const struct st_entry *entry, int64_t rank,
			       const struct st_teams *teams, char *base,
			       int reference, struct st_launch **launches);

#endif
