/* Writing safetensors: declare, create, write pieces, commit. */

#include "runtime/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/json.h"
#include "runtime/mapfile.h"
#include "runtime/utf8.h"

struct st_safetensors_slot {
	const char *name;
	enum st_file_dtype dtype;
	uint32_t rank;
	const int64_t *extent;
	uint64_t begin, bytes; /* in the data */
	uint64_t written;      /* added to by any thread */
};

static enum st_status
system_error(struct st_diag *diag, const char *path, const char *what,
	     int error)
{
	return st_error(diag, ST_EDEVICE, st_no_loc(), "%s: %s: %s", path, what,
			strerror(error));
}

void
st_safetensors_writer_init(struct st_safetensors_writer *writer,
			   struct st_arena *arena)
{
	memset(writer, 0, sizeof(*writer));
	writer->arena = arena;
	writer->descriptor = -1;
}

static bool
is_utf8(const char *text)
{
	size_t left = strlen(text), length;

	for (; left > 0; text += length, left -= length) {
		length = st_utf8_length(text, left);
		if (length == 0)
			return false;
	}
	return true;
}

static enum st_status
set_size(struct st_safetensors_writer *writer, struct st_diag *diag,
	 struct st_safetensors_slot *slot)
{
	int64_t bytes = (int64_t)st_file_dtype_size(slot->dtype), end;
	bool fits = true;

	if (writer->count > 0) {
		const struct st_safetensors_slot *last =
			&writer->slots[writer->count - 1];

		slot->begin = last->begin + last->bytes;
	}
	for (uint32_t i = 0; i < slot->rank; i++)
		if (slot->extent[i] < 0 ||
		    __builtin_mul_overflow(bytes, slot->extent[i], &bytes))
			fits = false;
	if (!fits || __builtin_add_overflow((int64_t)slot->begin, bytes, &end))
		return st_error(diag, ST_EUSAGE, st_no_loc(),
				"tensor '%s': extents are negative or "
				"overflow 63 bits",
				slot->name);
	slot->bytes = (uint64_t)bytes;
	return ST_OK;
}

enum st_status
st_safetensors_declare(struct st_safetensors_writer *writer,
		       struct st_diag *diag, const char *name,
		       enum st_file_dtype dtype, uint32_t rank,
		       const int64_t *extent)
{
	struct st_safetensors_slot slot = {.dtype = dtype, .rank = rank};
	struct st_safetensors_slot *slots;
	int64_t *copy;

	if (rank > ST_TENSOR_RANK || !is_utf8(name) ||
	    strcmp(name, "__metadata__") == 0)
		return st_error(diag, ST_EUSAGE, st_no_loc(),
				"tensor '%s': the name or the rank cannot be "
				"written",
				st_json_show(diag->arena, name, strlen(name)));
	slot.name = st_arena_strndup(writer->arena, name, strlen(name));
	copy = st_arena_array(writer->arena, rank, sizeof(*copy));
	slots = st_arena_grow(writer->arena, writer->slots, writer->count,
			      &writer->capacity, writer->count + 1,
			      sizeof(*slots));
	if (!slot.name || !copy || !slots)
		return st_error_memory(diag);
	if (rank)
		memcpy(copy, extent, rank * sizeof(*copy));
	slot.extent = copy;
	writer->slots = slots;
	ST_TRY(set_size(writer, diag, &slot));
	slots[writer->count++] = slot;
	return ST_OK;
}

enum st_status
st_safetensors_note(struct st_safetensors_writer *writer, struct st_diag *diag,
		    const char *key, const char *value)
{
	struct st_file_metadata *metadata;

	for (size_t i = 0; i < writer->metadata_count; i++)
		if (strcmp(writer->metadata[i].key, key) == 0)
			return st_error(diag, ST_EUSAGE, st_no_loc(),
					"metadata '%s' is given twice", key);
	metadata = st_arena_grow(writer->arena, writer->metadata,
				 writer->metadata_count,
				 &writer->metadata_capacity,
				 writer->metadata_count + 1, sizeof(*metadata));
	if (!metadata)
		return st_error_memory(diag);
	writer->metadata = metadata;
	metadata += writer->metadata_count;
	metadata->key = st_arena_strndup(writer->arena, key, strlen(key));
	metadata->value = st_arena_strndup(writer->arena, value, strlen(value));
	if (!metadata->key || !metadata->value)
		return st_error_memory(diag);
	writer->metadata_count++;
	return ST_OK;
}

