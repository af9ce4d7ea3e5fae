#ifndef ST_MAPFILE_H
#define ST_MAPFILE_H

/*
 * A regular file, mapped for reading.
 *
 * A path that is wrong (missing, not a file, not ours to read) is ST_EINPUT,
 * any other failure of the system ST_EDEVICE; both carry its text.
 */

#include <stddef.h>
#include <stdint.h>

#include "ir/diag.h"

struct st_mapfile {
	const unsigned char *data; /* NULL if size is 0 */
	uint64_t size;
	int descriptor;
	struct st_loc loc; /* offset 0; its source is the path */
};

enum st_status st_mapfile_open(struct st_mapfile *file, struct st_diag *diag,
			       const char *path);

/* Only after a successful open. */
void st_mapfile_close(struct st_mapfile *file);

/* Bytes [at, at + bytes) by read(2): unlike a load from the map it fails
 * cleanly if the file has shrunk since. */
enum st_status st_mapfile_read(const struct st_mapfile *file,
			       struct st_diag *diag, uint64_t at, void *out,
			       size_t bytes);

/* ST_EINPUT for a path that cannot be right, else ST_EDEVICE. */
enum st_status st_mapfile_error(struct st_diag *diag, const char *path,
				const char *what, int error);

static inline struct st_loc
st_mapfile_loc(const struct st_mapfile *file, uint64_t offset)
{
	struct st_loc loc = file->loc;

	loc.offset = offset;
	return loc;
}

#endif
