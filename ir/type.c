/* Types and their arithmetic over the mesh. */

#include "ir/type.h"

#include <string.h>

static const char *const dtype_names[] = {"f64", "f32", "bf16", "i32", "u8"};

const char *
st_dtype_name(enum st_dtype dtype)
{
	return dtype_names[dtype];
}

int
st_dtype_find(const char *name, size_t length)
{
	for (int i = 0; i < ST_DTYPE_COUNT; i++)
		if (strlen(dtype_names[i]) == length &&
		    memcmp(dtype_names[i], name, length) == 0)
			return i;
	return -1;
}

struct st_type
st_type_scalar(enum st_dtype dtype)
{
	struct st_type type;

	memset(&type, 0, sizeof(type));
	type.dtype = (uint8_t)dtype;
	return type;
}

int
st_type_add_extent(struct st_type *type, int64_t size)
{
	if (type->factors == ST_MAX_FACTORS)
		return -1;
	type->f[type->factors].size = size;
	type->factors++;
	return 0;
}

int
st_type_join_factor(struct st_type *type, int64_t size)
{
	if (type->factors == 0 || st_type_add_extent(type, size))
		return -1;
	type->joined |= (uint8_t)(1u << (type->factors - 1));
	return 0;
}

int
st_type_equal(const struct st_type *a, const struct st_type *b)
{
	if (a->dtype != b->dtype || a->factors != b->factors ||
	    a->joined != b->joined || a->flat != b->flat ||
	    a->partial != b->partial || a->is_async != b->is_async ||
	    (a->partial && a->reduction != b->reduction))
		return 0;
	for (int i = 0; i < a->factors; i++)
		if (a->f[i].size != b->f[i].size ||
		    a->f[i].pad != b->f[i].pad || a->f[i].axes != b->f[i].axes)
			return 0;
	return 1;
}

int
st_type_same_factors(const struct st_type *a, const struct st_type *b)
{
	if (a->factors != b->factors || a->joined != b->joined)
		return 0;
	for (int i = 0; i < a->factors; i++)
		if (a->f[i].size != b->f[i].size)
			return 0;
	return 1;
}

int
st_type_rank(const struct st_type *type)
{
	return type->factors - __builtin_popcount(type->joined);
}

int
st_type_first(const struct st_type *type, int extent)
{
	int f = 0;

	for (; f < type->factors; f++)
		if (!(type->joined >> f & 1) && extent-- == 0)
			break;
	return f;
}

int
st_type_end(const struct st_type *type, int extent)
{
	return st_type_first(type, extent + 1);
}

int64_t
st_mesh_span(const struct st_mesh *mesh, unsigned axes)
{
	int64_t span = 1;

	for (uint32_t i = 0; i < mesh->count; i++)
		if (axes >> i & 1)
			span *= mesh->size[i];
	return span;
}

int64_t
st_mesh_ranks(const struct st_mesh *mesh)
{
	return st_mesh_span(mesh, ~0u);
}

int64_t
st_mesh_coordinate(const struct st_mesh *mesh, int64_t rank, int axis)
{
	for (int i = (int)mesh->count - 1; i > axis; i--)
		rank /= mesh->size[i];
	return rank % mesh->size[axis];
}

int64_t
st_mesh_index(const struct st_mesh *mesh, int64_t rank, unsigned axes)
{
	int64_t index = 0;

	for (int i = 0; i < (int)mesh->count; i++)
		if (axes >> i & 1)
			index = index * mesh->size[i] +
				st_mesh_coordinate(mesh, rank, i);
	return index;
}

int64_t
st_type_elements(const struct st_type *type)
{
	int64_t n = 1;

	for (int i = 0; i < type->factors; i++)
		n *= type->f[i].size;
	return n;
}

int64_t
st_type_local_factor(const struct st_type *type, int f,
		     const struct st_mesh *mesh)
{
	return (type->f[f].size + type->f[f].pad) /
	       st_mesh_span(mesh, type->f[f].axes);
}

int64_t
st_type_local_extent(const struct st_type *type, int extent,
		     const struct st_mesh *mesh)
{
	int end = st_type_end(type, extent);
	int64_t n = 1;

	for (int f = st_type_first(type, extent); f < end; f++)
		n *= st_type_local_factor(type, f, mesh);
	return n;
}