static int
compare_names(const void *left, const void *right)
{
	const char *const *a = left, *const *b = right;

	return strcmp(*a, *b);
}

static enum st_status
check_names(struct st_safetensors_writer *writer, struct st_diag *diag)
{
	const char **names =
		st_arena_array(writer->arena, writer->count, sizeof(*names));

	if (!names)
		return st_error_memory(diag);
	for (size_t i = 0; i < writer->count; i++)
		names[i] = writer->slots[i].name;
	qsort(names, writer->count, sizeof(*names), compare_names);
	for (size_t i = 1; i < writer->count; i++)
		if (strcmp(names[i - 1], names[i]) == 0)
			return st_error(diag, ST_EUSAGE, st_no_loc(),
					"tensor '%s' is declared twice",
					names[i]);
	return ST_OK;
}

static void
print_slot(struct st_json_writer *json, const struct st_safetensors_slot *slot)
{
	st_json_key(json, slot->name);
	st_json_begin_object(json);
	st_json_key(json, "dtype");
	st_json_string(json, st_file_dtype_name(slot->dtype));
	st_json_key(json, "shape");
	st_json_begin_array(json);
	for (uint32_t i = 0; i < slot->rank; i++)
		st_json_integer(json, slot->extent[i]);
	st_json_end_array(json);
	st_json_key(json, "data_offsets");
	st_json_begin_array(json);
	st_json_integer(json, (int64_t)slot->begin);
	st_json_integer(json, (int64_t)(slot->begin + slot->bytes));
	st_json_end_array(json);
	st_json_end_object(json);
}

/* The length, the JSON and its padding. */
static bool
print_header(const struct st_safetensors_writer *writer,
	     struct st_buffer *buffer)
{
	struct st_json_writer json;
	uint64_t length;

	st_json_put_buffer(buffer, "        ", 8);
	st_json_writer_init(&json, st_json_put_buffer, buffer);
	st_json_begin_object(&json);
	if (writer->metadata_count) {
		st_json_key(&json, "__metadata__");
		st_json_begin_object(&json);
		for (size_t i = 0; i < writer->metadata_count; i++) {
			st_json_key(&json, writer->metadata[i].key);
			st_json_string(&json, writer->metadata[i].value);
		}
		st_json_end_object(&json);
	}
	for (size_t i = 0; i < writer->count; i++)
		print_slot(&json, &writer->slots[i]);
	st_json_end_object(&json);
	if (st_json_writer_finish(&json) != ST_OK ||
	    st_json_put_buffer(buffer, "       ",
			       (8 - buffer->length % 8) % 8) != 0)
		return false;
	length = buffer->length - 8;
	for (int i = 0; i < 8; i++)
		buffer->text[i] = (char)(unsigned char)(length >> 8 * i);
	return true;
}

/* Returns 0 or errno. */
static int
write_all(int descriptor, const char *data, size_t bytes, uint64_t at)
{
	while (bytes > 0) {
		ssize_t put = pwrite(descriptor, data, bytes, (off_t)at);

		if (put < 0 && errno != EINTR)
			return errno;
		if (put > 0) {
			data += put;
			bytes -= (size_t)put;
			at += (uint64_t)put;
		}
	}
	return 0;
}

/* A name beside path that nobody has; processes that share the folder over a
 * network may have the same id, hence the loop. */
