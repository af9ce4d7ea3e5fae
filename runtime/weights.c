/* Params to and from safetensors. */

#include "runtime/weights.h"

#include "kernels/cpu/cpu.h"
#include "runtime/safetensors.h"

#include <stdlib.h>
#include <string.h>

static enum st_file_dtype
file_dtype(enum st_dtype dtype)
{
	static const enum st_file_dtype map[] = {ST_FILE_F64, ST_FILE_F32,
						 ST_FILE_BF16, ST_FILE_I32,
						 ST_FILE_U8};

	return map[dtype];
}

static int
from_file_dtype(enum st_file_dtype dtype)
{
	switch (dtype) {
	case ST_FILE_F64: return ST_F64;
	case ST_FILE_F32: return ST_F32;
	case ST_FILE_BF16: return ST_BF16;
	default: return -1;
	}
}

/* Extents as files have them: factors multiplied out. */
static uint32_t
shape_of(const struct st_type *type, int64_t shape[ST_MAX_FACTORS])
{
	int rank = st_type_rank(type);

	for (int i = 0; i < rank; i++) {
		shape[i] = 1;
		for (int f = st_type_first(type, i); f < st_type_end(type, i);
		     f++)
			shape[i] *= type->f[f].size;
	}
	return (uint32_t)rank;
}

/* "[128, 256]". */
static const char *
shape_text(struct st_arena *arena, uint32_t rank, const int64_t *extent)
{
	struct st_buffer out;

	st_buffer_init(&out, arena);
	st_buffer_puts(&out, "[");
	for (uint32_t i = 0; i < rank; i++)
		st_buffer_printf(&out, "%s%lld", i ? ", " : "",
				 (long long)extent[i]);
	st_buffer_puts(&out, "]");
	return out.text ? out.text : "";
}

static enum st_status
check_shape(struct st_diag *diag, const struct st_tensor_entry *tensor,
	    const struct st_type *type)
{
	int64_t shape[ST_MAX_FACTORS];
	uint32_t rank = shape_of(type, shape);
	int same = rank == tensor->rank;

	for (uint32_t i = 0; same && i < rank; i++)
		same = shape[i] == tensor->extent[i];
	if (!same)
		return st_error(
			diag, ST_EINPUT, tensor->loc,
			"tensor '%s' has shape %s, the model's param has %s",
			tensor->name,
			shape_text(diag->arena, tensor->rank, tensor->extent),
			shape_text(diag->arena, rank, shape));
	if (from_file_dtype(tensor->dtype) < 0)
		return st_error(diag, ST_EINPUT, tensor->loc,
				"tensor '%s' is %s; want F64, F32 or BF16",
				tensor->name,
				st_file_dtype_name(tensor->dtype));
	return ST_OK;
}

/* A file that is being read, and which of its tensors some param has. */
struct source {
	struct st_safetensors file;
	const char *path;
	char *used;
};

static const struct st_tensor_entry *
find(const struct st_safetensors *file, struct st_arena *arena,
     const char *name)
{
	const struct st_tensor_entry *tensor =
		st_safetensors_find(file, name);
	const char *longer;

	if (tensor)
		return tensor;
	longer = st_arena_printf(arena, "transformer.%s", name);
	return longer ? st_safetensors_find(file, longer) : NULL;
}

static void
convert(const void *from, enum st_dtype from_dtype, void *to,
	enum st_dtype to_dtype, int64_t count)
{
	/* The kernel only reads its operand. */
	void *ptr[2] = {(void *)(uintptr_t)from, to};
	struct st_kernel k;

	memset(&k, 0, sizeof(k));
	k.ptr = ptr;
	k.pointers = 2;
	k.dtype = (int32_t)to_dtype;
	k.cast.count = count;
	k.cast.from = (int32_t)from_dtype;
	k.cast.to = (int32_t)to_dtype;
	if (from_dtype == to_dtype)
		memcpy(to, from, (size_t)count * st_dtype_size(to_dtype));
	else
		st_cpu_cast(&k);
}

/* The master copy of a param: the state of its name and ".master". */
static uint32_t
master_of(const struct st_module *m, struct st_arena *arena, const char *name)
{
	const char *text = st_arena_printf(arena, "%s.master", name);

	for (uint32_t i = 0; text && i < m->states.count; i++)
		if (strcmp(st_value_name(m, m->states.at[i].value), text) == 0)
			return i;
	return ST_NONE;
}

/* Reads one tensor and writes it into the state, converted. */
static enum st_status
load_into(struct st_session *session, struct st_diag *diag,
	  const struct st_safetensors *file,
	  const struct st_tensor_entry *tensor, const struct st_module *m,
	  uint32_t state)
{
	const struct st_type *type =
		st_value_type(m, m->states.at[state].value);
	int64_t n = st_type_elements(type);
	void *raw = malloc(tensor->bytes ? tensor->bytes : 1);
	void *made = malloc((size_t)n * st_dtype_size(type->dtype));
	enum st_status status = ST_EDEVICE;

	if (raw && made)
		status = st_safetensors_read(file, diag, tensor, 0, raw,
					     tensor->bytes);
	else
		st_error_memory(diag);
	if (status == ST_OK) {
		convert(raw, (enum st_dtype)from_file_dtype(tensor->dtype),
			made, type->dtype, n);
		status = st_session_write_state(session, state, made);
	}
	free(raw);
	free(made);
	return status;
}

