/* The walk that places starts and waits. */

#include "passes/arrange.h"

#include <string.h>

enum { BLOCKED, READY, STARTED, WAITED };

/* ---- heaps of ready collectives, nearest deadline first ---- */

static int
is_before(const struct st_arrange *a, uint32_t x, uint32_t y)
{
	uint32_t dx = a->deadline[x] + a->bias[x];
	uint32_t dy = a->deadline[y] + a->bias[y];

	return dx != dy ? dx < dy : x < y;
}

static void
push(const struct st_arrange *a, struct st_heap *heap, uint32_t task)
{
	uint32_t i = heap->count++;

	while (i > 0 && is_before(a, task, heap->at[(i - 1) / 2])) {
		heap->at[i] = heap->at[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	heap->at[i] = task;
}

static void
pop(const struct st_arrange *a, struct st_heap *heap)
{
	uint32_t last = heap->at[--heap->count], i = 0;

	for (;;) {
		uint32_t child = 2 * i + 1;

		if (child >= heap->count)
			break;
		if (child + 1 < heap->count &&
		    is_before(a, heap->at[child + 1], heap->at[child]))
			child++;
		if (!is_before(a, heap->at[child], last))
			break;
		heap->at[i] = heap->at[child];
		i = child;
	}
	if (heap->count)
		heap->at[i] = last;
}

/* The first that is still ready, or ST_NONE. */
static uint32_t
top_of(const struct st_arrange *a, struct st_heap *heap)
{
	while (heap->count && a->state[heap->at[0]] != READY)
		pop(a, heap);
	return heap->count ? heap->at[0] : ST_NONE;
}

/* ---- what is known of a task before the walk ---- */

/* Does it make more than it is lent?  Then it waits until it is needed; else
 * it goes as soon as it can. */
static int
makes_more(const struct st_tasks *t, uint32_t task)
{
	const struct st_module *m = t->module;
	const struct st_node *node = &m->nodes.at[t->at[task].node];
	const struct st_type *from =
		st_value_type(m, st_node_operand(m, node, 0));
	const struct st_type *to = st_value_type(m, node->first_result);

	return st_type_local_bytes(to, &m->mesh) >
	       st_type_local_bytes(from, &m->mesh);
}

static void
classify(struct st_arrange *a)
{
	const struct st_tasks *t = a->tasks;

	for (uint32_t i = 0; i < t->count; i++) {
		const struct st_task *task = &t->at[i];

		if (!st_task_is_comm(task))
			continue;
		a->maker[i] = (uint8_t)makes_more(t, i);
		for (uint32_t s = 0; s < task->succs; s++)
			if (st_task_is_comm(
				    &t->at[t->edges[task->first_succ + s]]))
				a->chained[i] = 1;
	}
}

static void
find_ranks(struct st_arrange *a)
{
	const struct st_tasks *t = a->tasks;

	for (uint32_t i = t->count; i-- > 0;) {
		const struct st_task *task = &t->at[i];
		int64_t most = 0, feed = INT64_MAX / 2;
		uint32_t fed = ST_NONE;

		for (uint32_t s = 0; s < task->succs; s++) {
			uint32_t next = t->edges[task->first_succ + s];

			if (a->rank[next] <= most)
				continue;
			most = a->rank[next];
			feed = a->feed[next];
			fed = a->fed[next];
		}
		a->rank[i] = most + task->work;
		a->feed[i] = st_task_is_comm(task) ? 0 : feed + task->work;
		a->fed[i] = st_task_is_comm(task) ? i : fed;
	}
}

/* The first computation that needs it, through other collectives too. */
static void
find_deadlines(struct st_arrange *a, const uint32_t *computes)
{
	const struct st_tasks *t = a->tasks;

	for (uint32_t i = 0; i < t->count; i++)
		a->deadline[i] = t->compute_count;
	for (uint32_t i = 0; i < t->compute_count; i++)
		a->deadline[computes[i]] = i;
	for (uint32_t i = t->count; i-- > 0;) {
		const struct st_task *task = &t->at[i];
		uint32_t least = t->compute_count;

		if (!st_task_is_comm(task))
			continue;
		for (uint32_t s = 0; s < task->succs; s++) {
			uint32_t d =
				a->deadline[t->edges[task->first_succ + s]];

			least = d < least ? d : least;
		}
		a->deadline[i] = least;
	}
}

/* ---- emission ---- */

static void
emit(struct st_arrange *a, uint32_t node)
{
	a->order[a->count++] = node;
}

static void note_ready(struct st_arrange *a, uint32_t task);

/* A task is done with: what follows it may come closer. */
static void
release_successors(struct st_arrange *a, uint32_t task, int comm_only)
{
	const struct st_tasks *t = a->tasks;
	const struct st_task *at = &t->at[task];

	if (a->follows)
		return;
	for (uint32_t s = 0; s < at->succs; s++) {
		uint32_t next = t->edges[at->first_succ + s];

		if (comm_only && !st_task_is_comm(&t->at[next]))
			continue;
		if (--a->left[next] == 0)
			note_ready(a, next);
	}
}

static void
insert_ready(struct st_arrange *a, uint32_t task)
{
	uint32_t i = a->ready_count++;

	while (i > 0 && a->place[a->ready[i - 1]] > a->place[task]) {
		a->ready[i] = a->ready[i - 1];
		i--;
	}
	a->ready[i] = task;
}

static void
note_ready(struct st_arrange *a, uint32_t task)
{
	const struct st_tasks *t = a->tasks;
	const struct st_task *at = &t->at[task];
	int maker;

	if (!st_task_is_comm(at)) {
		if (a->rules.choice != ST_CHOICE_GIVEN)
			insert_ready(a, task);
		return;
	}
	maker = a->maker[task];
	a->state[task] = READY;
	push(a, &a->heaps[2 * at->lane + !maker], task);
	if (!maker) {
		a->pending[a->pending_first + a->pending_count++] = task;
		a->extra += a->lent[task];
	}
	/* Computations may come as soon as it could start. */
	if (a->rules.choice == ST_CHOICE_GIVEN)
		return;
	for (uint32_t s = 0; s < at->succs; s++) {
		uint32_t next = t->edges[at->first_succ + s];

		if (!st_task_is_comm(&t->at[next]) && --a->left[next] == 0)
			note_ready(a, next);
	}
}

static void wait_for(struct st_arrange *a, uint32_t task);

static void
start(struct st_arrange *a, uint32_t task)
{
	const struct st_tasks *t = a->tasks;
	const struct st_task *at = &t->at[task];

	for (uint32_t p = 0; p < at->preds; p++) {
		uint32_t from = t->edges[at->first_pred + p];

		if (st_task_is_comm(&t->at[from]))
			wait_for(a, from);
	}
	for (uint32_t p = 0; p < at->pairs; p++)
		emit(a, t->pairs[at->first_pair + p].start);
	a->ticket[task] =
		st_lanes_start(&a->lanes, at->lane, at->tier, at->work);
	a->state[task] = STARTED;
	a->of_ticket[a->ticket[task]] = task;
	if (!a->maker[task] || a->chained[task])
		a->flying[a->flying_count++] = task;
}

static void
wait_for(struct st_arrange *a, uint32_t task)
{
	const struct st_tasks *t = a->tasks;
	const struct st_task *at = &t->at[task];

	if (a->state[task] == WAITED)
		return;
	if (a->state[task] != STARTED)
		start(a, task);
	st_lanes_wait(&a->lanes, a->ticket[task]);
	for (uint32_t p = 0; p < at->pairs; p++)
		emit(a, t->pairs[at->first_pair + p].wait);
	a->state[task] = WAITED;
	for (uint32_t i = 0; i < a->flying_count; i++)
		if (a->flying[i] == task) {
			a->flying[i] = a->flying[--a->flying_count];
			break;
		}
	if (!a->maker[task])
		a->extra -= a->lent[task];
	release_successors(a, task, 1);
}

/* ---- decisions ---- */

/* Would its result fit from here to its use? */
static int
fits(const struct st_arrange *a, uint32_t task)
{
	int64_t most;

	if (a->rules.limit == INT64_MAX)
		return 1;
	most = st_segment_most(&a->segment, a->now, a->deadline[task]);
	return most + a->extra + a->made[task] <= a->rules.limit;
}

static int
is_in_sight(const struct st_arrange *a, uint32_t task)
{
	int64_t need;

	if (a->rules.horizon < 0 ||
	    a->deadline[task] >= a->tasks->compute_count ||
	    a->rules.choice != ST_CHOICE_GIVEN)
		return 1;
	need = a->begins[a->deadline[task]] - a->begins[a->now];
	return need <= a->rules.horizon + a->tasks->at[task].work;
}

static uint32_t
next_of_lane(struct st_arrange *a, int lane)
{
	uint32_t maker = top_of(a, &a->heaps[2 * lane]);
	uint32_t other = top_of(a, &a->heaps[2 * lane + 1]);

	if (maker != ST_NONE && (!is_in_sight(a, maker) || !fits(a, maker)))
		maker = ST_NONE;
	if (maker == ST_NONE || other == ST_NONE)
		return maker == ST_NONE ? other : maker;
	return is_before(a, other, maker) ? other : maker;
}

/* How much can be computed behind a collective before the next one. */
static int64_t
unlocks(const struct st_arrange *a, uint32_t task)
{
	const struct st_tasks *t = a->tasks;
	int64_t most = 0;

	for (uint32_t s = 0; s < t->at[task].succs; s++) {
		uint32_t next = t->edges[t->at[task].first_succ + s];

		if (!st_task_is_comm(&t->at[next]) && a->feed[next] > most)
			most = a->feed[next];
	}
	return most;
}

/*
 * Should a lane rather stay dry for a moment?  `next`, which is computed now,
 * soon makes the operand of another collective of that lane, and that one is
 * needed sooner, or lets more be computed while this one runs.
 */
static int
is_held(const struct st_arrange *a, uint32_t task, uint32_t next)
{
	const struct st_tasks *t = a->tasks;
	uint32_t rival;

	if (!a->rules.hold || next == ST_NONE)
		return 0;
	rival = a->fed[next];
	if (rival == ST_NONE || rival == task || a->state[rival] != BLOCKED ||
	    t->at[rival].lane != t->at[task].lane ||
	    a->feed[next] > t->at[task].work / 4)
		return 0;
	if (a->rules.choice == ST_CHOICE_GIVEN)
		return is_before(a, rival, task);
	return unlocks(a, rival) / 2 > unlocks(a, task);
}

/* What is waited for next goes first. */
static void
start_needed(struct st_arrange *a, uint32_t task)
{
	const struct st_task *at = &a->tasks->at[task];

	for (uint32_t p = 0; p < at->preds; p++) {
		uint32_t from = a->tasks->edges[at->first_pred + p];

		if (st_task_is_comm(&a->tasks->at[from]) &&
		    a->state[from] == READY)
			start(a, from);
	}
}

/* Keeps every lane busy through the next `ahead` picoseconds, in which `next`
 * is computed (ST_NONE: not known). */
static void
feed_lanes(struct st_arrange *a, int64_t ahead, uint32_t next)
{
	for (int lane = 0; lane < a->tasks->lanes; lane++)
		while (st_lanes_backlog(&a->lanes, lane) <= ahead) {
			uint32_t task = next_of_lane(a, lane);

			if (task == ST_NONE || is_held(a, task, next))
				break;
			if (a->maker[task] && a->rules.limit != INT64_MAX)
				st_segment_add(&a->segment, a->now,
					       a->deadline[task],
					       a->made[task]);
			start(a, task);
		}
}

/* What has ended and holds memory or others back is waited for at once. */
static void
sweep(struct st_arrange *a)
{
	for (uint32_t i = 0; i < a->flying_count; i++) {
		uint32_t task = a->flying[i];
		const struct st_ticket *ticket =
			&a->lanes.tickets[a->ticket[task]];

		if (ticket->end < 0)
			continue;
		wait_for(a, task);
		i--;
	}
}

static void
make_room(struct st_arrange *a)
{
	while (a->rules.limit != INT64_MAX && a->pending_count &&
	       st_segment_most(&a->segment, a->now, a->now + 1) + a->extra >
		       a->rules.limit) {
		uint32_t task = a->pending[a->pending_first++];

		a->pending_count--;
		wait_for(a, task);
	}
}

/* ---- choice of the next computation ---- */

/* About how long until a collective has ended, if its lane keeps its pace. */
static int64_t
time_left(const struct st_arrange *a, uint32_t task)
{
	const struct st_task *at = &a->tasks->at[task];
	int64_t sum = 0;

	if (a->state[task] == WAITED)
		return 0;
	if (a->state[task] != STARTED)
		return st_lanes_backlog(&a->lanes, at->lane) + at->work;
	if (a->lanes.tickets[a->ticket[task]].end >= 0)
		return 0;
	for (int32_t i = a->lanes.head[at->lane]; i >= 0;
	     i = a->lanes.tickets[i].next) {
		sum += a->lanes.tickets[i].left;
		if (i == a->ticket[task])
			break;
	}
	return sum;
}

/* How long a computation would stall now. */
static int64_t
stall_of(const struct st_arrange *a, uint32_t task)
{
	const struct st_tasks *t = a->tasks;
	const struct st_task *at = &t->at[task];
	int64_t most = 0;

	for (uint32_t p = 0; p < at->preds; p++) {
		uint32_t from = t->edges[at->first_pred + p];
		int64_t left;

		if (!st_task_is_comm(&t->at[from]))
			continue;
		left = time_left(a, from);
		most = left > most ? left : most;
	}
	return most;
}

/* Is the ready computation i to be taken rather than that at `best`? */
static int
is_preferred(const struct st_arrange *a, uint32_t i, uint32_t best)
{
	uint32_t x = a->ready[i], y = a->ready[best];
	int64_t gap = a->rank[x] - a->rank[y];

	if (a->rules.choice == ST_CHOICE_FILL)
		return 0;
	if (a->rules.choice == ST_CHOICE_PHASE && gap <= a->rules.slack &&
	    -gap <= a->rules.slack)
		return a->feed[x] < a->feed[y];
	return gap > 0;
}

/* What a stall costs if the computations behind it hide the next one. */
static int64_t
stall_behind(const struct st_arrange *a, uint32_t task, int64_t stall)
{
	int64_t behind = a->feed[task] < stall ? a->feed[task] : stall;

	return 2 * stall - behind;
}

/* Within the window the one that stalls least; of those the best. */
static uint32_t
choose(struct st_arrange *a)
{
	uint32_t best = 0, chosen;
	uint32_t far = a->place[a->ready[0]] + a->rules.window;
	int64_t least = INT64_MAX;

	for (uint32_t i = 0; i < a->ready_count; i++) {
		uint32_t task = a->ready[i];
		int64_t stall;

		if (a->place[task] > far)
			break;
		stall = stall_of(a, task);
		/* A stall that lets more be computed is the lesser one. */
		if (a->rules.hold && stall > 0)
			stall = stall_behind(a, task, stall);
		if (stall > least ||
		    (stall == least && !is_preferred(a, i, best)))
			continue;
		best = i;
		least = stall;
		if (a->rules.choice == ST_CHOICE_FILL && least == 0)
			break;
	}
	chosen = a->ready[best];
	a->ready_count--;
	memmove(a->ready + best, a->ready + best + 1,
		(a->ready_count - best) * sizeof(*a->ready));
	return chosen;
}

/* Nothing can be computed before some collective has ended: one that has by
 * now, or the first of those that run. */
static void
wait_for_any(struct st_arrange *a)
{
	int32_t first = INT32_MAX;

	sweep(a);
	if (a->ready_count)
		return;
	feed_lanes(a, 0, ST_NONE);
	for (int lane = 0; lane < a->tasks->lanes; lane++)
		if (a->lanes.head[lane] >= 0 && a->lanes.head[lane] < first)
			first = a->lanes.head[lane];
	if (first != INT32_MAX)
		wait_for(a, a->of_ticket[first]);
}

static void
compute(struct st_arrange *a, uint32_t task)
{
	const struct st_tasks *t = a->tasks;
	const struct st_task *at = &t->at[task];

	for (uint32_t p = 0; p < at->preds; p++) {
		uint32_t from = t->edges[at->first_pred + p];

		if (st_task_is_comm(&t->at[from]))
			wait_for(a, from);
	}
	emit(a, at->node);
	a->chosen[a->now] = task;
	st_lanes_compute(&a->lanes, at->work);
	a->now++;
	release_successors(a, task, 0);
}

/* ---- runs ---- */

static void
reset(struct st_arrange *a)
{
	const struct st_tasks *t = a->tasks;

	st_lanes_reset(&a->lanes);
	for (int i = 0; i < 2 * ST_LANES_MAX; i++)
		a->heaps[i].count = 0;
	a->pending_first = a->pending_count = 0;
	a->flying_count = a->ready_count = 0;
	a->extra = 0;
	a->now = a->count = 0;
	for (uint32_t i = 0; i < t->count; i++) {
		a->left[i] = t->at[i].preds;
		a->state[i] = BLOCKED;
	}
}

static void
begin(struct st_arrange *a)
{
	const struct st_tasks *t = a->tasks;

	for (uint32_t i = 0; i < t->count; i++)
		if (t->at[i].preds == 0)
			note_ready(a, i);
}

static void
run_sync(struct st_arrange *a, const uint32_t *computes)
{
	const struct st_tasks *t = a->tasks;

	for (uint32_t i = 0; i <= t->compute_count; i++) {
		for (int lane = 0; lane < t->lanes; lane++)
			for (;;) {
				uint32_t task =
					top_of(a, &a->heaps[2 * lane + 1]);

				if (task == ST_NONE)
					break;
				wait_for(a, task);
			}
		if (i < t->compute_count)
			compute(a, computes[i]);
	}
}

static void
finish(struct st_arrange *a)
{
	const struct st_tasks *t = a->tasks;

	a->now = t->compute_count;
	make_room(a);
	feed_lanes(a, INT64_MAX / 2, ST_NONE);
	for (uint32_t i = 0; i < t->count; i++)
		if (st_task_is_comm(&t->at[i]))
			wait_for(a, i);
	a->time = a->lanes.now;
}

/* The memory of the order without overlap, by position of computations. */
static void
find_base(struct st_arrange *a, const uint32_t *computes)
{
	const struct st_tasks *t = a->tasks;
	struct st_arrange_rules rules = a->rules;
	uint32_t position = 0, base = t->entry->first_node;
	int64_t most = 0;

	a->rules = (struct st_arrange_rules){.limit = INT64_MAX, .horizon = -1};
	reset(a);
	memset(a->lent, 0, t->count * sizeof(int64_t));
	begin(a);
	run_sync(a, computes);
	finish(a);
	st_peak_run(&a->peak, a->order, a->count, a->during);
	for (uint32_t i = 0; i < a->count; i++) {
		uint32_t task = t->of_node[a->order[i] - base];

		most = a->during[i] > most ? a->during[i] : most;
		if (st_task_is_comm(&t->at[task]))
			continue;
		a->during[position++] = most;
		most = 0;
	}
	a->during[position] = most;
	st_segment_fill(&a->segment, a->during, t->compute_count + 1);
	for (uint32_t i = 0; i < t->count; i++) {
		const struct st_task *task = &t->at[i];

		a->lent[i] = a->made[i] = 0;
		for (uint32_t p = 0; p < task->pairs; p++) {
			const struct st_pair *pair =
				&t->pairs[task->first_pair + p];

			a->made[i] += a->peak.made[pair->start - base];
			a->lent[i] += a->peak.freed[pair->wait - base];
		}
	}
	a->rules = rules;
}

static void
find_begins(struct st_arrange *a, const uint32_t *computes)
{
	int64_t sum = 0;

	for (uint32_t i = 0; i < a->tasks->compute_count; i++) {
		a->begins[i] = sum;
		sum += a->tasks->at[computes[i]].work;
	}
	a->begins[a->tasks->compute_count] = sum;
}

void
st_arrange_run(struct st_arrange *a, const uint32_t *computes,
	       const struct st_arrange_rules *rules)
{
	const struct st_tasks *t = a->tasks;

	a->rules = *rules;
	if (!computes)
		computes = t->computes;
	for (uint32_t i = 0; i < t->compute_count; i++)
		a->place[computes[i]] = i;
	find_deadlines(a, computes);
	find_begins(a, computes);
	if (rules->limit != INT64_MAX)
		find_base(a, computes);
	else
		memset(a->lent, 0, t->count * sizeof(int64_t));
	reset(a);
	begin(a);
	if (rules->sync) {
		run_sync(a, computes);
	} else {
		while (a->now < t->compute_count) {
			uint32_t task = computes[a->now];

			sweep(a);
			if (rules->choice != ST_CHOICE_GIVEN) {
				while (a->ready_count == 0)
					wait_for_any(a);
				task = choose(a);
			}
			make_room(a);
			if (rules->hold)
				start_needed(a, task);
			feed_lanes(a, t->at[task].work, task);
			compute(a, task);
		}
	}
	finish(a);
	a->top = rules->draft ? 0
			      : st_peak_run(&a->peak, a->order, a->count, NULL);
}

/* A bucket runs when its last start is issued. */
static void
replay_start(struct st_arrange *a, uint32_t node, uint32_t task)
{
	const struct st_task *at = &a->tasks->at[task];

	if (a->tasks->pairs[at->first_pair + at->pairs - 1].start != node)
		return;
	a->ticket[task] =
		st_lanes_start(&a->lanes, at->lane, at->tier, at->work);
}

void
st_arrange_replay(struct st_arrange *a, const uint32_t *order)
{
	const struct st_tasks *t = a->tasks;
	uint32_t base = t->entry->first_node, count = t->entry->nodes;

	st_lanes_reset(&a->lanes);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t node = order ? order[i] : base + i;
		uint32_t task = t->of_node[node - base];

		a->order[i] = node;
		if (!st_task_is_comm(&t->at[task]))
			st_lanes_compute(&a->lanes, t->at[task].work);
		else if (t->module->nodes.at[node].start)
			replay_start(a, node, task);
		else
			st_lanes_wait(&a->lanes, a->ticket[task]);
	}
	a->count = count;
	a->time = a->lanes.now;
	a->top = st_peak_run(&a->peak, a->order, count, NULL);
}

/* Can the rest still end by `most`? */
static int
is_late(const struct st_arrange *a, int64_t rest, int64_t most)
{
	return a->lanes.now + rest > most;
}

int
st_arrange_follow(struct st_arrange *a, const uint32_t *tokens, uint32_t count,
		  int64_t most)
{
	const struct st_tasks *t = a->tasks;
	int64_t rest = a->busy;

	a->rules.choice = ST_CHOICE_GIVEN;
	a->follows = 1;
	reset(a);
	for (uint32_t i = 0; i < count && !is_late(a, rest, most); i++) {
		uint32_t task = tokens[i] / 2;

		sweep(a);
		if (!st_task_is_comm(&t->at[task])) {
			compute(a, task);
			rest -= t->at[task].work;
		} else if (tokens[i] % 2 == 0) {
			start(a, task);
		} else if (a->state[task] == STARTED) {
			wait_for(a, task);
		}
	}
	for (uint32_t i = 0; i < count && !is_late(a, rest, most); i++)
		if (tokens[i] % 2 && a->state[tokens[i] / 2] == STARTED)
			wait_for(a, tokens[i] / 2);
	a->follows = 0;
	a->time = a->lanes.now;
	return !is_late(a, rest, most);
}

enum st_status
st_arrange_init(struct st_arrange *a, const struct st_tasks *t,
		const struct st_machine *machine)
{
	struct st_arena *arena = t->module->arena;
	size_t n = t->count + 1u;

	memset(a, 0, sizeof(*a));
	a->tasks = t;
	ST_TRY(st_peak_init(&a->peak, t));
	a->deadline = st_arena_array(arena, n, sizeof(uint32_t));
	a->left = st_arena_array(arena, n, sizeof(uint32_t));
	a->rank = st_arena_array(arena, n, sizeof(int64_t));
	a->feed = st_arena_array(arena, n, sizeof(int64_t));
	a->fed = st_arena_array(arena, n, sizeof(uint32_t));
	a->lent = st_arena_array(arena, n, sizeof(int64_t));
	a->made = st_arena_array(arena, n, sizeof(int64_t));
	a->ticket = st_arena_array(arena, n, sizeof(int32_t));
	a->state = st_arena_array(arena, n, 1);
	a->maker = st_arena_array(arena, n, 1);
	a->chained = st_arena_array(arena, n, 1);
	a->of_ticket = st_arena_array(arena, n, sizeof(uint32_t));
	a->bias = st_arena_array(arena, n, sizeof(uint32_t));
	a->place = st_arena_array(arena, n, sizeof(uint32_t));
	a->chosen = st_arena_array(arena, n, sizeof(uint32_t));
	a->begins = st_arena_array(arena, n, sizeof(int64_t));
	a->pending = st_arena_array(arena, n, sizeof(uint32_t));
	a->flying = st_arena_array(arena, n, sizeof(uint32_t));
	a->ready = st_arena_array(arena, n, sizeof(uint32_t));
	a->order =
		st_arena_array(arena, t->entry->nodes + 1u, sizeof(uint32_t));
	a->during =
		st_arena_array(arena, t->entry->nodes + 2u, sizeof(int64_t));
	for (int i = 0; i < 2 * t->lanes; i++)
		a->heaps[i].at = st_arena_array(arena, n, sizeof(uint32_t));
	if (arena->failed ||
	    st_lanes_init(&a->lanes, arena, machine, t->lane_axes, t->lanes,
			  t->count) ||
	    st_segment_init(&a->segment, arena, t->compute_count + 1))
		return st_error_memory(t->module->diag);
	for (uint32_t i = 0; i < t->compute_count; i++)
		a->busy += t->at[t->computes[i]].work;
	find_ranks(a);
	classify(a);
	return ST_OK;
}
