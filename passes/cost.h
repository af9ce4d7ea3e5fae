#ifndef ST_COST_H
#define ST_COST_H

/*
 * How long a node takes by itself on a machine, in picoseconds.
 *
 * The only place of the compiler where times come from; everything else adds
 * and compares integers.  Floating point stays inside, is rounded once, and
 * uses no function of libm but sqrt, so that all compilers agree.
 *
 *   matmul       start + max(FLOP / rate, bytes / memory rate)
 *   attention    start + FLOP / rate by size of a head; the causal half
 *   other        start + bytes / memory rate, or by the op's own rate
 *   collective   a + bytes / rate + c * sqrt(bytes) inside the innermost
 *                tier, or its line for small ones where that is less; across
 *                tiers a ring: one hop a step, and the rate of the slowest
 *                link over the members that share it
 */

#include "ir/graph.h"
#include "ir/machine.h"

/* Times are int64 picoseconds everywhere. */
enum { ST_PS_PER_US = 1000000 };

int64_t st_cost_node(const struct st_machine *machine,
		     const struct st_module *module,
		     const struct st_node *node);

/* What was measured of a node (machine->node_ps), or 0. */
int64_t st_cost_measured(const struct st_machine *machine,
			 const struct st_module *module,
			 const struct st_node *node);

/* What a collective moves, for models that group several into one launch:
 * bytes of the whole buffer. */
int64_t st_cost_bytes(const struct st_module *module,
		      const struct st_node *node);

/* A collective of an op over axes, of so many bytes. */
int64_t st_cost_collective(const struct st_machine *machine,
			   const struct st_mesh *mesh, enum st_op op,
			   unsigned axes, int64_t bytes);

/* Index of the outermost tier that groups along axes cross. */
int st_cost_tier(const struct st_machine *machine, const struct st_mesh *mesh,
		 unsigned axes);

/* Bytes that a node reads and writes. */
double st_cost_touched(const struct st_module *module,
		       const struct st_node *node);

/* FLOP of a node; 0 where they do not count. */
double st_cost_flops(const struct st_module *module,
		     const struct st_node *node);

/* A machine for those who name none: two cores of a laptop, ranks as threads
 * (models/machines/laptop.yaml). */
extern const struct st_machine st_machine_laptop;

#endif
