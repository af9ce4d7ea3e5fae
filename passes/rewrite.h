#ifndef ST_REWRITE_H
#define ST_REWRITE_H

/*
 * Making the next module from a ranked one, entry by entry: what a pass does
 * not touch it copies.
 *
 *   st_rewrite_init(&w, in);
 *   for each entry e:
 *       st_rewrite_begin(&w, e);          its inputs
 *       st_rewrite_node(&w, n) ...        nodes, in any legal order
 *       st_rewrite_end(&w, e);            what it returns
 */

#include "ir/build.h"

struct st_rewrite {
	const struct st_module *in;
	struct st_module *out;
	struct st_builder b; /* over out, for new nodes */
	uint32_t *map;       /* by value of `in`: its value in `out` */
};

/* Copies the states. */
enum st_status st_rewrite_init(struct st_rewrite *w,
			       const struct st_module *in);
void st_rewrite_begin(struct st_rewrite *w, const struct st_entry *entry);
void st_rewrite_end(struct st_rewrite *w, const struct st_entry *entry);

/* Copies a node over the mapped operands and maps its results.  Types are
 * taken as they are: the verifier looks at the whole afterwards. */
void st_rewrite_node(struct st_rewrite *w, uint32_t node);

/* The same for a collective, in another bucket; -1: in none. */
void st_rewrite_bucket(struct st_rewrite *w, uint32_t node, int64_t bucket);

/* "NAME.mark" of a value of `in`, in the module's names. */
uint32_t st_rewrite_name(struct st_rewrite *w, uint32_t value,
			 const char *mark);

/* What went wrong, if anything. */
enum st_status st_rewrite_status(const struct st_rewrite *w);

#endif
