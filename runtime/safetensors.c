/* Reading safetensors: one file, a folder, or the index of a sharded model. */

#include "runtime/safetensors.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/safetensors_header.h"

enum { MOST_SHARDS = 1024 };

/* One line of weight_map. */
struct place {
	const char *name;
	uint32_t shard;
	bool found;
	struct st_loc loc;
};

/* What is known while one file is opened. */
struct opening {
	struct st_safetensors *file;
	struct st_diag *diag;
	struct place *places; /* sorted by name; none without an index */
	size_t place_count, place_capacity;
};

static const char *
show(struct st_diag *diag, const char *name)
{
	return st_json_show(diag->arena, name, strlen(name));
}

static enum st_status
add_shard(struct opening *opening, const char *path, const char *name)
{
	struct st_safetensors *file = opening->file;
	struct st_shard *shards = st_arena_grow(
		opening->diag->arena, file->shards, file->shard_count,
		&file->shard_capacity, file->shard_count + 1, sizeof(*shards));

	if (!shards)
		return st_error_memory(opening->diag);
	file->shards = shards;
	shards[file->shard_count].name = name;
	ST_TRY(st_mapfile_open(&shards[file->shard_count].map, opening->diag,
			       path));
	file->shard_count++;
	return ST_OK;
}

/* A shard lies beside its index: a name must not lead anywhere else. */
static enum st_status
check_shard_name(struct st_json_reader *json, const char *name)
{
	if (*name && !strchr(name, '/') && !strchr(name, '\\') &&
	    strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
		return ST_OK;
	return st_error(json->diag, ST_EINPUT, st_json_loc(json),
			"'%s' is not the name of a file beside the index",
			show(json->diag, name));
}

/* Finds the shard by name, or opens it. */
static enum st_status
find_shard(struct opening *opening, struct st_json_reader *json,
	   const char *folder, const char *name, uint32_t *shard)
{
	struct st_safetensors *file = opening->file;
	enum st_status status;
	const char *path;

	for (*shard = 0; *shard < file->shard_count; ++*shard)
		if (strcmp(file->shards[*shard].name, name) == 0)
			return ST_OK;
	if (file->shard_count == MOST_SHARDS)
		return st_error(json->diag, ST_EINPUT, st_json_loc(json),
				"more than %d shards", MOST_SHARDS);
	path = st_arena_printf(json->diag->arena, "%s%s", folder, name);
	if (!path)
		return st_error_memory(json->diag);
	status = add_shard(opening, path, name);
	if (status != ST_OK)
		st_note(json->diag, st_json_loc(json), "named here");
	return status;
}

static enum st_status
read_place(struct opening *opening, struct st_json_reader *json,
	   const char *folder)
{
	struct place place = {.loc = st_json_loc(json)}, *places;
	const char *name;

	ST_TRY(st_safetensors_copy_string(json, "name of a tensor",
					  &place.name));
	ST_TRY(st_json_expect(json, ST_JSON_STRING, "weight_map"));
	ST_TRY(st_safetensors_copy_string(json, "name of a shard", &name));
	ST_TRY(check_shard_name(json, name));
	ST_TRY(find_shard(opening, json, folder, name, &place.shard));
	places = st_arena_grow(opening->diag->arena, opening->places,
			       opening->place_count, &opening->place_capacity,
			       opening->place_count + 1, sizeof(*places));
	if (!places)
		return st_error_memory(opening->diag);
	opening->places = places;
	places[opening->place_count++] = place;
	return ST_OK;
}

static enum st_status
read_index(struct opening *opening, struct st_json_reader *json,
	   const char *folder)
{
	bool found = false;

	ST_TRY(st_json_expect(json, ST_JSON_OBJECT, "index"));
	while (st_json_next(json) == ST_JSON_KEY) {
		if (!st_json_is(json, "weight_map")) {
			ST_TRY(st_json_skip(json));
			continue;
		}
		found = true;
		ST_TRY(st_json_expect(json, ST_JSON_OBJECT, "weight_map"));
		while (st_json_next(json) == ST_JSON_KEY)
			ST_TRY(read_place(opening, json, folder));
		if (json->status != ST_OK)
			return json->status;
	}
	if (json->status != ST_OK)
		return json->status;
	ST_TRY(st_json_expect(json, ST_JSON_END, "index"));
	if (!found || opening->place_count == 0)
		return st_error(json->diag, ST_EINPUT, st_json_loc(json),
				found ? "weight_map is empty"
				      : "weight_map is missing");
	return ST_OK;
}

static enum st_status
load_index(struct opening *opening, const char *path)
{
	const char *slash = strrchr(path, '/');
	struct st_json_reader json;
	struct st_mapfile map;
	enum st_status status;
	const char *folder;
	char *text = NULL;

	folder = st_arena_strndup(opening->diag->arena, path,
				  slash ? (size_t)(slash - path) + 1 : 0);
	if (!folder)
		return st_error_memory(opening->diag);
	ST_TRY(st_mapfile_open(&map, opening->diag, path));
	if (map.size > st_safetensors_largest_header)
		status = st_error(
			opening->diag, ST_EINPUT, map.loc,
			"index of %llu bytes, at most %llu are read",
			(unsigned long long)map.size,
			(unsigned long long)st_safetensors_largest_header);
	else if (!(text = st_arena_alloc(opening->diag->arena,
					 (size_t)map.size)))
		status = st_error_memory(opening->diag);
	else
		status = st_mapfile_read(&map, opening->diag, 0, text,
					 (size_t)map.size);
	if (status == ST_OK) {
		st_json_reader_init(&json, opening->diag, map.loc.source, 0,
				    text, (size_t)map.size);
		status = read_index(opening, &json, folder);
	}
	st_mapfile_close(&map);
	return status;
}

static int
compare_place(const void *left, const void *right)
{
	const struct place *a = left, *b = right;

	return strcmp(a->name, b->name);
}

/* Is this the shard that weight_map names? */
static bool
is_placed(void *user, uint32_t shard, const char *name)
{
	struct opening *opening = user;
	struct place key = {.name = name}, *place;

	place = bsearch(&key, opening->places, opening->place_count,
			sizeof(key), compare_place);
	if (!place || place->shard != shard)
		return false;
	place->found = true;
	return true;
}

static enum st_status
load_sharded(struct opening *opening, const char *path)
{
	struct st_safetensors_filter filter = {is_placed, opening};

	ST_TRY(load_index(opening, path));
	qsort(opening->places, opening->place_count, sizeof(*opening->places),
	      compare_place);
	for (uint32_t i = 0; i < opening->file->shard_count; i++)
		ST_TRY(st_safetensors_load_header(opening->file, opening->diag,
						  i, &filter));
	for (size_t i = 0; i < opening->place_count; i++) {
		const struct place *place = &opening->places[i];

		if (!place->found)
			return st_error(
				opening->diag, ST_EINPUT, place->loc,
				"tensor '%s' is not in '%s'",
				show(opening->diag, place->name),
				show(opening->diag,
				     opening->file->shards[place->shard].name));
	}
	return ST_OK;
}

static bool
is_index(const char *path)
{
	static const char ending[] = ".index.json";
	size_t length = strlen(path);

	return length >= sizeof(ending) - 1 &&
	       strcmp(path + length - (sizeof(ending) - 1), ending) == 0;
}

/* What a folder's model is called; single file first. */
static enum st_status
choose_in_folder(struct st_diag *diag, const char **path)
{
	static const char *const names[] = {"model.safetensors",
					    "model.safetensors.index.json"};
	struct stat stat_;

	if (stat(*path, &stat_) != 0)
		return st_mapfile_error(diag, *path, "cannot open", errno);
	if (!S_ISDIR(stat_.st_mode))
		return ST_OK;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *inner =
			st_arena_printf(diag->arena, "%s/%s", *path, names[i]);

		if (!inner)
			return st_error_memory(diag);
		if (access(inner, F_OK) == 0) {
			*path = inner;
			return ST_OK;
		}
	}
	return st_error(diag, ST_EINPUT, st_no_loc(),
			"%s: holds neither %s nor %s", *path, names[0],
			names[1]);
}

