#ifndef ST_SAFETENSORS_H
#define ST_SAFETENSORS_H

/*
 * Weights and checkpoints: safetensors files, read by mmap.
 *
 * A file is a 64-bit little-endian length, a JSON header of that length
 * ({name: {dtype, shape, data_offsets}}) and the packed data.  Everything in
 * the header is checked before the first tensor is handed out, so a reader
 * of the data needs no check of its own.  A path may also name the index of
 * a sharded model (*.index.json) or a directory that holds model.safetensors
 * or model.safetensors.index.json; all shards are then opened as one.
 *
 * Errors in a file are ST_EINPUT at its byte offset; errors of the system are
 * ST_EDEVICE.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ir/diag.h"

/* X(name in the file, bytes) */
#define ST_FILE_DTYPES(X) \
	X(F64, 8)         \
	X(F32, 4)         \
	X(F16, 2)         \
	X(BF16, 2)        \
	X(I64, 8)         \
	X(I32, 4)         \
	X(I16, 2)         \
	X(I8, 1)          \
	X(U64, 8)         \
	X(U32, 4)         \
	X(U16, 2)         \
	X(U8, 1)          \
	X(BOOL, 1)        \
	X(F8_E4M3, 1)     \
	X(F8_E5M2, 1)     \
	X(F8_E8M0, 1)

enum st_file_dtype {
#define X(name, size) ST_FILE_##name,
	ST_FILE_DTYPES(X)
#undef X
		ST_FILE_DTYPE_COUNT
};

enum { ST_TENSOR_RANK = 16 }; /* highest number of extents in a file */

const char *st_file_dtype_name(enum st_file_dtype dtype);
size_t st_file_dtype_size(enum st_file_dtype dtype);

struct st_tensor_entry {
	const char *name;
	enum st_file_dtype dtype;
	uint32_t rank;
	const int64_t *extent; /* none for a scalar, which has one element */
	uint64_t bytes;
	/* In the map; NULL if bytes is 0.  Row-major, little-endian, and not
	 * always aligned to its element: the header's length decides. */
	const void *data;
	struct st_loc loc; /* of the name, for messages about this tensor */
	uint32_t shard;
	uint64_t offset; /* of data, in the shard */
};

struct st_file_metadata {
	const char *key, *value;
};

struct st_shard;

struct st_safetensors {
	struct st_tensor_entry *tensors; /* in the order of the files */
	size_t count;
	struct st_file_metadata *metadata; /* of the first shard */
	size_t metadata_count;

	struct st_shard *shards;
	size_t shard_count, shard_capacity;
	size_t tensor_capacity, metadata_capacity;
	const struct st_tensor_entry **by_name; /* sorted */
};

/* Opens path; names and tables are kept in diag's arena.  On failure nothing
 * stays open.  A file that another process truncates later can still fault
 * when data is touched: use st_safetensors_read where that may happen. */
enum st_status st_safetensors_open(struct st_safetensors *file,
				   struct st_diag *diag, const char *path);

/* Unmaps everything; accepts zeroes, and a second call. */
void st_safetensors_close(struct st_safetensors *file);

/* NULL if there is no such tensor. */
const struct st_tensor_entry *
st_safetensors_find(const struct st_safetensors *file, const char *name);

/* NULL if there is no such key. */
const char *st_safetensors_metadata(const struct st_safetensors *file,
				    const char *key);

/* Copies bytes [at, at + bytes) of a tensor with read(2), which reports a
 * file that shrank instead of faulting. */
enum st_status st_safetensors_read(const struct st_safetensors *file,
				   struct st_diag *diag,
				   const struct st_tensor_entry *tensor,
				   uint64_t at, void *out, size_t bytes);

/*
 * Writing.  Declare every tensor, create, write the data in pieces of any
 * order, commit.  The file appears under its name only at commit; until then
 * it lies beside it under a temporary one.  The same declarations and data
 * give the same bytes: tensors lie in the order declared, metadata too, and
 * the header is padded with spaces so that the data begins at a multiple
 * of 8.
 */
struct st_safetensors_slot;

struct st_safetensors_writer {
	struct st_arena *arena;
	const char *path, *temporary; /* temporary is NULL unless created */
	int descriptor;
	uint64_t data_begin;
	struct st_safetensors_slot *slots;
	size_t count, capacity;
	struct st_file_metadata *metadata;
	size_t metadata_count, metadata_capacity;
};

/* Names, values and tables are kept in arena until commit or abort. */
void st_safetensors_writer_init(struct st_safetensors_writer *writer,
				struct st_arena *arena);

/* The index of a tensor is the number of tensors declared before it. */
enum st_status st_safetensors_declare(struct st_safetensors_writer *writer,
				      struct st_diag *diag, const char *name,
				      enum st_file_dtype dtype, uint32_t rank,
				      const int64_t *extent);
enum st_status st_safetensors_note(struct st_safetensors_writer *writer,
				   struct st_diag *diag, const char *key,
				   const char *value);
enum st_status st_safetensors_create(struct st_safetensors_writer *writer,
				     struct st_diag *diag, const char *path);

/* Bytes [at, at + bytes) of a declared tensor.  May be called by several
 * threads at once, each with a diag of its own; pieces must not overlap. */
enum st_status st_safetensors_write(struct st_safetensors_writer *writer,
				    struct st_diag *diag, size_t index,
				    uint64_t at, const void *data,
				    size_t bytes);

/* Fails unless every tensor has got all its bytes; then makes the file
 * durable and visible, replacing an older one in one step.  After a failure
 * the temporary file is gone and the older one untouched. */
enum st_status st_safetensors_commit(struct st_safetensors_writer *writer,
				     struct st_diag *diag);

/* Removes the temporary file.  Accepts a writer that created none. */
void st_safetensors_abort(struct st_safetensors_writer *writer);

#endif
