/* One safetensors header, checked in full. */

#include "runtime/safetensors_header.h"

#include <stdlib.h>
#include <string.h>

const uint64_t st_safetensors_largest_header = 100000000;

/* What is known while one header is read. */
struct header {
	struct st_safetensors *file;
	const struct st_safetensors_filter *filter;
	struct st_diag *diag;
	struct st_json_reader json;
	uint32_t shard;
	uint64_t data_begin, data_bytes;
	size_t surplus; /* tensors that weight_map does not name here */
	const char *surplus_name;
	struct extent *extents;
	size_t extent_count, extent_capacity;
};

/* What part of the data a tensor claims. */
struct extent {
	uint64_t begin, end;
	const char *name;
	struct st_loc loc;
};

const char *
st_file_dtype_name(enum st_file_dtype dtype)
{
	static const char *const names[] = {
#define X(name, size) #name,
		ST_FILE_DTYPES(X)
#undef X
	};

	return names[dtype];
}

size_t
st_file_dtype_size(enum st_file_dtype dtype)
{
	static const unsigned char sizes[] = {
#define X(name, size) size,
		ST_FILE_DTYPES(X)
#undef X
	};

	return sizes[dtype];
}

static const char *
show(struct st_diag *diag, const char *name)
{
	return st_json_show(diag->arena, name, strlen(name));
}

enum st_status
st_safetensors_copy_string(struct st_json_reader *json, const char *what,
			   const char **copy)
{
	if (memchr(json->string, '\0', json->length))
		return st_error(json->diag, ST_EINPUT, st_json_loc(json),
				"%s contains a NUL", what);
	*copy = st_arena_strndup(json->diag->arena, json->string, json->length);
	return *copy ? ST_OK : st_error_memory(json->diag);
}

/* A number that the token before has begun. */
static enum st_status
check_natural(struct st_json_reader *json, const char *what)
{
	if (json->token == ST_JSON_ERROR)
		return json->status;
	if (json->token != ST_JSON_NUMBER)
		return st_error(json->diag, ST_EINPUT, st_json_loc(json),
				"%s: expected number, found %s", what,
				st_json_token_name(json->token));
	if (!json->whole)
		return st_error(json->diag, ST_EINPUT, st_json_loc(json),
				"%s: expected a whole number below 2^63", what);
	if (json->integer < 0)
		return st_error(json->diag, ST_EINPUT, st_json_loc(json),
				"%s: %lld is negative", what,
				(long long)json->integer);
	return ST_OK;
}

static enum st_status
read_dtype(struct st_json_reader *json, struct st_tensor_entry *tensor)
{
	ST_TRY(st_json_expect(json, ST_JSON_STRING, "dtype"));
	for (int i = 0; i < ST_FILE_DTYPE_COUNT; i++) {
		if (st_json_is(json,
			       st_file_dtype_name((enum st_file_dtype)i))) {
			tensor->dtype = (enum st_file_dtype)i;
			return ST_OK;
		}
	}
	return st_error(
		json->diag, ST_EINPUT, st_json_loc(json),
		"tensor '%s': unknown dtype '%s'",
		show(json->diag, tensor->name),
		st_json_show(json->diag->arena, json->string, json->length));
}

static enum st_status
read_shape(struct st_json_reader *json, struct st_tensor_entry *tensor)
{
	int64_t extent[ST_TENSOR_RANK], *copy;
	uint32_t rank = 0;

	ST_TRY(st_json_expect(json, ST_JSON_ARRAY, "shape"));
	while (st_json_next(json) != ST_JSON_ARRAY_END) {
		ST_TRY(check_natural(json, "shape"));
		if (rank == ST_TENSOR_RANK)
			return st_error(
				json->diag, ST_EINPUT, st_json_loc(json),
				"shape: more than %d extents", ST_TENSOR_RANK);
		extent[rank++] = json->integer;
	}
	copy = st_arena_array(json->diag->arena, rank, sizeof(*copy));
	if (!copy)
		return st_error_memory(json->diag);
	memcpy(copy, extent, rank * sizeof(*copy));
	tensor->extent = copy;
	tensor->rank = rank;
	return ST_OK;
}

