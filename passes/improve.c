/* Moves, kicks and a budget. */

#include "passes/improve.h"

#include <string.h>

/* Evaluations times tokens, and evaluations alone. */
enum { MOST_STEPS = 30000, MOST_EVALUATIONS = 800 };

static uint64_t
draw(struct st_improve *x)
{
	uint64_t z = x->state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static uint32_t
below(struct st_improve *x, uint32_t n)
{
	return (uint32_t)(draw(x) % n);
}

/* ---- the lower bound ---- */

/* Who takes turns: all computations, collectives over an axis, and those on
 * one tier of links. */
enum { GROUPS = 1 + ST_MAX_AXES + ST_MACHINE_MAX_TIERS };

static int
belongs(const struct st_arrange *a, const struct st_task *at, int group)
{
	if (!st_task_is_comm(at) || group == 0)
		return !st_task_is_comm(at) && group == 0;
	if (group <= ST_MAX_AXES)
		return a->tasks->lane_axes[at->lane] >> (group - 1) & 1;
	return at->tier == group - 1 - ST_MAX_AXES;
}

/* All work of a group, behind the shortest way to any of it and before the
 * shortest way out. */
static int64_t
group_bound(const struct st_arrange *a, const int64_t *head, int group,
	    int64_t *work)
{
	const struct st_tasks *t = a->tasks;
	int64_t in = INT64_MAX, out = INT64_MAX;

	*work = 0;
	for (uint32_t i = 0; i < t->count; i++) {
		const struct st_task *at = &t->at[i];
		int64_t tail = a->rank[i] - at->work;

		if (at->work == 0 || !belongs(a, at, group))
			continue;
		*work += at->work;
		in = head[i] < in ? head[i] : in;
		out = tail < out ? tail : out;
	}
	return *work ? in + *work + out : 0;
}

/* x beside y: in the time that y runs too, x takes `slow_x` of its time alone,
 * and each of y that is not beside it is time of its own. */
static int64_t
beside(int64_t x, int64_t y, int64_t slow_x, int64_t slow_y)
{
	int64_t part = (slow_x - 1000) * slow_y / slow_x;

	return x + y / 1000 * (part < 1000 ? part : 1000);
}

static int64_t
longest_way(const struct st_arrange *a, int64_t *head)
{
	const struct st_tasks *t = a->tasks;
	int64_t most = 0;

	for (uint32_t i = 0; i < t->count; i++) {
		head[i] = 0;
		for (uint32_t p = 0; p < t->at[i].preds; p++) {
			uint32_t from = t->edges[t->at[i].first_pred + p];
			int64_t way = head[from] + t->at[from].work;

			head[i] = way > head[i] ? way : head[i];
		}
		if (head[i] + a->rank[i] > most)
			most = head[i] + a->rank[i];
	}
	return most;
}

static int64_t
larger(int64_t x, int64_t y)
{
	return x > y ? x : y;
}

static int64_t
find_bound(const struct st_arrange *a, int64_t *head)
{
	int64_t most = longest_way(a, head), busy, work;
	int64_t compute = a->lanes.compute_thousandths;
	int64_t comm = a->lanes.comm_thousandths;

	most = larger(most, group_bound(a, head, 0, &busy));
	for (int group = 1; group < GROUPS; group++) {
		most = larger(most, group_bound(a, head, group, &work));
		most = larger(most, beside(busy, work, compute, comm));
		most = larger(most, beside(work, busy, comm, compute));
	}
	return most;
}

/* ---- moves ---- */

static void
read_order(struct st_improve *x, const uint32_t *order)
{
	const struct st_tasks *t = x->arrange->tasks;

	x->count = 0;
	for (uint32_t i = 0; i < t->entry->nodes; i++) {
		uint32_t node = order[i];
		uint32_t task = t->of_node[node - t->entry->first_node];
		const struct st_task *at = &t->at[task];
		uint32_t last = at->first_pair + at->pairs - 1;

		/* A bucket counts when its last start or first wait comes. */
		if (!st_task_is_comm(at) || t->pairs[last].start == node)
			x->tokens[x->count++] = 2 * task;
		else if (t->pairs[at->first_pair].wait == node)
			x->tokens[x->count++] = 2 * task + 1;
	}
}

static void
note_places(struct st_improve *x, uint32_t first, uint32_t end)
{
	for (uint32_t i = first; i < end; i++)
		x->place[x->tokens[i]] = i;
}

/* Where the token may stand: a wait anywhere, as it comes when it must. */
static void
find_range(const struct st_improve *x, uint32_t token, uint32_t *low,
	   uint32_t *high)
{
	const struct st_tasks *t = x->arrange->tasks;
	const struct st_task *at = &t->at[token / 2];

	*low = 0;
	*high = x->count - 1;
	if (token % 2)
		return;
	for (uint32_t p = 0; p < at->preds; p++) {
		uint32_t place = x->place[2 * t->edges[at->first_pred + p]];

		*low = place + 1 > *low ? place + 1 : *low;
	}
	for (uint32_t s = 0; s < at->succs; s++) {
		uint32_t place = x->place[2 * t->edges[at->first_succ + s]];

		*high = place - 1 < *high ? place - 1 : *high;
	}
}

static void
move(struct st_improve *x, uint32_t from, uint32_t to)
{
	uint32_t token = x->tokens[from];

	if (from < to)
		memmove(x->tokens + from, x->tokens + from + 1,
			(to - from) * sizeof(token));
	else
		memmove(x->tokens + to + 1, x->tokens + to,
			(from - to) * sizeof(token));
	x->tokens[to] = token;
	note_places(x, from < to ? from : to, (from < to ? to : from) + 1);
}

/* A random move; 0 if the token it fell on cannot move. */
static int
move_one(struct st_improve *x, uint32_t *from, uint32_t *to)
{
	uint32_t low, high, token;

	*from = below(x, x->count);
	token = x->tokens[*from];
	/* Without a limit a late wait is as good as any. */
	if (token % 2 && x->limit == INT64_MAX)
		return 0;
	find_range(x, token, &low, &high);
	if (low >= high)
		return 0;
	*to = low + below(x, high - low);
	*to += *to >= *from;
	move(x, *from, *to);
	return 1;
}

/* ---- the search ---- */

static int
evaluate(struct st_improve *x, int64_t most)
{
	struct st_arrange *a = x->arrange;

	x->evaluations--;
	if (!st_arrange_follow(a, x->tokens, x->count, most))
		return 0;
	if (x->limit == INT64_MAX)
		return 1;
	a->top = st_peak_run(&a->peak, a->order, a->count, NULL);
	return a->top <= x->limit;
}

static void
copy(const struct st_improve *x, uint32_t *to, const uint32_t *from)
{
	memcpy(to, from, x->count * sizeof(*to));
}

static void
keep(struct st_improve *x)
{
	x->time = x->arrange->time;
	if (x->time >= x->best_time)
		return;
	x->best_time = x->time;
	copy(x, x->best, x->tokens);
}

/* A few moves away from the best, whatever they cost. */
static void
kick(struct st_improve *x)
{
	uint32_t from, to, moves = 2 + below(x, 4);

	copy(x, x->tokens, x->best);
	note_places(x, 0, x->count);
	for (uint32_t i = 0; i < moves; i++)
		move_one(x, &from, &to);
	if (evaluate(x, INT64_MAX)) {
		keep(x);
		return;
	}
	copy(x, x->tokens, x->best);
	note_places(x, 0, x->count);
	x->time = x->best_time;
}

static void
search(struct st_improve *x)
{
	uint32_t from, to, idle = 0;

	while (x->evaluations > 0 &&
	       x->best_time > x->bound + x->bound / 1000) {
		if (idle++ > 4 * x->count) {
			kick(x);
			idle = 0;
		}
		if (!move_one(x, &from, &to))
			continue;
		if (evaluate(x, x->time)) {
			if (x->arrange->time < x->time)
				idle = 0;
			keep(x);
		} else {
			move(x, to, from);
		}
	}
}

enum st_status
st_improve_init(struct st_improve *x, struct st_arrange *a)
{
	struct st_arena *arena = a->tasks->module->arena;
	size_t n = 2 * (size_t)a->tasks->count + 1;
	int64_t *head = st_arena_array(arena, n, sizeof(*head));

	memset(x, 0, sizeof(*x));
	x->arrange = a;
	x->tokens = st_arena_array(arena, n, sizeof(uint32_t));
	x->best = st_arena_array(arena, n, sizeof(uint32_t));
	x->place = st_arena_array(arena, n, sizeof(uint32_t));
	if (arena->failed)
		return st_error_memory(a->tasks->module->diag);
	x->bound = find_bound(a, head);
	return ST_OK;
}

int
st_improve_run(struct st_improve *x, const uint32_t *order, int64_t time,
	       int64_t limit, int share)
{
	struct st_arrange *a = x->arrange;

	x->limit = limit;
	x->time = x->best_time = time;
	read_order(x, order);
	note_places(x, 0, x->count);
	copy(x, x->best, x->tokens);
	x->evaluations = MOST_STEPS / (x->count + 1);
	if (x->evaluations > MOST_EVALUATIONS)
		x->evaluations = MOST_EVALUATIONS;
	x->evaluations /= share;
	search(x);
	if (x->best_time >= time)
		return 0;
	st_arrange_follow(a, x->best, x->count, INT64_MAX);
	a->top = st_peak_run(&a->peak, a->order, a->count, NULL);
	return 1;
}
