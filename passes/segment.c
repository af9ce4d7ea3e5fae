/* Range addition and range maximum. */

#include "passes/segment.h"

int
st_segment_init(struct st_segment *s, struct st_arena *arena, uint32_t count)
{
	s->size = 1;
	while (s->size < count)
		s->size *= 2;
	s->most = st_arena_array(arena, 2 * (size_t)s->size, sizeof(int64_t));
	s->add = st_arena_array(arena, 2 * (size_t)s->size, sizeof(int64_t));
	return s->most && s->add ? 0 : -1;
}

void
st_segment_fill(struct st_segment *s, const int64_t *values, uint32_t count)
{
	for (uint32_t i = 0; i < s->size; i++) {
		s->most[s->size + i] = i < count ? values[i] : INT64_MIN / 2;
		s->add[s->size + i] = 0;
	}
	for (uint32_t i = s->size - 1; i > 0; i--) {
		int64_t a = s->most[2 * i], b = s->most[2 * i + 1];

		s->most[i] = a > b ? a : b;
		s->add[i] = 0;
	}
}

static void
apply(struct st_segment *s, uint32_t i, int64_t value)
{
	s->most[i] += value;
	s->add[i] += value;
}

static void
pull_up(struct st_segment *s, uint32_t i)
{
	for (i /= 2; i > 0; i /= 2) {
		int64_t a = s->most[2 * i], b = s->most[2 * i + 1];

		s->most[i] = (a > b ? a : b) + s->add[i];
	}
}

void
st_segment_add(struct st_segment *s, uint32_t first, uint32_t end,
	       int64_t value)
{
	uint32_t a = first + s->size, b = end + s->size;

	if (first >= end)
		return;
	for (; a < b; a /= 2, b /= 2) {
		if (a & 1)
			apply(s, a++, value);
		if (b & 1)
			apply(s, --b, value);
	}
	pull_up(s, first + s->size);
	pull_up(s, end - 1 + s->size);
}

/* What stands above a node is not in it yet. */
static int64_t
above(const struct st_segment *s, uint32_t i)
{
	int64_t sum = 0;

	for (i /= 2; i > 0; i /= 2)
		sum += s->add[i];
	return sum;
}

int64_t
st_segment_most(const struct st_segment *s, uint32_t first, uint32_t end)
{
	uint32_t a = first + s->size, b = end + s->size;
	int64_t best = INT64_MIN / 2;

	if (first >= end)
		return best;
	for (; a < b; a /= 2, b /= 2) {
		if (a & 1) {
			int64_t v = s->most[a] + above(s, a);

			best = v > best ? v : best;
			a++;
		}
		if (b & 1) {
			int64_t v;

			b--;
			v = s->most[b] + above(s, b);
			best = v > best ? v : best;
		}
	}
	return best;
}
