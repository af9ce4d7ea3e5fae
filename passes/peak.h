#ifndef ST_PEAK_H
#define ST_PEAK_H

/*
 * Bytes in use by an order of an entry's nodes, states not counted.
 *
 * The sum of live buffers, by order of issue alone: a start's operands live
 * to its wait.  What `memory` packs may lie higher (holes) or lower (buffers
 * of states that are lent).
 */

#include "passes/tasks.h"

struct st_peak {
	const struct st_tasks *tasks;
	/* By value of the module. */
	uint32_t *last, *reader; /* positions in the order */
	uint8_t *consumed;       /* another value took its buffer over */
	int64_t *bytes;          /* of what the entry makes */
	/* By node: what its completion gave back, what it made. */
	int64_t *freed, *made;
};

enum st_status st_peak_init(struct st_peak *peak,
			    const struct st_tasks *tasks);

/* The highest sum.  during[i], if not NULL, is the sum while the i-th node of
 * the order runs. */
int64_t st_peak_run(struct st_peak *peak, const uint32_t *order, uint32_t count,
		    int64_t *during);

#endif
