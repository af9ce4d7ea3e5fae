/* The virtual clock. */

#include "passes/lanes.h"

#include <string.h>

int
st_lanes_init(struct st_lanes *l, struct st_arena *arena,
	      const struct st_machine *machine, const uint8_t *axes,
	      int lane_count, size_t most)
{
	memset(l, 0, sizeof(*l));
	l->tickets = st_arena_array(arena, most + 1, sizeof(*l->tickets));
	l->lane_count = lane_count;
	for (int i = 0; i < lane_count; i++)
		for (int j = 0; j < lane_count; j++)
			if (i != j && (axes[i] & axes[j]))
				l->meets[i] = (uint16_t)(l->meets[i] | 1u << j);
	l->compute_thousandths =
		1000 + (int64_t)(machine->compute_slowdown * 1000 + 0.5);
	l->comm_thousandths =
		1000 + (int64_t)(machine->comm_slowdown * 1000 + 0.5);
	st_lanes_reset(l);
	return l->tickets ? 0 : -1;
}

void
st_lanes_reset(struct st_lanes *l)
{
	l->now = 0;
	l->contention = 0;
	l->count = 0;
	for (int i = 0; i < ST_LANES_MAX; i++)
		l->head[i] = l->tail[i] = -1;
}

/* Does the head of a lane run, or does it wait for another lane? */
static int
is_running(const struct st_lanes *l, int lane)
{
	int32_t head = l->head[lane];

	if (head < 0)
		return 0;
	for (int i = 0; l->meets[lane] >> i; i++)
		if (l->meets[lane] >> i & 1 && l->head[i] >= 0 &&
		    l->head[i] < head)
			return 0;
	return 1;
}

static void
note_begins(struct st_lanes *l)
{
	for (int i = 0; i < l->lane_count; i++)
		if (is_running(l, i) && l->tickets[l->head[i]].begin < 0)
			l->tickets[l->head[i]].begin = l->now;
}

int32_t
st_lanes_start(struct st_lanes *l, int lane, int tier, int64_t work)
{
	int32_t index = l->count++;
	struct st_ticket *t = &l->tickets[index];

	*t = (struct st_ticket){work,  l->now, -1, -1, -1,
				(uint8_t)lane, (uint8_t)tier};
	if (l->tail[lane] < 0)
		l->head[lane] = index;
	else
		l->tickets[l->tail[lane]].next = index;
	l->tail[lane] = index;
	note_begins(l);
	return index;
}

/* Thousandths of its time alone that the head of a lane takes. */
static int64_t
slowness(const struct st_lanes *l, int lane, int computing)
{
	const struct st_ticket *t = &l->tickets[l->head[lane]];
	int64_t sharers = 0;

	for (int i = 0; i < l->lane_count; i++)
		sharers += is_running(l, i) &&
			   l->tickets[l->head[i]].tier == t->tier;
	return sharers * (computing ? l->comm_thousandths : 1000);
}

static int64_t
time_of(int64_t work, int64_t thousandths)
{
	return (work * thousandths + 999) / 1000;
}

static void
finish(struct st_lanes *l, int lane)
{
	struct st_ticket *t = &l->tickets[l->head[lane]];

	t->left = 0;
	t->end = l->now;
	l->head[lane] = t->next;
	if (t->next < 0)
		l->tail[lane] = -1;
}

/* Moves the clock by at most `most`, to the next end of a collective; returns
 * by how much.  -1: nothing runs. */
static int64_t
advance(struct st_lanes *l, int64_t most, int computing)
{
	int64_t slow[ST_LANES_MAX], step = most;
	int any = 0;

	for (int i = 0; i < l->lane_count; i++) {
		int64_t need;

		slow[i] = -1;
		if (!is_running(l, i))
			continue;
		any = 1;
		slow[i] = slowness(l, i, computing);
		need = time_of(l->tickets[l->head[i]].left, slow[i]);
		if (step < 0 || need < step)
			step = need;
	}
	if (!any)
		return -1;
	l->now += step;
	for (int i = 0; i < l->lane_count; i++) {
		struct st_ticket *t;

		if (slow[i] < 0)
			continue;
		t = &l->tickets[l->head[i]];
		if (time_of(t->left, slow[i]) <= step)
			slow[i] = 0;
		else
			t->left -= step * 1000 / slow[i];
	}
	/* Ends come after all have moved, so that none sees a half state. */
	for (int i = 0; i < l->lane_count; i++)
		if (slow[i] == 0)
			finish(l, i);
	note_begins(l);
	return step;
}

void
st_lanes_compute(struct st_lanes *l, int64_t work)
{
	int64_t begin = l->now, total = work;

	while (work > 0) {
		int64_t need = time_of(work, l->compute_thousandths);
		int64_t step = advance(l, need, 1);

		if (step < 0) {
			l->now += work;
			break;
		}
		work = step >= need ? 0
				    : work - step * 1000 /
						      l->compute_thousandths;
	}
	l->contention += l->now - begin - total;
}

int64_t
st_lanes_wait(struct st_lanes *l, int32_t ticket)
{
	int64_t begin = l->now;

	while (l->tickets[ticket].end < 0)
		if (advance(l, -1, 0) < 0)
			break;
	return l->now - begin;
}

int64_t
st_lanes_backlog(const struct st_lanes *l, int lane)
{
	int64_t sum = 0;

	for (int32_t i = l->head[lane]; i >= 0; i = l->tickets[i].next)
		sum += l->tickets[i].left;
	return sum;
}
