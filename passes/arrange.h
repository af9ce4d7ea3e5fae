#ifndef ST_ARRANGE_H
#define ST_ARRANGE_H

/*
 * From an order of the computations of an entry to an order of all its nodes:
 * when each collective is started and when it is waited for.
 *
 * One walk along a virtual clock.  A collective starts when its lane is about
 * to run dry, nearest deadline first (the computation that needs it); it is
 * waited for where it is needed, or as soon as it has ended if that frees
 * memory.  The limit on memory is hard: a result is made before its time only
 * if it fits at every node up to its use, and where operands that are lent
 * would not fit, the walk waits for them first.  Without early starts and
 * late waits the order has the memory of the program's own, so a limit that
 * this meets is always met.
 *
 * Cost: tasks times log tasks.
 */

#include "passes/lanes.h"
#include "passes/peak.h"
#include "passes/segment.h"

enum st_choice {
	ST_CHOICE_GIVEN, /* computations in the order given */
	ST_CHOICE_FILL,  /* program order, but another rather than a stall */
	ST_CHOICE_RANK,  /* the longest way to the end first, never a stall */
	ST_CHOICE_PHASE, /* of long ways the one that feeds a lane soonest */
};

struct st_arrange_rules {
	enum st_choice choice;
	uint32_t window; /* how far in program order a choice may look */
	int64_t slack;   /* PHASE: ps that ways may differ and count as one */
	int64_t limit;   /* bytes; INT64_MAX: none */
	int64_t horizon; /* ps before its use that a result may be made; -1 */
	int sync;        /* no overlap at all */
	int hold;  /* a lane may stay dry for a collective that comes next */
	int draft; /* top is not needed */
};

struct st_heap {
	uint32_t *at;
	uint32_t count;
};

struct st_arrange {
	const struct st_tasks *tasks;
	struct st_peak peak;
	struct st_lanes lanes;
	struct st_segment segment;
	struct st_arrange_rules rules;
	/* By task. */
	uint32_t *deadline; /* position among the computations */
	uint32_t *left;     /* what must be done before */
	int64_t *rank;      /* longest way to the end */
	int64_t *feed;      /* on that way, computation before a collective */
	uint32_t *fed;      /* that collective, or ST_NONE */
	int64_t *lent, *made; /* of collectives, in bytes */
	int32_t *ticket;
	uint8_t *state;
	uint8_t *maker;   /* makes more than it is lent: waits for its use */
	uint8_t *chained; /* another collective waits for it */
	uint32_t *bias;  /* added to deadlines; for search */
	uint32_t *place; /* of a computation, in program order */
	/* By position. */
	uint32_t *chosen; /* computations */
	int64_t *begins;  /* if nothing stalled */
	int64_t *during;
	struct st_heap heaps[2 * ST_LANES_MAX]; /* makers, reducers by lane */
	uint32_t *pending; /* reducers that hold memory, oldest first */
	uint32_t pending_first, pending_count;
	uint32_t *flying; /* started, to be waited for as soon as they end */
	uint32_t flying_count;
	uint32_t *of_ticket;
	uint32_t *ready; /* computations that may come next, by place */
	uint32_t ready_count;
	int64_t extra; /* bytes that pending reducers hold */
	uint32_t now;  /* position */
	int64_t busy;  /* all computation */
	int follows;   /* an order that is given whole: nothing is chosen */
	/* The result. */
	uint32_t *order;
	uint32_t count;
	int64_t time, top;
};

enum st_status st_arrange_init(struct st_arrange *arrange,
			       const struct st_tasks *tasks,
			       const struct st_machine *machine);

/* Sets order, count, time and top.  computes: the order for
 * ST_CHOICE_GIVEN; after the other choices `chosen` is the order found. */
void st_arrange_run(struct st_arrange *arrange, const uint32_t *computes,
		    const struct st_arrange_rules *rules);

/*
 * An order of all tasks, as tokens: 2 * task is a computation or a start, and
 * 2 * task + 1 a wait, which comes sooner where something needs it or the
 * collective has ended.  Sets order, count and time; 0 as soon as it is known
 * to end later than `most`.
 */
int st_arrange_follow(struct st_arrange *arrange, const uint32_t *tokens,
		      uint32_t count, int64_t most);

/* Sets time and top of an order of nodes, NULL for the program's own. */
void st_arrange_replay(struct st_arrange *arrange, const uint32_t *order);

#endif
