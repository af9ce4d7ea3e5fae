#ifndef ST_IR_H
#define ST_IR_H

/* The text form of a module and its verifier.  Grammar: ir/README.md. */

#include "ir/graph.h"

/* Canonical: the same module gives the same bytes, and parsing them gives
 * the same module. */
void st_print(const struct st_module *module, struct st_buffer *out);

/* Reads a text into *module; source is what st_diag_add_source returned for
 * it.  Names, types and references are checked here, the rest by
 * st_verify. */
enum st_status st_parse(struct st_arena *arena, struct st_diag *diag,
			struct st_names *names, uint32_t source,
			struct st_module **module);

/*
 * Everything a module promises: operands defined before use, attributes
 * complete, types as inferred, states read before they are overwritten,
 * each result kept in a state of its type.  Reports every fault it finds, at
 * most ST_MAX_FAULTS.
 */
enum { ST_MAX_FAULTS = 20 };
enum st_status st_verify(const struct st_module *module);

#endif
