#ifndef ST_LOWER_H
#define ST_LOWER_H

/*
 * Lowering walks the list of layers twice: once to declare the parameters,
 * since states come first in a module, and once to build `eval`.  In between
 * `init` is made from what was declared.
 */

#include "ir/build.h"
#include "models/net.h"

/* What `init` gives a parameter. */
struct st_initial {
	uint32_t state;
	int is_random;
	double value; /* standard deviation, or the number everywhere */
	uint32_t loc;
};

/* A result that later layers can name. */
struct st_named {
	const char *name;
	uint32_t value;
};

struct st_lowering {
	struct st_model *model;
	struct st_module *module;
	struct st_builder b; /* its status covers the whole lowering */
	int declaring;       /* the first walk */
	enum st_dtype dtype;
	int64_t batch, steps;

	/* Mesh axes: batch, flat params (ZeRO 3), tensors, and the sequence
	 * of the residual stream. */
	unsigned data, shard, tensor, sequence;

	ST_VECTOR(struct st_initial) initials;
	ST_VECTOR(struct st_named) named;
	uint32_t tokens, targets, current, loss;
	size_t layers; /* visited, against runaway repeats */

	/* The layer that is being lowered. */
	const char *prefix; /* "h.3", or "" outside of a repeat */
	const char *name;
	const struct st_yaml *layer;
	struct st_loc at;
};

/* Error at the current layer. */
void st_lower_fail(struct st_lowering *l, const char *what, const char *text);

/* Argument of the current layer, or NULL. */
const struct st_yaml *st_lower_arg(const struct st_lowering *l,
				   const char *name);

/* In the arena: "h.3/NAME" + suffix, and "h.3.NAME". */
const char *st_lower_value_name(struct st_lowering *l, const char *name,
				const char *suffix);
const char *st_lower_param_name(struct st_lowering *l, const char *name,
				const char *suffix);

/* Declares the parameter BASE.suffix. */
void st_lower_declare(struct st_lowering *l, const char *base,
		      const char *suffix, const struct st_type *type,
		      int is_random, double value);
/* The value of a declared one. */
uint32_t st_lower_param(struct st_lowering *l, const char *base,
			const char *suffix);

/* Operand i of the current layer: what `of` names, else what the layer
 * before made. */
uint32_t st_lower_operand(struct st_lowering *l, int i);
int st_lower_operands(const struct st_lowering *l);

/* Lowers a list of layers; the last result is l->current. */
void st_lower_list(struct st_lowering *l, const struct st_yaml *list);

static inline int
st_lower_failed(const struct st_lowering *l)
{
	return l->b.status != ST_OK;
}

/* lower_args.c: arguments of the current layer; errors go to l->b.status,
 * and what comes back is harmless then. */
enum st_cut { ST_CUT_NONE, ST_CUT_COLUMN, ST_CUT_ROW, ST_CUT_VOCABULARY };

double st_lower_number(struct st_lowering *l, const char *arg, double low,
		       double high);
int64_t st_lower_count(struct st_lowering *l, const struct st_yaml *node,
		       const char *what);
int st_lower_flag(struct st_lowering *l, const char *arg, int otherwise);
/* Index of the word in a list; 0 if the argument is not given. */
int st_lower_word(struct st_lowering *l, const char *arg,
		  const char *const *words);
enum st_cut st_lower_cut(struct st_lowering *l);
double st_lower_std(struct st_lowering *l);
const char *st_lower_base(const struct st_lowering *l);
int st_lower_extent(struct st_lowering *l, struct st_type *type,
		    const char *arg, int64_t fused);

/* First walk and second walk of each kind. */
typedef void st_layer_fn(struct st_lowering *l);
#define LAYER(kind, ...)               \
	st_layer_fn st_declare_##kind; \
	st_layer_fn st_lower_##kind;
#include "models/layers.def"

/* spread.c */
void st_spread_mesh(struct st_lowering *l);
/* Cuts a factor (-1: none) over tp, and flattens under ZeRO 3. */
void st_spread_param(const struct st_lowering *l, struct st_type *type,
		     int factor);
struct st_type st_spread_tokens(const struct st_lowering *l);
/* Marks a value with the layout of the residual stream. */
uint32_t st_spread_residual(struct st_lowering *l, const char *name,
			    uint32_t value);

#endif
