#ifndef ST_MACHINE_H
#define ST_MACHINE_H

/*
 * What a plan is costed on: rates of a device, links between devices.
 *
 * Read from models/machines/<name>.yaml (models/machine.c) or filled in by a
 * test.  Units are those of the files, with powers of ten spelled out in the
 * names; 0 means "not known", and the cost model then leaves the term out or
 * takes the next best number.
 */

#include <stdint.h>

#include "ir/op.h"
#include "ir/type.h"
#include "kernels/kernels.h"

enum {
	ST_MACHINE_MAX_TIERS = 4,
	ST_MACHINE_MAX_FORMS = 32,
};

/* From the inside out; the rate is that of one device in one direction. */
struct st_machine_tier {
	const char *name;
	int64_t devices; /* in one unit of this tier; 0: without limit */
	double gb_per_s; /* 1e9 bytes a second */
	double hop_us;
	const char *link;     /* for people; NULL: not said */
	double line_gb_per_s; /* of the sheet; gb_per_s is what is reached */
};

/*
 * Time of one collective inside the innermost tier:
 * a + bytes/rate + c*sqrt(bytes); rate is bus_gb_per_s over 2(n-1)/n for
 * all_reduce and (n-1)/n for the others; bytes is the whole buffer.  Where
 * small_bus_gb_per_s is known, the time is the lesser of that and
 * small_a + bytes/small rate: libraries have one protocol for small messages
 * and one for large ones.
 */
struct st_machine_form {
	enum st_op op;
	int64_t ranks;
	double a_us, bus_gb_per_s, c_ns_per_sqrt_byte;
	double small_a_us, small_bus_gb_per_s;
};

struct st_machine {
	const char *name;
	int is_cuda;
	int64_t memory_bytes;
	int64_t sms; /* or cores */
	double matmul_tflops[ST_DTYPE_COUNT]; /* by enum st_dtype */
	double matmul_start_us;
	double memory_gb_per_s, memory_start_us;
	/* Causal, by size of a head. */
	double attention_forward_tflops_64, attention_forward_tflops_128;
	double attention_backward_tflops_64, attention_backward_tflops_128;
	/* Bytes read and written, by op; 0: memory_gb_per_s. */
	double op_gb_per_s[ST_OP_COUNT];
	double op_start_us[ST_OP_COUNT];
	double node_us; /* of one more node in a replayed graph */
	int tier_count;
	struct st_machine_tier tiers[ST_MACHINE_MAX_TIERS];
	int form_count;
	struct st_machine_form forms[ST_MACHINE_MAX_FORMS];
	/* Computation beside a collective, and a collective beside
	 * computation, take (1 + this) times as long. */
	double compute_slowdown, comm_slowdown;
	/* What the host spends: on one launch, on the replay of a graph. */
	double stream_us, graph_us, graph_ns_per_node;

	/* Not of the file.  Times that were measured, in picoseconds, by the
	 * number of the name of a node's first result; 0: by the forms. */
	const int64_t *node_ps;
	size_t node_ps_count;
	/* What if collectives over axis i of the mesh were so many times as
	 * fast?  0: as they are. */
	double axis_speed[ST_MAX_AXES];
};

#endif
