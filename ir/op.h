#ifndef ST_OP_H
#define ST_OP_H

/* The op table (ops.def), attribute keys and module options, as data. */

#include <stddef.h>
#include <stdint.h>

enum st_op {
#define OP(name, ...) ST_OP_##name,
#include "ir/ops.def"
	ST_OP_COUNT
};

enum st_op_class { ST_COMPUTE, ST_MOVE, ST_COMM };
enum st_cost_kind { ST_COST_FLOPS, ST_COST_ATTENTION, ST_COST_ATTENTION_GRAD,
		    ST_COST_BYTES, ST_COST_ROWS, ST_COST_LINK, ST_COST_FREE };
enum st_linear { ST_LINEAR_NONE, ST_LINEAR_EACH, ST_LINEAR_JOINT };

enum {
	ST_MAX_OPERANDS = 64, /* of `sum`; other ops have far fewer */
	ST_MAX_RESULTS = 3,
};

struct st_op_info {
	const char *name;
	enum st_op_class class;
	const char *rule;
	enum st_linear linear;
	const char *keys;
	const char *inplace;
	const char *dtypes;
	enum st_cost_kind cost;
};

extern const struct st_op_info st_ops[ST_OP_COUNT];

/* -1 if there is none of that name. */
int st_op_find(const char *name, size_t length);

/* Number of results of an op, from its dtypes column. */
int st_op_results(enum st_op op);

/* X(name, kind) */
#define ST_KEYS(X)      \
	X(dims, STRING) \
	X(factor, FLOAT) \
	X(act, STRING)  \
	X(eps, FLOAT)   \
	X(theta, FLOAT) \
	X(inverse, INT) \
	X(scale, FLOAT) \
	X(max_norm, FLOAT) \
	X(rate, FLOAT)  \
	X(floor, FLOAT) \
	X(warmup, INT)  \
	X(total, INT)   \
	X(beta1, FLOAT) \
	X(beta2, FLOAT) \
	X(decay, FLOAT) \
	X(seed, INT)    \
	X(std, FLOAT)   \
	X(stream, STRING) \
	X(dim, INT)     \
	X(at, INT)      \
	X(axes, AXES)   \
	X(bucket, INT)

enum st_attr_kind { ST_ATTR_INT, ST_ATTR_FLOAT, ST_ATTR_STRING, ST_ATTR_AXES };

enum st_key {
#define X(name, kind) ST_KEY_##name,
	ST_KEYS(X)
#undef X
	ST_KEY_COUNT
};

const char *st_key_name(enum st_key key);
enum st_attr_kind st_key_kind(enum st_key key);
int st_key_find(const char *name, size_t length);

/* Place of the key among those of the op's row, -1 if it takes none of that
 * name; and must every node carry it? */
int st_op_key_place(enum st_op op, enum st_key key);
int st_op_needs(enum st_op op, enum st_key key);

/*
 * Options of a module: what the passes need to know besides the graph.
 * X(name, kind, default)
 *
 * micro_batches    forward and backward passes for one optimizer step
 * recompute        none, selective (norms, activations, rotary embeddings),
 *                  full (everything inside a layer)
 * zero_stage       0 to 3: what is cut over dp_shard
 * grad_clip        largest global norm; 0 clips nothing
 * master_dtype     dtype of optimizer state; "" is that of the parameters
 * reduce_dtype     dtype of gradients; "" is that of the parameters
 * overlap          list, or none: the program's order, every wait at its start
 * split            pieces of a micro-batch; 0: what the model says
 * machine          what the plan was scheduled for
 */
#define ST_OPTIONS(X)                    \
	X(micro_batches, INT, 1)         \
	X(recompute, STRING, "none")     \
	X(zero_stage, INT, 0)            \
	X(grad_clip, FLOAT, 0.0)         \
	X(master_dtype, STRING, "")      \
	X(reduce_dtype, STRING, "")      \
	X(lr, FLOAT, 1e-3)               \
	X(lr_min, FLOAT, 0.0)            \
	X(warmup_steps, INT, 0)          \
	X(total_steps, INT, 0)           \
	X(beta1, FLOAT, 0.9)             \
	X(beta2, FLOAT, 0.95)            \
	X(adam_eps, FLOAT, 1e-8)         \
	X(weight_decay, FLOAT, 0.0)      \
	X(seed, INT, 0)                  \
	X(overlap, STRING, "list")       \
	X(split, INT, 0)                 \
	X(bucket, STRING, "auto")        \
	X(machine, STRING, "")

enum st_option {
#define X(name, kind, value) ST_OPTION_##name,
	ST_OPTIONS(X)
#undef X
	ST_OPTION_COUNT
};

struct st_option_value {
	int64_t i;
	double f;
	const char *s;
};

const char *st_option_name(enum st_option option);
enum st_attr_kind st_option_kind(enum st_option option);
int st_option_find(const char *name, size_t length);
void st_option_defaults(struct st_option_value values[ST_OPTION_COUNT]);

#endif
