#ifndef ST_LANES_H
#define ST_LANES_H

/*
 * A virtual clock with one compute lane and in-order queues of collectives.
 *
 * Work is given in picoseconds alone; what runs together shares: collectives
 * on one tier of links take turns at its rate, and computation beside
 * collectives runs slower, as do they beside it.  All integer, so the same
 * calls give the same times everywhere.
 */

#include <stdint.h>

#include "ir/arena.h"
#include "ir/machine.h"

enum { ST_LANES_MAX = 16 };

struct st_ticket {
	int64_t left; /* work still to do */
	int64_t issued, begin, end; /* end -1: not yet */
	int32_t next;
	uint8_t lane, tier;
};

struct st_lanes {
	int64_t now;
	int64_t contention; /* what computation lost to collectives */
	int64_t compute_thousandths, comm_thousandths; /* 1000 + slow-down */
	int32_t head[ST_LANES_MAX], tail[ST_LANES_MAX];
	/* Bit j of meets[i]: groups of lanes i and j share ranks, so what was
	 * issued earlier on one ends before what came later on the other. */
	uint16_t meets[ST_LANES_MAX];
	int lane_count;
	struct st_ticket *tickets;
	int32_t count;
};

/* Room for `most` tickets, in the arena; -1 without memory.  axes: of the
 * groups of each lane. */
int st_lanes_init(struct st_lanes *lanes, struct st_arena *arena,
		  const struct st_machine *machine, const uint8_t *axes,
		  int lane_count, size_t most);
void st_lanes_reset(struct st_lanes *lanes);

/* A collective joins a lane's queue; returns its ticket. */
int32_t st_lanes_start(struct st_lanes *lanes, int lane, int tier,
		       int64_t work);
/* Computation of so much work, to its end. */
void st_lanes_compute(struct st_lanes *lanes, int64_t work);
/* Until the ticket has ended; returns the time stalled. */
int64_t st_lanes_wait(struct st_lanes *lanes, int32_t ticket);
/* Work that a lane still has. */
int64_t st_lanes_backlog(const struct st_lanes *lanes, int lane);

#endif
