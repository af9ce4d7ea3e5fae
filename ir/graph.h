#ifndef ST_GRAPH_H
#define ST_GRAPH_H

/*
 * A module: states, and entries that work on them.
 *
 * Values are in single-assignment form and numbered through the module;
 * nodes of one entry are contiguous and stand in program order, which is
 * also the order of execution until `schedule` says otherwise.  References
 * are 32-bit indices.  A pass reads one module and builds another; nothing
 * is changed in place, so indices stay valid and dumps stay stable.
 *
 * Purity, with one constraint: `ret %w.1 -> %w` says that the buffer of
 * state %w takes over %w.1, and every reader of %w in that entry stands
 * before the node that makes %w.1.
 *
 * Names carry the layer: everything before the first '/' ("%h.3/attn.qkv").
 */

#include "ir/op.h"
#include "ir/type.h"

#define ST_NONE UINT32_MAX

struct st_attr {
	uint16_t key; /* enum st_key */
	union {
		int64_t i; /* INT, AXES */
		double f;
		uint32_t s; /* in the module's names */
	};
};

/* Where a node comes from: a gather for the forward pass is not kept for the
 * backward pass. */
enum st_region { ST_FORWARD, ST_BACKWARD, ST_OPTIMIZER };

/*
 * A node that is a `start` begins a collective: its result is async, and its
 * operands are lent until the `wait` that ends it.  The text is the order of
 * issue: a start begins after every node above it that is none, and after
 * the starts above it on its own communicator; a wait holds what stands below
 * it until its collective has ended.
 */
struct st_node {
	uint16_t op;
	uint8_t results;
	uint8_t region : 7;
	uint8_t start : 1;
	uint16_t operands;
	uint16_t attrs;
	uint32_t first_operand; /* in refs */
	uint32_t first_result;  /* value; results are contiguous */
	uint32_t first_attr;
	uint32_t entry;
	uint32_t loc; /* in locs */
	uint32_t on;  /* its communicator, index + 1; 0: not scheduled yet */
};

/* One in-order queue of collectives over a set of axes, on every group of
 * ranks along them. */
struct st_communicator {
	uint32_t name;
	uint32_t loc;
	uint8_t axes;
};

enum st_value_kind { ST_VALUE_STATE, ST_VALUE_INPUT, ST_VALUE_RESULT };

struct st_value {
	uint32_t name;
	uint32_t type; /* in types */
	uint32_t node; /* that defines it; ST_NONE for states and inputs */
	uint32_t arena_at; /* in placements, or ST_NONE before `memory` */
	uint8_t kind;
};

/* X(name): what a state is.  A param is stored in weight files under its own
 * name; the others belong to the optimizer or to the plan. */
#define ST_ROLES(X) \
	X(param)    \
	X(master)   \
	X(moment1)  \
	X(moment2)  \
	X(gradient) \
	X(counter)  \
	X(batch)

enum st_role {
#define X(name) ST_ROLE_##name,
	ST_ROLES(X)
#undef X
	ST_ROLE_COUNT
};

struct st_state {
	uint32_t value;
	uint32_t loc;
	uint8_t role;
};

/* What an entry returns: a value for the caller under a name, or the next
 * content of a state. */
struct st_output {
	uint32_t value;
	uint32_t name;  /* for the caller; 0 where state is set */
	uint32_t state; /* index in states, or ST_NONE */
};

struct st_entry {
	uint32_t name;
	uint32_t first_input, inputs; /* values; contiguous */
	uint32_t first_node, nodes;
	uint32_t first_output, outputs; /* in outputs[] */
	uint32_t loc;
};

enum st_form {
	ST_LOGICAL, /* one program over whole tensors */
	ST_RANKED,  /* the program of each rank, collectives explicit */
};

/* A growing array of T. */
#define ST_VECTOR(T) \
	struct {     \
		T *at; \
		size_t count, capacity; \
	}

struct st_module {
	struct st_arena *arena;
	struct st_diag *diag;
	struct st_names *names;
	enum st_form form;
	struct st_mesh mesh;
	struct st_option_value options[ST_OPTION_COUNT];
	uint64_t options_set; /* bit a option: stated, and so printed */
	int64_t arena_bytes;  /* of one rank; 0 before `memory` */

	ST_VECTOR(struct st_type) types;
	ST_VECTOR(struct st_value) values;
	ST_VECTOR(struct st_node) nodes;
	ST_VECTOR(uint32_t) refs;
	ST_VECTOR(struct st_attr) attrs;
	ST_VECTOR(struct st_loc) locs;
	ST_VECTOR(struct st_communicator) communicators;
	ST_VECTOR(struct st_state) states;
	ST_VECTOR(struct st_entry) entries;
	ST_VECTOR(struct st_output) outputs;
	ST_VECTOR(int64_t) placements; /* byte offsets in the arena */

