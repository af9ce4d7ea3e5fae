#ifndef ST_LIVE_H
#define ST_LIVE_H

/*
 * How long the buffers of an entry are in use, in order of issue.
 *
 * A buffer is free behind the last node that reads its value, or, where a
 * start was lent it, behind the wait that ends that start.  Nothing here
 * depends on predicted times (see "Asynchrony" in README.md).
 */

#include "ir/graph.h"

struct st_live {
	const struct st_module *module;
	uint32_t begin, end; /* nodes of the entry; `end` stands for returns */
	int64_t slack;       /* see st_live_bytes */
	/* By value; only those of the states and of the entry count. */
	uint32_t *reader; /* last node that takes it, or its own */
	uint32_t *until;  /* node behind which its buffer is free */
	uint16_t *lent;   /* starts that took it */
	uint32_t *becomes; /* state that its buffer is, or ST_NONE */
	uint32_t *next;    /* in the list of those that end with a node */
	uint32_t *first;   /* by node of the module + 1: head of that list */
	uint32_t *writer;  /* by state: node that makes its next content */
};

/* Allocates for a module; ST_EDEVICE without memory. */
enum st_status st_live_init(struct st_live *live,
			    const struct st_module *module);

/* Looks at one entry.  The module must be verified up to its places. */
void st_live_entry(struct st_live *live, const struct st_entry *entry);

/* Calls for all values whose buffers are free behind `node`:
 * for (v = st_live_first(live, node); v != ST_NONE; v = live->next[v]) */
static inline uint32_t
st_live_first(const struct st_live *live, uint32_t node)
{
	return live->first[node];
}

/* The operand whose buffer result r of a node may take over by its row, or
 * ST_NONE. */
uint32_t st_live_donor(const struct st_module *module,
		       const struct st_node *node, uint32_t r);

/*
 * Bytes of a buffer, a multiple of 64.  A flat run is cut into equal pieces,
 * so the last rank's piece may reach past the end of the whole: there is room
 * for that behind every buffer where the module has flat types.
 */
enum { ST_PLACE_ALIGN = 64 };
int64_t st_live_bytes(const struct st_live *live, uint32_t value);

/* Are all values placed, inside the arena, aligned, in place where they must
 * be, and no two that live together over one another?  Part of st_verify. */
enum st_status st_verify_places(const struct st_module *module);

#endif