static enum st_status
read_offsets(struct header *header, struct extent *extent)
{
	struct st_json_reader *json = &header->json;
	uint64_t offsets[2];

	ST_TRY(st_json_expect(json, ST_JSON_ARRAY, "data_offsets"));
	for (int i = 0; i < 2; i++) {
		st_json_next(json);
		ST_TRY(check_natural(json, "data_offsets"));
		offsets[i] = (uint64_t)json->integer;
	}
	extent->begin = offsets[0];
	extent->end = offsets[1];
	if (extent->begin > extent->end)
		return st_error(header->diag, ST_EINPUT, st_json_loc(json),
				"tensor '%s': data_offsets end at %llu, "
				"before they begin at %llu",
				show(header->diag, extent->name),
				(unsigned long long)extent->end,
				(unsigned long long)extent->begin);
	if (extent->end > header->data_bytes)
		return st_error(header->diag, ST_EINPUT, st_json_loc(json),
				"tensor '%s': data_offsets end at %llu, "
				"the file has %llu bytes of data",
				show(header->diag, extent->name),
				(unsigned long long)extent->end,
				(unsigned long long)header->data_bytes);
	return st_json_expect(json, ST_JSON_ARRAY_END, "data_offsets");
}

/* Bytes of a tensor; false if that overflows.  Nothing overflows where one
 * extent is 0. */
static bool
count_bytes(struct st_tensor_entry *tensor)
{
	int64_t bytes = (int64_t)st_file_dtype_size(tensor->dtype);
	bool fits = true;

	for (uint32_t i = 0; i < tensor->rank; i++)
		if (tensor->extent[i] == 0)
			bytes = 0;
	for (uint32_t i = 0; i < tensor->rank && bytes; i++)
		if (__builtin_mul_overflow(bytes, tensor->extent[i], &bytes))
			fits = false;
	tensor->bytes = (uint64_t)bytes;
	return fits;
}

enum { HAS_DTYPE = 1, HAS_SHAPE = 2, HAS_OFFSETS = 4, HAS_ALL = 7 };

static enum st_status
read_fields(struct header *header, struct st_tensor_entry *tensor,
	    struct extent *extent, unsigned *fields)
{
	struct st_json_reader *json = &header->json;

	ST_TRY(st_json_expect(json, ST_JSON_OBJECT, "tensor"));
	while (st_json_next(json) == ST_JSON_KEY) {
		if (st_json_is(json, "dtype")) {
			*fields |= HAS_DTYPE;
			ST_TRY(read_dtype(json, tensor));
		} else if (st_json_is(json, "shape")) {
			*fields |= HAS_SHAPE;
			ST_TRY(read_shape(json, tensor));
		} else if (st_json_is(json, "data_offsets")) {
			*fields |= HAS_OFFSETS;
			ST_TRY(read_offsets(header, extent));
		} else {
			return st_error(
				header->diag, ST_EINPUT, st_json_loc(json),
				"tensor '%s': unknown key '%s'",
				show(header->diag, tensor->name),
				st_json_show(header->diag->arena, json->string,
					     json->length));
		}
	}
	return json->status;
}

static enum st_status
check_tensor(struct header *header, struct st_tensor_entry *tensor,
	     const struct extent *extent, unsigned fields)
{
	uint64_t bytes = extent->end - extent->begin;

	if (fields != HAS_ALL)
		return st_error(header->diag, ST_EINPUT, tensor->loc,
				"tensor '%s': %s is missing",
				show(header->diag, tensor->name),
				!(fields & HAS_DTYPE)   ? "dtype"
				: !(fields & HAS_SHAPE) ? "shape"
							: "data_offsets");
	if (!count_bytes(tensor))
		return st_error(header->diag, ST_EINPUT, tensor->loc,
				"tensor '%s': size overflows 63 bits",
				show(header->diag, tensor->name));
	if (tensor->bytes != bytes)
		return st_error(header->diag, ST_EINPUT, tensor->loc,
				"tensor '%s': dtype and shape make %llu "
				"bytes, data_offsets %llu",
				show(header->diag, tensor->name),
				(unsigned long long)tensor->bytes,
				(unsigned long long)bytes);
	return ST_OK;
}

