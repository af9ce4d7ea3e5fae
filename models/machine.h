#ifndef ST_MODELS_MACHINE_H
#define ST_MODELS_MACHINE_H

/*
 * Machine files (models/machines/<name>.yaml) to and from struct st_machine.
 *
 * Unknown keys, wrong kinds, rates that are not above 0, two forms of one
 * collective and rank count, and missing keys are ST_EINPUT with located
 * messages; the machine is then not to be used.  Names point into the arena.
 */

#include "ir/diag.h"
#include "ir/machine.h"
#include "ir/text.h"

/* A path holds a '/' or ends in .yaml or .yml; else it is the name of a file
 * in the folder `machines` beside one of the directories of `search`
 * (NULL-terminated, without a slash at their end, as for families). */
enum st_status st_machine_load(struct st_arena *arena, struct st_diag *diag,
			       const char *name_or_path,
			       const char *const *search,
			       struct st_machine *machine);

/* The same from a source that st_diag_add_source knows. */
enum st_status st_machine_parse(struct st_arena *arena, struct st_diag *diag,
				uint32_t source, struct st_machine *machine);

/* As YAML that loads to an equal machine; what is 0 is left out. */
void st_machine_print(const struct st_machine *machine, struct st_buffer *out);

#endif
