#ifndef ST_LANE_H
#define ST_LANE_H

/*
 * A lane: the in-order queue of a rank's collectives over one set of axes,
 * worked off by a thread of its own, so that the rank computes meanwhile.
 *
 * The rank's thread issues, and waits for what it issued by number; all
 * waits block.  Nothing allocates after creation.  A collective that fails
 * ends the lane: what follows fails with the same status.
 */

#include "runtime/launch.h"

struct st_lane;

struct st_lane_options {
	/* Runs one collective; called from the lane's thread. */
	enum st_status (*run)(void *user, const struct st_launch *launch);
	void *user;
	size_t most; /* issued and not yet waited for */
};

/* NULL without memory or thread; the struct lies in the arena. */
struct st_lane *st_lane_create(struct st_arena *arena,
			       const struct st_lane_options *options);

/* After all that was issued has ended.  Accepts NULL. */
void st_lane_destroy(struct st_lane *lane);

/* Returns the number to wait for. */
uint64_t st_lane_issue(struct st_lane *lane, const struct st_launch *launch);

/* How many were issued so far. */
uint64_t st_lane_issued(const struct st_lane *lane);

/* Until that many have ended; *failed is the launch that did not work. */
enum st_status st_lane_wait(struct st_lane *lane, uint64_t number,
			    const struct st_launch **failed);

#endif
