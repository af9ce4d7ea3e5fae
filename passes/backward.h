#ifndef ST_BACKWARD_H
#define ST_BACKWARD_H

/*
 * The backward pass of one entry, as a piece that `grad` puts into several
 * entries: copy the forward nodes, then walk them in reverse.
 *
 * What the backward pass reads of the forward one is either kept or, by the
 * recompute policy, computed again next to its use:
 *   selective  norms, activations and rotary embeddings
 *   full       everything inside a layer; what crosses layers is kept
 */

#include "passes/grad.h"

enum st_recompute { ST_RECOMPUTE_NONE, ST_RECOMPUTE_SELECTIVE,
		    ST_RECOMPUTE_FULL };

struct st_grad_list; /* gradients of one value that wait to be summed */

struct st_grad_state {
	const struct st_module *in;
	const struct st_entry *entry; /* of `in`: the forward pass */
	struct st_builder *b;
	struct st_arena *arena;
	enum st_recompute recompute;
	uint8_t reduce_dtype_set;
	enum st_dtype reduce_dtype; /* of gradients of params */
	double loss_factor;         /* 1 / micro-batches */

	/* By value of `in`. */
	uint32_t *forward; /* its copy; states and inputs set by the caller */
	uint32_t *again;   /* computed again in the backward pass */
	struct st_grad_list **gradient;
	uint8_t *wanted;  /* something trainable depends on it */
	uint8_t *crosses; /* read in another layer than its own */
	uint32_t *first_reader; /* of a param: node of `in` */

	/* Called when the gradient of a param is complete. */
	void (*param_done)(void *user, uint32_t param, uint32_t gradient);
	void *user;
};

/* Sizes the tables for the module and finds what is wanted and what crosses;
 * ST_EDEVICE without memory. */
enum st_status st_backward_init(struct st_grad_state *state,
				const struct st_module *in,
				const struct st_entry *entry,
				struct st_builder *builder);

/* Copies the forward nodes into the open entry. */
void st_backward_forward(struct st_grad_state *state);

/* Walks back from the value `loss` of `in`, which an xent_loss must make. */
void st_backward_run(struct st_grad_state *state, uint32_t loss);

#endif
