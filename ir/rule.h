#ifndef ST_RULE_H
#define ST_RULE_H

/*
 * From the rule column of ops.def to facts about one node.
 *
 * A mapping binds every factor of every operand and result to a slot.
 * Factors in one slot have one size and, in a ranked module, one cut; this
 * is all that shape inference, verification and `partition` need to know
 * about an op.
 */

#include "ir/graph.h"

enum { ST_MAX_SLOTS = 32 };

struct st_slot {
	int64_t size;
	uint8_t fixed; /* may not be cut */
	uint8_t bound; /* an operand has given the size */
};

struct st_mapping {
	int slots;
	struct st_slot slot[ST_MAX_SLOTS];
	int operands;
	uint8_t operand[ST_MAX_OPERANDS][ST_MAX_FACTORS];
	int results;
	uint8_t result[ST_MAX_RESULTS][ST_MAX_FACTORS];
	struct st_type result_type[ST_MAX_RESULTS]; /* whole */
	uint8_t maximum;        /* bit i: result i is reduced by maximum */
	uint8_t flat_operands[ST_MAX_OPERANDS]; /* may be flat: "=" items */
	uint8_t flat_results;   /* bit i */
};

/* What a node is made of, before or after it stands in a module. */
struct st_node_view {
	enum st_op op;
	const uint32_t *operands;
	size_t operand_count;
	const struct st_attr *attrs;
	size_t attr_count;
	/* Result types where the node states them; NULL if nothing is
	 * stated.  Only dtypes marked '?' and sizes that no operand knows
	 * are taken from here. */
	const struct st_type *stated;
	struct st_loc loc;
	int start;
};

/* Binds sizes; cuts are ignored.  Reports what does not fit. */
enum st_status st_mapping_make(const struct st_module *module,
			       const struct st_node_view *node,
			       struct st_mapping *mapping);

/*
 * Types of the results, given those of the operands.  In a logical module
 * the results are whole; in a ranked one, cuts must agree slot by slot and
 * the results carry them.
 */
enum st_status st_infer(const struct st_module *module,
			const struct st_node_view *node,
			struct st_type results[ST_MAX_RESULTS]);

/* The same for ops whose rule is "?" (shape.c). */
enum st_status st_shape_map(const struct st_module *module,
			    const struct st_node_view *node,
			    struct st_mapping *mapping);
/* For ops that change the spread over the mesh: checks the stated type. */
enum st_status st_shape_spread(const struct st_module *module,
			       const struct st_node_view *node,
			       struct st_type *result);
int st_shape_is_spread(enum st_op op);

/*
 * Where axes sit in a type: a factor, the flat run, or the partial mask.
 */
enum st_place_kind { ST_PLACE_NONE, ST_PLACE_FACTOR, ST_PLACE_FLAT,
		     ST_PLACE_PARTIAL };
struct st_place {
	enum st_place_kind kind;
	int factor;
};
/* The place of the axis, ST_PLACE_NONE where the value is replicated. */
struct st_place st_type_place(const struct st_type *type, int axis);

const char *st_view_string(const struct st_module *module,
			   const struct st_node_view *node, enum st_key key);
int64_t st_view_int(const struct st_node_view *node, enum st_key key);
double st_view_float(const struct st_node_view *node, enum st_key key);

#endif