static int
compare_entry(const void *left, const void *right)
{
	const struct st_tensor_entry *const *a = left, *const *b = right;

	return strcmp((*a)->name, (*b)->name);
}

static enum st_status
sort_names(struct st_safetensors *file, struct st_diag *diag)
{
	file->by_name = st_arena_array(diag->arena, file->count,
				       sizeof(*file->by_name));
	if (!file->by_name)
		return st_error_memory(diag);
	for (size_t i = 0; i < file->count; i++)
		file->by_name[i] = &file->tensors[i];
	qsort(file->by_name, file->count, sizeof(*file->by_name),
	      compare_entry);
	return ST_OK;
}

static enum st_status
load(struct opening *opening, const char *path)
{
	ST_TRY(choose_in_folder(opening->diag, &path));
	if (is_index(path)) {
		ST_TRY(load_sharded(opening, path));
	} else {
		ST_TRY(add_shard(opening, path, path));
		ST_TRY(st_safetensors_load_header(opening->file, opening->diag,
						  0, NULL));
	}
	return sort_names(opening->file, opening->diag);
}

enum st_status
st_safetensors_open(struct st_safetensors *file, struct st_diag *diag,
		    const char *path)
{
	struct opening opening = {.file = file, .diag = diag};
	enum st_status status;

	memset(file, 0, sizeof(*file));
	status = load(&opening, path);
	if (status != ST_OK)
		st_safetensors_close(file);
	return status;
}

void
st_safetensors_close(struct st_safetensors *file)
{
	for (size_t i = 0; i < file->shard_count; i++)
		st_mapfile_close(&file->shards[i].map);
	memset(file, 0, sizeof(*file));
}

const struct st_tensor_entry *
st_safetensors_find(const struct st_safetensors *file, const char *name)
{
	size_t low = 0, high = file->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(name, file->by_name[middle]->name);

		if (order == 0)
			return file->by_name[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

const char *
st_safetensors_metadata(const struct st_safetensors *file, const char *key)
{
	for (size_t i = 0; i < file->metadata_count; i++)
		if (strcmp(file->metadata[i].key, key) == 0)
			return file->metadata[i].value;
	return NULL;
}

enum st_status
st_safetensors_read(const struct st_safetensors *file, struct st_diag *diag,
		    const struct st_tensor_entry *tensor, uint64_t at,
		    void *out, size_t bytes)
{
	if (at > tensor->bytes || bytes > tensor->bytes - at)
		return st_error(diag, ST_EUSAGE, tensor->loc,
				"tensor '%s' has %llu bytes, asked for %zu "
				"from %llu on",
				show(diag, tensor->name),
				(unsigned long long)tensor->bytes, bytes,
				(unsigned long long)at);
	return st_mapfile_read(&file->shards[tensor->shard].map, diag,
			       tensor->offset + at, out, bytes);
}