/* Does this file have the tensor for the whole model? */
static bool
is_wanted(struct header *header, const char *name)
{
	const struct st_safetensors_filter *filter = header->filter;

	if (!filter || filter->wanted(filter->user, header->shard, name))
		return true;
	if (header->surplus++ == 0)
		header->surplus_name = name;
	return false;
}

static enum st_status
keep_tensor(struct header *header, struct st_tensor_entry *tensor,
	    const struct extent *extent)
{
	struct st_safetensors *file = header->file;
	struct st_arena *arena = header->diag->arena;
	struct st_tensor_entry *tensors;
	struct extent *extents;

	extents = st_arena_grow(arena, header->extents, header->extent_count,
				&header->extent_capacity,
				header->extent_count + 1, sizeof(*extents));
	if (!extents)
		return st_error_memory(header->diag);
	header->extents = extents;
	extents[header->extent_count++] = *extent;
	if (!is_wanted(header, tensor->name))
		return ST_OK;
	tensors = st_arena_grow(arena, file->tensors, file->count,
				&file->tensor_capacity, file->count + 1,
				sizeof(*tensors));
	if (!tensors)
		return st_error_memory(header->diag);
	file->tensors = tensors;
	tensors[file->count++] = *tensor;
	return ST_OK;
}

static enum st_status
read_tensor(struct header *header)
{
	const struct st_mapfile *map = &header->file->shards[header->shard].map;
	struct st_tensor_entry tensor = {.shard = header->shard};
	struct extent extent = {0};
	unsigned fields = 0;

	ST_TRY(st_safetensors_copy_string(&header->json, "name of a tensor",
					  &tensor.name));
	tensor.loc = st_json_loc(&header->json);
	extent.name = tensor.name;
	extent.loc = tensor.loc;
	ST_TRY(read_fields(header, &tensor, &extent, &fields));
	ST_TRY(check_tensor(header, &tensor, &extent, fields));
	tensor.offset = header->data_begin + extent.begin;
	tensor.data = tensor.bytes ? map->data + tensor.offset : NULL;
	return keep_tensor(header, &tensor, &extent);
}

static enum st_status
read_metadata(struct header *header)
{
	struct st_safetensors *file = header->file;
	struct st_json_reader *json = &header->json;
	struct st_file_metadata entry, *grown;

	ST_TRY(st_json_expect(json, ST_JSON_OBJECT, "__metadata__"));
	while (st_json_next(json) == ST_JSON_KEY) {
		ST_TRY(st_safetensors_copy_string(json, "key of __metadata__",
						  &entry.key));
		ST_TRY(st_json_expect(json, ST_JSON_STRING, "__metadata__"));
		ST_TRY(st_safetensors_copy_string(json, "value in __metadata__",
						  &entry.value));
		if (header->shard > 0)
			continue;
		grown = st_arena_grow(header->diag->arena, file->metadata,
				      file->metadata_count,
				      &file->metadata_capacity,
				      file->metadata_count + 1, sizeof(*grown));
		if (!grown)
			return st_error_memory(header->diag);
		file->metadata = grown;
		grown[file->metadata_count++] = entry;
	}
	return json->status;
}

static int
compare_extent(const void *left, const void *right)
{
	const struct extent *a = left, *b = right;

	if (a->begin != b->begin)
		return a->begin < b->begin ? -1 : 1;
	if (a->end != b->end)
		return a->end < b->end ? -1 : 1;
	return 0;
}

static enum st_status
report_gap(struct header *header, const struct extent *extent, uint64_t end,
	   const char *before)
{
	if (extent->begin > end)
		return st_error(header->diag, ST_EINPUT, extent->loc,
				"bytes %llu to %llu of the data, before "
				"tensor '%s', belong to no tensor",
				(unsigned long long)end,
				(unsigned long long)extent->begin,
				show(header->diag, extent->name));
	return st_error(header->diag, ST_EINPUT, extent->loc,
			"tensor '%s' begins at byte %llu of the data, "
			"inside tensor '%s', which ends at %llu",
			show(header->diag, extent->name),
			(unsigned long long)extent->begin,
			show(header->diag, before), (unsigned long long)end);
}

