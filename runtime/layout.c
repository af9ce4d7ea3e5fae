/* Whole tensors and the pieces that ranks hold. */

#include "runtime/layout.h"

#include <string.h>

/* One factor as this rank sees it. */
struct side {
	int64_t local;  /* extent, padding counted */
	int64_t begin;  /* global index of local index 0 */
	int64_t size;   /* global extent: from here on it is padding */
	int64_t stride; /* in the whole tensor */
};

struct walk {
	struct side side[ST_MAX_FACTORS];
	int factors;
	int last_cut;       /* factors behind it are whole; -1: none is cut */
	int64_t outer, run; /* runs, and elements in each, padding counted */
	int64_t real;       /* of a run, if no outer index is padding */
	int64_t first, count; /* part of the local order that the piece is */
};

static void
init_walk(struct walk *w, const struct st_type *type,
	  const struct st_mesh *mesh, int64_t rank)
{
	int64_t stride = 1;

	memset(w, 0, sizeof(*w));
	w->factors = type->factors;
	w->last_cut = -1;
	w->outer = w->run = w->real = 1;
	for (int f = type->factors - 1; f >= 0; f--) {
		struct side *s = &w->side[f];

		s->local = st_type_local_factor(type, f, mesh);
		s->begin = s->local *
			   st_mesh_index(mesh, rank, type->f[f].axes);
		s->size = type->f[f].size;
		s->stride = stride;
		stride *= s->size;
		if (s->local != s->size && w->last_cut < 0) {
			int64_t rest = s->size - s->begin;

			w->last_cut = f;
			rest = rest < 0 ? 0 : rest;
			w->real = w->run *
				  (rest < s->local ? rest : s->local);
			w->run *= s->local;
		} else if (w->last_cut < 0) {
			w->run *= s->local;
			w->real = w->run;
		} else {
			w->outer *= s->local;
		}
	}
	st_layout_flat(type, mesh, rank, &w->first, &w->count);
}

/* Element of the whole tensor where run `o` begins, or -1 in padding. */
static int64_t
run_begin(const struct walk *w, int64_t o)
{
	int64_t at = 0;

	for (int f = w->last_cut - 1; f >= 0; f--) {
		const struct side *s = &w->side[f];
		int64_t index = s->begin + o % s->local;

		o /= s->local;
		if (index >= s->size)
			return -1;
		at += index * s->stride;
	}
	if (w->last_cut >= 0)
		at += w->side[w->last_cut].begin *
		      w->side[w->last_cut].stride;
	return at;
}

void
st_layout_flat(const struct st_type *type, const struct st_mesh *mesh,
	       int64_t rank, int64_t *first, int64_t *real)
{
	struct st_type unflat = *type;
	int64_t all, piece, rest;

	unflat.flat = 0;
	all = st_type_local_elements(&unflat, mesh);
	piece = st_type_local_elements(type, mesh);
	*first = piece * st_mesh_index(mesh, rank, type->flat);
	rest = all - *first;
	*real = rest < 0 ? 0 : rest < piece ? rest : piece;
}

/* Calls move(whole element, local element, count) for each run of real
 * elements in the piece. */
static void
for_runs(const struct walk *w, char *whole, char *piece, size_t size,
	 int to_piece)
{
	int64_t end = w->first + w->count;

	for (int64_t o = 0; o < w->outer; o++) {
		int64_t from = o * w->run, to = from + w->real;
		int64_t begin = run_begin(w, o);
		char *a, *b;

		if (begin < 0 || to <= w->first || from >= end)
			continue;
		if (from < w->first) {
			begin += w->first - from;
			from = w->first;
		}
		to = to < end ? to : end;
		a = whole + (size_t)begin * size;
		b = piece + (size_t)(from - w->first) * size;
		if (to_piece)
			memcpy(b, a, (size_t)(to - from) * size);
		else
			memcpy(a, b, (size_t)(to - from) * size);
	}
}

void
st_layout_scatter(const struct st_type *type, const struct st_mesh *mesh,
		  int64_t rank, size_t size, const void *whole, void *piece)
{
	struct walk w;

	init_walk(&w, type, mesh, rank);
	memset(piece, 0, (size_t)st_type_local_elements(type, mesh) * size);
	/* Only read when to_piece is set. */
	for_runs(&w, (char *)(uintptr_t)whole, piece, size, 1);
}

void
st_layout_gather(const struct st_type *type, const struct st_mesh *mesh,
		 int64_t rank, size_t size, const void *piece, void *whole)
{
	struct walk w;

	init_walk(&w, type, mesh, rank);
	for_runs(&w, whole, (char *)(uintptr_t)piece, size, 0);
}

int
st_layout_is_first(const struct st_type *type, const struct st_mesh *mesh,
		   int64_t rank)
{
	unsigned named = st_type_axes(type);

	for (int a = 0; a < (int)mesh->count; a++)
		if (!(named >> a & 1) && st_mesh_coordinate(mesh, rank, a))
			return 0;
	return 1;
}

void
st_layout_random(const struct st_type *type, const struct st_mesh *mesh,
		 int64_t rank, struct st_random_args *args)
{
	struct walk w;

	init_walk(&w, type, mesh, rank);
	args->dims = w.factors;
	for (int f = 0; f < w.factors; f++) {
		args->extent[f] = w.side[f].local;
		args->begin[f] = w.side[f].begin;
		args->limit[f] = w.side[f].size;
		args->stride[f] = w.side[f].stride;
	}
	args->first = w.first;
	args->count = w.count; /* padding stays as the arena began: zero */
}
