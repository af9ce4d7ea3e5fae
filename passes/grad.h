#ifndef ST_GRAD_H
#define ST_GRAD_H

/*
 * What a gradient rule sees and may do.
 *
 * For a node y = op(x...) of the forward pass the rule is called once, after
 * every use of y has been handled, with the gradients of its results (ST_NONE
 * where nothing depends on one).  It emits nodes through g->b and hands the
 * gradients of the operands to st_grad_give.
 */

#include "ir/build.h"

struct st_grad {
	struct st_builder *b;
	const struct st_module *in; /* the forward entry stands here */
	const struct st_node *node; /* of `in` */
	const uint32_t *dout;       /* by result, in the new module */
	double loss_factor;         /* of the loss itself: 1 / micro-batches */
	struct st_grad_state *state;
};

typedef void st_grad_fn(struct st_grad *g);

/* Operand or result i of the node, as a value of the new module that is live
 * in the backward pass (saved or computed again). */
uint32_t st_grad_operand(struct st_grad *g, int i);
uint32_t st_grad_result(struct st_grad *g, int i);

/* Does anything trainable depend on operand i? */
int st_grad_wanted(const struct st_grad *g, int i);

/* Gradient for operand i, or for any value of the forward entry. */
void st_grad_give(struct st_grad *g, int i, uint32_t gradient);
void st_grad_give_value(struct st_grad *g, uint32_t value, uint32_t gradient);

/* "NAME.dx" for the operand: its name with a mark, in the layer of the
 * node. */
const char *st_grad_name(struct st_grad *g, const char *mark);

/* Whole type of operand i, with the dtype its gradient is kept in. */
struct st_type st_grad_type(struct st_grad *g, int i);

/* One rule a row of ops.def; those without a gradient report it. */
#define OP(name, ...) st_grad_fn st_grad_of_##name;
#include "ir/ops.def"

extern st_grad_fn *const st_grad_rules[ST_OP_COUNT];

#endif