int64_t
st_type_local_elements(const struct st_type *type, const struct st_mesh *mesh)
{
	int64_t n = 1;

	for (int f = 0; f < type->factors; f++)
		n *= st_type_local_factor(type, f, mesh);
	if (type->flat) {
		int64_t span = st_mesh_span(mesh, type->flat);

		n = (n + span - 1) / span;
	}
	return n;
}

int64_t
st_type_local_bytes(const struct st_type *type, const struct st_mesh *mesh)
{
	return st_type_local_elements(type, mesh) *
	       (int64_t)st_dtype_size(type->dtype);
}

void
st_type_cut(struct st_type *type, int f, unsigned axes,
	    const struct st_mesh *mesh)
{
	struct st_factor *factor = &type->f[f];
	int64_t span, rest;

	factor->axes |= (uint8_t)axes;
	span = st_mesh_span(mesh, factor->axes);
	rest = factor->size % span;
	factor->pad = rest ? (int32_t)(span - rest) : 0;
}

unsigned
st_type_axes(const struct st_type *type)
{
	unsigned axes = type->flat | type->partial;

	for (int f = 0; f < type->factors; f++)
		axes |= type->f[f].axes;
	return axes;
}

struct st_type
st_type_whole(const struct st_type *type)
{
	struct st_type whole = *type;

	whole.flat = whole.partial = whole.reduction = 0;
	for (int f = 0; f < whole.factors; f++) {
		whole.f[f].axes = 0;
		whole.f[f].pad = 0;
	}
	return whole;
}

static void
print_axes(struct st_buffer *out, unsigned axes, const struct st_mesh *mesh,
	   const struct st_names *names)
{
	const char *comma = "";

	for (uint32_t i = 0; i < mesh->count; i++) {
		if (!(axes >> i & 1))
			continue;
		st_buffer_printf(out, "%s%s", comma,
				 st_names_text(names, mesh->name[i]));
		comma = ", ";
	}
}

static void
print_factor(struct st_buffer *out, const struct st_factor *factor,
	     const struct st_mesh *mesh, const struct st_names *names)
{
	st_buffer_printf(out, "%lld", (long long)factor->size);
	if (factor->pad)
		st_buffer_printf(out, "+%d", factor->pad);
	for (uint32_t i = 0; i < mesh->count; i++)
		if (factor->axes >> i & 1)
			st_buffer_printf(out, "/%s",
					 st_names_text(names, mesh->name[i]));
}

void
st_type_print(struct st_buffer *out, const struct st_type *type,
	      const struct st_mesh *mesh, const struct st_names *names)
{
	if (type->is_async)
		st_buffer_puts(out, "async ");
	st_buffer_printf(out, "%s[", dtype_names[type->dtype]);
	for (int f = 0; f < type->factors; f++) {
		if (f)
			st_buffer_puts(out, type->joined >> f & 1 ? "*" : ", ");
		print_factor(out, &type->f[f], mesh, names);
	}
	st_buffer_puts(out, "]");
	if (type->flat) {
		st_buffer_puts(out, " flat(");
		print_axes(out, type->flat, mesh, names);
		st_buffer_puts(out, ")");
	}
	if (type->partial) {
		st_buffer_printf(out, " partial<%s>(",
				 type->reduction == ST_MAX ? "max" : "sum");
		print_axes(out, type->partial, mesh, names);
		st_buffer_puts(out, ")");
	}
}

const char *
st_type_fault(const struct st_type *type, const struct st_mesh *mesh)
{
	const int64_t most = (int64_t)1 << 48;
	unsigned seen = type->flat;
	int64_t n = 1, span;

	if (type->flat & type->partial)
		return "an axis is used twice";
	seen |= type->partial;
	for (int f = 0; f < type->factors; f++) {
		const struct st_factor *factor = &type->f[f];

		if (factor->size < 1)
			return "an extent must be at least 1";
		if (factor->pad < 0 || factor->size > most ||
		    n > most / (factor->size + factor->pad))
			return "too many elements";
		n *= factor->size + factor->pad;
		if (factor->axes & seen)
			return "an axis is used twice";
		seen |= factor->axes;
		span = st_mesh_span(mesh, factor->axes);
		if ((factor->size + factor->pad) % span)
			return "a cut extent is no multiple of its ranks";
		if (factor->pad >= span)
			return "more padding than the ranks of a cut need";
	}
	return NULL;
}
