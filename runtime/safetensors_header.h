#ifndef ST_SAFETENSORS_HEADER_H
#define ST_SAFETENSORS_HEADER_H

/*
 * One file's header, for safetensors.c alone: reads and checks it, and adds
 * its tensors and metadata to those of the model.
 */

#include "runtime/json.h"
#include "runtime/mapfile.h"
#include "runtime/safetensors.h"

struct st_shard {
	struct st_mapfile map;
	const char *name;
};

/* The format's own limit, taken for the index as well. */
extern const uint64_t st_safetensors_largest_header;

/* Decides which tensors of a shard belong to the model; those left out are
 * checked all the same, and are counted in a warning. */
struct st_safetensors_filter {
	bool (*wanted)(void *user, uint32_t shard, const char *name);
	void *user;
};

/* filter may be NULL: all of them. */
enum st_status
st_safetensors_load_header(struct st_safetensors *file, struct st_diag *diag,
			   uint32_t shard,
			   const struct st_safetensors_filter *filter);

/* The reader's last string as a C string; `what` names it in the error for a
 * string that holds a NUL. */
enum st_status st_safetensors_copy_string(struct st_json_reader *json,
					  const char *what, const char **copy);

#endif