static enum st_status
load_param(struct st_session *session, struct st_arena *arena,
	   struct st_diag *diag, const struct st_module *m,
	   struct source *source, uint32_t state)
{
	const struct st_safetensors *file = &source->file;
	uint32_t value = m->states.at[state].value, master;
	const char *name = st_value_name(m, value);
	const struct st_tensor_entry *tensor = find(file, arena, name);

	if (!tensor)
		return st_error(diag, ST_EINPUT,
				st_module_loc_at(m, m->states.at[state].loc),
				"%s has no tensor '%s'", source->path, name);
	source->used[tensor - file->tensors] = 1;
	ST_TRY(check_shape(diag, tensor, st_value_type(m, value)));
	ST_TRY(load_into(session, diag, file, tensor, m, state));
	master = master_of(m, arena, name);
	return master == ST_NONE ? ST_OK
				 : load_into(session, diag, file, tensor, m,
					     master);
}

/* Often buffers, or a head that is tied; or the weights of another model. */
static void
warn_unused(struct st_diag *diag, const struct source *source)
{
	const struct st_safetensors *file = &source->file;
	const struct st_tensor_entry *first = NULL;
	size_t n = 0;

	for (size_t i = 0; i < file->count; i++) {
		if (source->used[i])
			continue;
		if (!first)
			first = &file->tensors[i];
		n++;
	}
	if (n == 1)
		st_warn(diag, first->loc, "no param has tensor '%s'",
			first->name);
	else if (n > 1)
		st_warn(diag, first->loc,
			"no param has tensor '%s', nor %zu others of %zu",
			first->name, n - 1, file->count);
}

static enum st_status
load_all(struct st_session *session, struct st_arena *arena,
	 struct st_diag *diag, const struct st_module *m,
	 struct source *source)
{
	source->used = st_arena_alloc(arena, source->file.count + 1);
	if (!source->used)
		return st_error_memory(diag);
	for (uint32_t i = 0; i < m->states.count; i++)
		if (m->states.at[i].role == ST_ROLE_param)
			ST_TRY(load_param(session, arena, diag, m, source, i));
	warn_unused(diag, source);
	return ST_OK;
}

enum st_status
st_weights_load(struct st_session *session, struct st_arena *arena,
		struct st_diag *diag, const struct st_module *m,
		const char *path)
{
	struct source source;
	enum st_status status;

	memset(&source, 0, sizeof(source));
	source.path = path;
	ST_TRY(st_safetensors_open(&source.file, diag, path));
	status = load_all(session, arena, diag, m, &source);
	st_safetensors_close(&source.file);
	return status;
}

static enum st_status
declare(struct st_safetensors_writer *w, struct st_diag *diag,
	const struct st_module *m)
{
	for (size_t i = 0; i < m->states.count; i++) {
		const struct st_type *type =
			st_value_type(m, m->states.at[i].value);
		int64_t shape[ST_MAX_FACTORS];

		if (m->states.at[i].role != ST_ROLE_param)
			continue;
		ST_TRY(st_safetensors_declare(
			w, diag, st_value_name(m, m->states.at[i].value),
			file_dtype(type->dtype), shape_of(type, shape),
			shape));
	}
	return ST_OK;
}

static enum st_status
write_params(struct st_safetensors_writer *w, struct st_session *session,
	     struct st_diag *diag, const struct st_module *m)
{
	size_t index = 0;

	for (uint32_t i = 0; i < m->states.count; i++) {
		const struct st_type *type =
			st_value_type(m, m->states.at[i].value);
		size_t bytes = (size_t)st_type_elements(type) *
			       st_dtype_size(type->dtype);
		enum st_status status;
		void *data;

		if (m->states.at[i].role != ST_ROLE_param)
			continue;
		data = malloc(bytes);
		if (!data)
			return st_error_memory(diag);
		status = st_session_read_state(session, i, data);
		if (status == ST_OK)
			status = st_safetensors_write(w, diag, index++, 0,
						      data, bytes);
		free(data);
		ST_TRY(status);
	}
	return ST_OK;
}

enum st_status
st_weights_save(struct st_session *session, struct st_arena *arena,
		struct st_diag *diag, const struct st_module *m,
		const char *path)
{
	struct st_safetensors_writer w;
	enum st_status status;

	st_safetensors_writer_init(&w, arena);
	status = st_safetensors_note(&w, diag, "format", "pt");
	if (status == ST_OK)
		status = declare(&w, diag, m);
	if (status == ST_OK)
		status = st_safetensors_create(&w, diag, path);
	if (status == ST_OK)
		status = write_params(&w, session, diag, m);
	if (status == ST_OK)
		return st_safetensors_commit(&w, diag);
	st_safetensors_abort(&w);
	return status;
}