/* Each byte of the data must belong to one tensor. */
static enum st_status
check_cover(struct header *header)
{
	const struct st_mapfile *map = &header->file->shards[header->shard].map;
	uint64_t end = 0;

	if (header->extent_count)
		qsort(header->extents, header->extent_count,
		      sizeof(*header->extents), compare_extent);
	for (size_t i = 0; i < header->extent_count; i++) {
		const struct extent *extent = &header->extents[i];

		if (extent->begin != end)
			return report_gap(header, extent, end,
					  i ? extent[-1].name : "");
		end = extent->end;
	}
	if (end == header->data_bytes)
		return ST_OK;
	return st_error(header->diag, ST_EINPUT,
			st_mapfile_loc(map, header->data_begin + end),
			"bytes %llu to %llu of the data, the last, belong to "
			"no tensor",
			(unsigned long long)end,
			(unsigned long long)header->data_bytes);
}

static enum st_status
read_header(struct header *header, const char *text, size_t size)
{
	const struct st_mapfile *map = &header->file->shards[header->shard].map;
	struct st_json_reader *json = &header->json;

	if (size == 0 || text[0] != '{')
		return st_error(header->diag, ST_EINPUT, st_mapfile_loc(map, 8),
				"header does not begin with '{'");
	st_json_reader_init(json, header->diag, map->loc.source, 8, text, size);
	st_json_next(json);
	while (st_json_next(json) == ST_JSON_KEY) {
		if (st_json_is(json, "__metadata__"))
			ST_TRY(read_metadata(header));
		else
			ST_TRY(read_tensor(header));
	}
	if (json->status != ST_OK)
		return json->status;
	ST_TRY(st_json_expect(json, ST_JSON_END, "header"));
	return check_cover(header);
}

/* As the length of a header, eight bytes of text would be beyond all disks.
 * Bytes from 0xf5 on are in no UTF-8. */
static int
is_text(const unsigned char *bytes)
{
	for (int i = 0; i < 8; i++)
		if ((bytes[i] < ' ' && !strchr("\n\r\t", bytes[i])) ||
		    bytes[i] == 0 || bytes[i] == 127 || bytes[i] >= 0xf5)
			return 0;
	return 1;
}

static enum st_status
load_header(struct header *header)
{
	const struct st_mapfile *map = &header->file->shards[header->shard].map;
	unsigned char length[8];
	uint64_t size = 0;
	char *text;

	if (map->size < 8)
		return st_error(header->diag, ST_EINPUT, map->loc,
				"file of %llu bytes has no room for the "
				"length of a header",
				(unsigned long long)map->size);
	ST_TRY(st_mapfile_read(map, header->diag, 0, length, 8));
	if (is_text(length))
		return st_error(header->diag, ST_EINPUT, map->loc,
				"this looks like %s, not like safetensors",
				memcmp(length, "stretto-", 8) == 0 ? "IR text"
								   : "text");
	for (int i = 7; i >= 0; i--)
		size = size << 8 | length[i];
	if (size > st_safetensors_largest_header)
		return st_error(
			header->diag, ST_EINPUT, map->loc,
			"header of %llu bytes, at most %llu are read",
			(unsigned long long)size,
			(unsigned long long)st_safetensors_largest_header);
	if (size > map->size - 8)
		return st_error(header->diag, ST_EINPUT, map->loc,
				"header of %llu bytes in a file of %llu",
				(unsigned long long)size,
				(unsigned long long)map->size);
	header->data_begin = 8 + size;
	header->data_bytes = map->size - header->data_begin;
	/* Not parsed in the map: the file might change underneath. */
	text = st_arena_alloc(header->diag->arena, (size_t)size);
	if (!text)
		return st_error_memory(header->diag);
	ST_TRY(st_mapfile_read(map, header->diag, 8, text, (size_t)size));
	return read_header(header, text, (size_t)size);
}

enum st_status
st_safetensors_load_header(struct st_safetensors *file, struct st_diag *diag,
			   uint32_t shard,
			   const struct st_safetensors_filter *filter)
{
	struct header header = {
		.file = file, .diag = diag, .shard = shard, .filter = filter};
	const struct st_mapfile *map = &file->shards[shard].map;

	ST_TRY(load_header(&header));
	if (header.surplus)
		st_warn(diag, map->loc,
			"tensor '%s' and %zu more that weight_map does not "
			"place here are left out",
			show(diag, header.surplus_name), header.surplus - 1);
	return ST_OK;
}
