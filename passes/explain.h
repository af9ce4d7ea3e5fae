#ifndef ST_EXPLAIN_H
#define ST_EXPLAIN_H

/*
 * A verdict for each collective of an entry: how much of it is hidden behind
 * computation, and what stands in the way of the rest.
 *
 *   step = busy + contention + stalls                  exactly, in integers
 *
 * busy is what the computations take by themselves, contention what they lose
 * to collectives beside them, and each stall belongs to the collective that
 * is waited for.  All by the cost model, on the virtual clock (lanes.h).
 */

#include "passes/tasks.h"

enum st_reason {
	ST_REASON_NONE,     /* all of it is hidden */
	ST_REASON_OPERAND,  /* made too short a time before its use */
	ST_REASON_LANE,     /* its lane was busy with another */
	ST_REASON_ISSUE,    /* could have been started earlier */
	ST_REASON_END,      /* nothing is left to compute beside it */
};

struct st_verdict {
	uint32_t start, wait; /* nodes; the first of a bucket */
	uint32_t members;     /* collectives in its bucket */
	int64_t bytes;        /* of all members */
	int64_t total;        /* alone, in picoseconds */
	int64_t exposed;      /* stalled for it */
	int64_t ready, issued, begin, end; /* operands made; and so on */
	enum st_reason reason;
	uint32_t blocker; /* node: who made the operand, or held the lane */
};

struct st_explanation {
	int64_t step, busy, contention, stalls;
	int64_t comm; /* sum of the totals */
	int64_t bound;         /* no order can be quicker */
	const char *bound_by;  /* "compute", "path", or the axes of a lane */
	int64_t peak;          /* live bytes, states not counted */
	struct st_verdict *verdicts;
	uint32_t count;
	/* By node of the entry: when it runs; a start's is its transfer. */
	int64_t *node_begin, *node_end;
};

/* ST_EINFEASIBLE with *why where the entry cannot be followed. */
enum st_status st_explain(const struct st_module *module,
			  const struct st_entry *entry,
			  const struct st_machine *machine,
			  struct st_explanation *explanation,
			  const char **why);

/* One sentence, in the arena. */
const char *st_explain_reason(const struct st_module *module,
			      const struct st_verdict *verdict);

/* Hidden share of a collective or of all, in thousandths. */
static inline int64_t
st_explain_hidden(int64_t total, int64_t exposed)
{
	int64_t hidden = total > exposed ? total - exposed : 0;

	return total > 0 ? hidden * 1000 / total : 1000;
}

#endif
