#ifndef ST_TASKS_H
#define ST_TASKS_H

/*
 * One entry as tasks with their dependences: what `schedule` orders.
 *
 * A computation is a task; so is a collective with its start and its wait,
 * and a bucket of collectives that are launched together.  Task a comes
 * before b where b reads what a makes, or overwrites a state that a reads.
 */

#include "ir/live.h"
#include "passes/cost.h"
#include "passes/lanes.h"

struct st_pair {
	uint32_t start, wait; /* nodes */
};

struct st_task {
	uint32_t node; /* of a computation; the first start of a collective */
	uint32_t first_pair, pairs; /* 0 pairs: a computation */
	uint32_t first_pred, preds; /* in st_tasks.edges */
	uint32_t first_succ, succs;
	int64_t work; /* picoseconds */
	uint8_t lane, tier;
};

struct st_tasks {
	const struct st_module *module;
	const struct st_entry *entry;
	struct st_task *at; /* in program order */
	uint32_t count;
	uint32_t *computes; /* tasks that compute, in program order */
	uint32_t compute_count;
	struct st_pair *pairs;
	uint32_t *edges;
	uint32_t *of_node;  /* task of a node, by node - entry->first_node */
	uint8_t lane_axes[ST_LANES_MAX]; /* by lane: the axes it serves */
	int lanes;
	const struct st_live *live;
};

/*
 * buckets: 0 takes them apart.  ST_EINFEASIBLE with *why set where the entry
 * holds what is not ordered here (a start that takes an async value).
 */
enum st_status st_tasks_make(struct st_tasks *tasks,
			     const struct st_module *module,
			     const struct st_entry *entry,
			     const struct st_machine *machine,
			     const struct st_live *live, int buckets,
			     const char **why);

static inline int
st_task_is_comm(const struct st_task *task)
{
	return task->pairs > 0;
}

#endif
