/* Regular files mapped for reading. */

#include "runtime/mapfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum st_status
st_mapfile_error(struct st_diag *diag, const char *path, const char *what,
		 int error)
{
	bool wrong_path = error == ENOENT || error == ENOTDIR ||
			  error == EISDIR || error == EACCES ||
			  error == ELOOP || error == ENAMETOOLONG;

	return st_error(diag, wrong_path ? ST_EINPUT : ST_EDEVICE, st_no_loc(),
			"%s: %s: %s", path, what, strerror(error));
}

static enum st_status
map(struct st_mapfile *file, struct st_diag *diag, const char *path)
{
	struct stat stat;
	void *data;

	if (fstat(file->descriptor, &stat) != 0)
		return st_mapfile_error(diag, path, "cannot stat", errno);
	if (!S_ISREG(stat.st_mode))
		return st_error(diag, ST_EINPUT, st_no_loc(),
				"%s: not a regular file", path);
	file->size = (uint64_t)stat.st_size;
	file->loc.source = st_diag_add_source(diag, path, NULL, 0);
	if (!file->loc.source)
		return st_error_memory(diag);
	if (file->size == 0) /* which mmap refuses */
		return ST_OK;
	if (file->size > SIZE_MAX)
		return st_error(diag, ST_EDEVICE, st_no_loc(),
				"%s: larger than the address space", path);
	data = mmap(NULL, (size_t)file->size, PROT_READ, MAP_PRIVATE,
		    file->descriptor, 0);
	if (data == MAP_FAILED)
		return st_mapfile_error(diag, path, "cannot map", errno);
	file->data = data;
	return ST_OK;
}

enum st_status
st_mapfile_open(struct st_mapfile *file, struct st_diag *diag, const char *path)
{
	enum st_status status;

	memset(file, 0, sizeof(*file));
	/* Non-blocking, or a FIFO would wait for its writer. */
	file->descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (file->descriptor < 0)
		return st_mapfile_error(diag, path, "cannot open", errno);
	status = map(file, diag, path);
	if (status != ST_OK)
		close(file->descriptor);
	return status;
}

void
st_mapfile_close(struct st_mapfile *file)
{
	if (file->data)
		munmap((void *)file->data, (size_t)file->size);
	close(file->descriptor);
	memset(file, 0, sizeof(*file));
}

enum st_status
st_mapfile_read(const struct st_mapfile *file, struct st_diag *diag,
		uint64_t at, void *out, size_t bytes)
{
	struct st_loc loc = st_mapfile_loc(file, at);
	char *to = out;

	while (bytes > 0) {
		ssize_t got = pread(file->descriptor, to, bytes, (off_t)at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return st_error(diag, ST_EDEVICE, loc,
					"cannot read: %s", strerror(errno));
		if (got == 0)
			return st_error(diag, ST_EINPUT, loc,
					"file ends here, it was longer "
					"when it was opened");
		to += got;
		at += (uint64_t)got;
		bytes -= (size_t)got;
		loc.offset = at;
	}
	return ST_OK;
}