static enum st_status
open_temporary(struct st_safetensors_writer *writer, struct st_diag *diag)
{
	int error = EEXIST;

	for (int i = 0; i < 1000 && error == EEXIST; i++) {
		const char *name =
			st_arena_printf(writer->arena, "%s.%ld.%d.tmp",
					writer->path, (long)getpid(), i);

		if (!name)
			return st_error_memory(diag);
		writer->descriptor = open(
			name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		error = errno;
		if (writer->descriptor >= 0) {
			writer->temporary = name;
			return ST_OK;
		}
	}
	return st_mapfile_error(diag, writer->path, "cannot create", error);
}

static enum st_status
begin_file(struct st_safetensors_writer *writer, struct st_diag *diag,
	   const struct st_buffer *header)
{
	uint64_t size = header->length;
	int error;

	if (writer->count > 0) {
		const struct st_safetensors_slot *last =
			&writer->slots[writer->count - 1];

		size += last->begin + last->bytes;
	}
	error = write_all(writer->descriptor, header->text, header->length, 0);
	if (!error && ftruncate(writer->descriptor, (off_t)size) != 0)
		error = errno;
	if (!error)
		return ST_OK;
	return system_error(diag, writer->temporary, "cannot write", error);
}

enum st_status
st_safetensors_create(struct st_safetensors_writer *writer,
		      struct st_diag *diag, const char *path)
{
	struct st_buffer header = {.arena = writer->arena};
	enum st_status status;

	ST_TRY(check_names(writer, diag));
	writer->path = st_arena_strndup(writer->arena, path, strlen(path));
	if (!writer->path || !print_header(writer, &header))
		return st_error_memory(diag);
	writer->data_begin = header.length;
	ST_TRY(open_temporary(writer, diag));
	status = begin_file(writer, diag, &header);
	if (status != ST_OK)
		st_safetensors_abort(writer);
	return status;
}

enum st_status
st_safetensors_write(struct st_safetensors_writer *writer, struct st_diag *diag,
		     size_t index, uint64_t at, const void *data, size_t bytes)
{
	struct st_safetensors_slot *slot = &writer->slots[index];
	int error;

	if (at > slot->bytes || bytes > slot->bytes - at)
		return st_error(diag, ST_EUSAGE, st_no_loc(),
				"tensor '%s' has %llu bytes, %zu were to be "
				"written from %llu on",
				slot->name, (unsigned long long)slot->bytes,
				bytes, (unsigned long long)at);
	error = write_all(writer->descriptor, data, bytes,
			  writer->data_begin + slot->begin + at);
	if (error)
		return system_error(diag, writer->temporary, "cannot write",
				    error);
	__atomic_fetch_add(&slot->written, bytes, __ATOMIC_RELAXED);
	return ST_OK;
}

static enum st_status
check_complete(const struct st_safetensors_writer *writer, struct st_diag *diag)
{
	for (size_t i = 0; i < writer->count; i++) {
		const struct st_safetensors_slot *slot = &writer->slots[i];
		uint64_t written =
			__atomic_load_n(&slot->written, __ATOMIC_RELAXED);

		if (written != slot->bytes)
			return st_error(diag, ST_EUSAGE, st_no_loc(),
					"tensor '%s': %llu of %llu bytes were "
					"written",
					slot->name, (unsigned long long)written,
					(unsigned long long)slot->bytes);
	}
	return ST_OK;
}

/* Makes the rename durable.  Some file systems cannot sync a folder; the
 * file itself is complete either way. */
static void
sync_folder(struct st_safetensors_writer *writer)
{
	const char *slash = strrchr(writer->path, '/');
	const char *folder =
		slash ? st_arena_strndup(writer->arena, writer->path,
					 (size_t)(slash - writer->path) + 1)
		      : ".";
	int descriptor =
		folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (descriptor < 0)
		return;
	fsync(descriptor);
	close(descriptor);
}

static enum st_status
publish(struct st_safetensors_writer *writer, struct st_diag *diag)
{
	int descriptor = writer->descriptor;

	if (fsync(descriptor) != 0)
		return system_error(diag, writer->temporary, "cannot sync",
				    errno);
	writer->descriptor = -1;
	if (close(descriptor) != 0)
		return system_error(diag, writer->temporary, "cannot close",
				    errno);
	if (rename(writer->temporary, writer->path) != 0)
		return system_error(diag, writer->path, "cannot rename to it",
				    errno);
	writer->temporary = NULL;
	sync_folder(writer);
	return ST_OK;
}

enum st_status
st_safetensors_commit(struct st_safetensors_writer *writer,
		      struct st_diag *diag)
{
	enum st_status status = check_complete(writer, diag);

	if (status == ST_OK)
		status = publish(writer, diag);
	if (status != ST_OK)
		st_safetensors_abort(writer);
	return status;
}

void
st_safetensors_abort(struct st_safetensors_writer *writer)
{
	if (writer->descriptor >= 0)
		close(writer->descriptor);
	if (writer->temporary)
		unlink(writer->temporary);
	writer->descriptor = -1;
	writer->temporary = NULL;
}