	uint32_t *type_slots; /* hash of types */
	size_t type_slot_count;
	ST_VECTOR(uint32_t) name_entry; /* last scope that used a name */
	ST_VECTOR(uint32_t) name_value; /* the value it stands for there */
	ST_VECTOR(uint32_t) name_next;  /* next suffix to try */
};

/* NULL when memory is exhausted. */
struct st_module *st_module_create(struct st_arena *arena,
				   struct st_diag *diag,
				   struct st_names *names);

/* An empty module with the mesh, form, options and locations of another. */
struct st_module *st_module_create_like(const struct st_module *like);

uint32_t st_module_type(struct st_module *module, const struct st_type *type);
uint32_t st_module_loc(struct st_module *module, struct st_loc loc);

/* Its number for st_node.on, 0 without memory. */
uint32_t st_module_add_communicator(struct st_module *module, uint32_t name,
				    unsigned axes, uint32_t loc);
uint32_t st_module_find_communicator(const struct st_module *module,
				     uint32_t name);

/* States come first, then entries one after another: begin, inputs, nodes,
 * outputs, end.  A state or input of a name already used in its scope is
 * refused with ST_NONE. */
uint32_t st_module_add_state(struct st_module *module, uint32_t name,
			     const struct st_type *type, enum st_role role,
			     uint32_t loc);
void st_module_begin_entry(struct st_module *module, uint32_t name,
			   uint32_t loc);
uint32_t st_module_add_input(struct st_module *module, uint32_t name,
			     const struct st_type *type);
void st_module_add_output(struct st_module *module, uint32_t value,
			  uint32_t name, uint32_t state);
void st_module_end_entry(struct st_module *module);

/* Appends a node to the open entry; types[] are the types of its results and
 * names[] their names, which are made unique by a suffix if taken (0: made
 * from the op).  Returns the node's index; ST_NONE without memory. */
struct st_new_node {
	enum st_op op;
	enum st_region region;
	const uint32_t *operands;
	size_t operand_count;
	const struct st_attr *attrs;
	size_t attr_count;
	const struct st_type *types;
	const uint32_t *names;
	uint32_t loc;
	int start;
	uint32_t on;
};
uint32_t st_module_add_node(struct st_module *module,
			    const struct st_new_node *fresh);

/* Is the name free in the open scope? */
int st_module_name_is_free(const struct st_module *module, uint32_t name);

/* The value of a name in the open entry or among the states, or ST_NONE. */
uint32_t st_module_lookup(const struct st_module *module, uint32_t name);

static inline const struct st_type *
st_value_type(const struct st_module *module, uint32_t value)
{
	return &module->types.at[module->values.at[value].type];
}

static inline const char *
st_value_name(const struct st_module *module, uint32_t value)
{
	return st_names_text(module->names, module->values.at[value].name);
}

static inline uint32_t
st_node_operand(const struct st_module *module, const struct st_node *node,
		size_t i)
{
	return module->refs.at[node->first_operand + i];
}

/* NULL if the node does not carry the key. */
const struct st_attr *st_node_attr(const struct st_module *module,
				   const struct st_node *node,
				   enum st_key key);
const char *st_node_string(const struct st_module *module,
			   const struct st_node *node, enum st_key key);
double st_node_float(const struct st_module *module,
		     const struct st_node *node, enum st_key key);
int64_t st_node_int(const struct st_module *module,
		    const struct st_node *node, enum st_key key);

/* The node whose result a wait waits for. */
static inline uint32_t
st_wait_start(const struct st_module *module, const struct st_node *wait)
{
	return module->values.at[st_node_operand(module, wait, 0)].node;
}

/* Index of the entry or state of that name, or ST_NONE. */
uint32_t st_module_find_entry(const struct st_module *module,
			      const char *name);
uint32_t st_module_find_state(const struct st_module *module, uint32_t value);

/* Index of a mesh axis, or -1. */
int st_module_find_axis(const struct st_module *module, const char *name);

static inline struct st_loc
st_module_loc_at(const struct st_module *module, uint32_t loc)
{
	return loc < module->locs.count ? module->locs.at[loc] : st_no_loc();
}

/* Sum of the elements of all params, padding not counted. */
int64_t st_module_parameters(const struct st_module *module);

const char *st_role_name(enum st_role role);
const char *st_region_name(enum st_region region);

#endif
