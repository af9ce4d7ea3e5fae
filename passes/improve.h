#ifndef ST_IMPROVE_H
#define ST_IMPROVE_H

/*
 * Local search over whole orders of a small entry.
 *
 * A move takes one computation, start or wait to another place between what
 * it needs and what needs it.  It is kept if the step is not longer and the
 * limit on memory holds; where nothing helps any more a few random moves
 * shake the best order.  The generator is its own, so the same entry gives
 * the same order everywhere.
 *
 * Cost: a fixed number of walks over the entry, at most; none where a lower
 * bound says that there is nothing to gain.
 */

#include "passes/arrange.h"

enum { ST_IMPROVE_MOST_NODES = 400 };

struct st_improve {
	struct st_arrange *arrange;
	uint64_t state;  /* of the generator */
	int64_t bound;   /* no order is quicker */
	int64_t limit;
	uint32_t count;  /* of tokens, see st_arrange_follow */
	uint32_t *tokens, *best;
	uint32_t *place; /* by token */
	int64_t time, best_time;
	int64_t evaluations;
};

enum st_status st_improve_init(struct st_improve *improve,
			       struct st_arrange *arrange);

/* From an order of nodes, which `limit` admits, and its time, with one part in
 * `share` of the budget.  1 if a quicker one was found: it is what arrange
 * holds. */
int st_improve_run(struct st_improve *improve, const uint32_t *order,
		   int64_t time, int64_t limit, int share);

#endif
