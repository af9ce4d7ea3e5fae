/*
 * schedule: the order of issue, and the communicator of each collective.
 *
 *   before: %g.s = all_gather.start %w, axes=dp : async f32[64]
 *           %g = wait %g.s : f32[64]
 *           %y = matmul %x, %v ...
 *           %z = matmul %y, %g ...
 *   after:  %g.s = all_gather.start %w, axes=dp : async f32[64] on dp.0
 *           %y = matmul %x, %v ...
 *           %g = wait %g.s : f32[64]
 *           %z = matmul %y, %g ...
 *
 * Tries several orders of the computations, places starts and waits for each
 * (arrange.c) and keeps the quickest on the machine's virtual clock; among
 * equals the one that needs least memory.  The program's own order is always
 * among them, so the result is never slower by the model.  Small entries are
 * then improved by local search.
 *
 * The limit on memory holds for the packed arena: where packing leaves holes
 * the orders are tried again under a tighter limit, and at last the program's
 * order stands.  Small modules are first tried without a limit, which may do
 * by itself.  If nothing fits it is an error.
 *
 * Requires `async`.  Does nothing to an entry without collectives.  Cost:
 * tasks times log tasks for each order tried.
 */

#include "passes/improve.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

#include <string.h>

enum { DRAFTS = 3 };

struct scheduler {
	const struct st_module *in;
	const struct st_machine *machine;
	struct st_live live;
	struct st_tasks tasks;
	struct st_arrange arrange;
	uint32_t *best; /* order of nodes */
	int64_t best_time, best_top;
	int64_t limit; /* of what the entry computes */
	int64_t time;  /* of all entries, as ordered last */
	int64_t top;   /* most of what lives, with what is fixed */
	struct {
		uint32_t *computes; /* an order of computations */
		int64_t time;
	} drafts[DRAFTS]; /* quickest first */
	int draft_count;
	uint32_t **orders; /* by entry: the order found */
	uint8_t *apart; /* by entry: its buckets are taken apart */
};

/* Within a thousandth two times are one, and memory decides. */
static int
is_better(const struct scheduler *s)
{
	int64_t time = s->arrange.time, top = s->arrange.top;
	int64_t near = s->best_time / 1000;

	if (s->best_time < 0)
		return 1;
	/* What does not fit is only for want of what does. */
	if (s->best_top > s->limit)
		return top < s->best_top;
	if (top > s->limit)
		return 0;
	if (time < s->best_time - near)
		return 1;
	return time <= s->best_time && top < s->best_top;
}

static void
keep_if_better(struct scheduler *s)
{
	if (!is_better(s))
		return;
	s->best_time = s->arrange.time;
	s->best_top = s->arrange.top;
	memcpy(s->best, s->arrange.order,
	       s->tasks.entry->nodes * sizeof(uint32_t));
}

static void
try_given(struct scheduler *s, const uint32_t *computes)
{
	static const int64_t ahead[] = {-1, 4};
	int64_t longest = 0;

	for (uint32_t i = 0; i < s->tasks.count; i++)
		if (st_task_is_comm(&s->tasks.at[i]) &&
		    s->tasks.at[i].work > longest)
			longest = s->tasks.at[i].work;
	for (size_t i = 0; i < sizeof(ahead) / sizeof(ahead[0]); i++) {
		struct st_arrange_rules rules = {
			.limit = s->limit,
			.hold = 1,
			.horizon = ahead[i] < 0 ? -1 : ahead[i] * longest,
		};

		st_arrange_run(&s->arrange, computes, &rules);
		keep_if_better(s);
	}
}

/* An order of computations found by choosing freely; of all those only the
 * quickest are worth a second look. */
static void
keep_draft(struct scheduler *s, int64_t time)
{
	size_t bytes = s->tasks.compute_count * sizeof(uint32_t);
	uint32_t *order = s->drafts[DRAFTS - 1].computes;
	int i = DRAFTS - 1;

	for (int k = 0; k < s->draft_count; k++)
		if (s->drafts[k].time == time &&
		    memcmp(s->drafts[k].computes, s->arrange.chosen, bytes) ==
			    0)
			return;
	if (s->draft_count == DRAFTS && time >= s->drafts[i].time)
		return;
	if (s->draft_count < DRAFTS) {
		i = s->draft_count++;
		order = s->drafts[i].computes;
	}
	for (; i > 0 && s->drafts[i - 1].time > time; i--)
		s->drafts[i] = s->drafts[i - 1];
	s->drafts[i].time = time;
	s->drafts[i].computes = order;
	memcpy(order, s->arrange.chosen, bytes);
}

/* Returns how long the step takes without a limit. */
static int64_t
try_choice(struct scheduler *s, enum st_choice choice, uint32_t window,
	   int64_t slack)
{
	struct st_arrange_rules rules = {.choice = choice,
					 .window = window,
					 .slack = slack,
					 .hold = 1,
					 .draft = 1,
					 .limit = INT64_MAX,
					 .horizon = -1};

	st_arrange_run(&s->arrange, NULL, &rules);
	keep_draft(s, s->arrange.time);
	return s->arrange.time;
}

/*
 * How much longer ways may differ and still count as one decides how far the
 * pieces of a layer drift apart, and the best drift is the model's own: the
 * slack is searched, first by halves, then between the best and its
 * neighbours.  stage: computation between two collectives.
 */
static void
search_slack(struct scheduler *s, uint32_t window, int64_t stage)
{
	static const int64_t fine[] = {18, 21, 26, 30};
	int64_t best = 0, least = INT64_MAX;

	for (int k = 0; k < 6; k++) {
		int64_t slack = stage << k;
		int64_t time = try_choice(s, ST_CHOICE_PHASE, window, slack);

		if (time < least) {
			least = time;
			best = slack;
		}
	}
	for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++)
		try_choice(s, ST_CHOICE_PHASE, window, best / 32 * fine[i]);
}

/* Computation between two collectives, on average. */
static int64_t
stage_of(const struct scheduler *s)
{
	uint32_t comms = s->tasks.count - s->tasks.compute_count;
	int64_t sum = 0;

	for (uint32_t i = 0; i < s->tasks.compute_count; i++)
		sum += s->tasks.at[s->tasks.computes[i]].work;
	return sum / (comms + 1);
}

static void
try_choices(struct scheduler *s)
{
	int64_t stage = stage_of(s);

	s->draft_count = 0;
	try_choice(s, ST_CHOICE_FILL, 64, 0);
	try_choice(s, ST_CHOICE_RANK, 64, 0);
	search_slack(s, 16, stage);
	/* Where it costs little, more is tried. */
	if (s->tasks.count < 8192)
		search_slack(s, 64, stage);
	else
		try_choice(s, ST_CHOICE_PHASE, 64, 8 * stage);
	try_choice(s, ST_CHOICE_PHASE, 128, 32 * stage);
	for (int i = 0; i < s->draft_count; i++)
		try_given(s, s->drafts[i].computes);
}

/* The program as it stands, and without overlap but with collectives where
 * they need least memory. */
static void
try_program(struct scheduler *s)
{
	struct st_arrange_rules rules = {
		.limit = INT64_MAX, .horizon = -1, .sync = 1};

	st_arrange_run(&s->arrange, s->tasks.computes, &rules);
	keep_if_better(s);
	st_arrange_replay(&s->arrange, NULL);
	keep_if_better(s);
}

static int
is_small(const struct st_entry *entry)
{
	return entry->nodes <= ST_IMPROVE_MOST_NODES;
}

static enum st_status
improve(struct scheduler *s)
{
	struct st_improve search;

	if (!is_small(s->tasks.entry) || s->best_top > s->limit)
		return ST_OK;
	ST_TRY(st_improve_init(&search, &s->arrange));
	/* Under a limit there are several attempts. */
	if (st_improve_run(&search, s->best, s->best_time, s->limit,
			   s->limit == INT64_MAX ? 1 : 3))
		keep_if_better(s);
	return ST_OK;
}

/* Makes ready to order an entry. */
static enum st_status
prepare(struct scheduler *s, const struct st_entry *entry, int buckets,
	const char **why)
{
	ST_TRY(st_tasks_make(&s->tasks, s->in, entry, s->machine, &s->live,
			     buckets, why));
	if (s->tasks.count == s->tasks.compute_count)
		return ST_OK;
	ST_TRY(st_arrange_init(&s->arrange, &s->tasks, s->machine));
	for (int i = 0; i < DRAFTS; i++)
		s->drafts[i].computes = st_arena_array(
			s->in->arena, s->tasks.count + 1u, sizeof(uint32_t));
	return s->in->arena->failed ? st_error_memory(s->in->diag) : ST_OK;
}

static int
has_buckets(const struct st_module *m, const struct st_entry *entry)
{
	for (uint32_t i = 0; i < entry->nodes; i++) {
		const struct st_node *node =
			&m->nodes.at[entry->first_node + i];

		if (node->start && st_node_attr(m, node, ST_KEY_bucket))
			return 1;
	}
	return 0;
}

/* About how quick an entry can be made. */
static int64_t
quick_time(struct scheduler *s)
{
	int64_t fill, phase;

	s->draft_count = 0;
	fill = try_choice(s, ST_CHOICE_FILL, 64, 0);
	phase = try_choice(s, ST_CHOICE_PHASE, 16, 4 * stage_of(s));
	return fill < phase ? fill : phase;
}

/* A bucket must not undo overlap: is the entry quicker without any? */
static enum st_status
judge_buckets(struct scheduler *s, const struct st_entry *entry,
	      const char **why)
{
	int64_t apart;
	size_t e = (size_t)(entry - s->in->entries.at);

	ST_TRY(prepare(s, entry, 0, why));
	apart = quick_time(s);
	ST_TRY(prepare(s, entry, 1, why));
	s->apart[e] = quick_time(s) > apart;
	return s->apart[e] ? prepare(s, entry, 0, why) : ST_OK;
}

static enum st_status
order_entry(struct scheduler *s, const struct st_entry *entry,
	    struct st_pass_context *cx)
{
	const char *why = NULL;
	enum st_status status;

	st_live_entry(&s->live, entry);
	status = has_buckets(s->in, entry) ? judge_buckets(s, entry, &why)
					   : prepare(s, entry, 1, &why);
	if (status == ST_EINFEASIBLE && why) {
		cx->skipped = why;
		return ST_OK;
	}
	ST_TRY(status);
	if (s->tasks.count == s->tasks.compute_count)
		return ST_OK;
	s->best = st_arena_array(s->in->arena, entry->nodes + 1u,
				 sizeof(uint32_t));
	if (!s->best)
		return st_error_memory(s->in->diag);
	s->best_time = -1;
	try_program(s);
	try_given(s, s->tasks.computes);
	try_choices(s);
	ST_TRY(improve(s));
	s->orders[entry - s->in->entries.at] = s->best;
	s->time += s->best_time;
	cx->changes += s->tasks.count - s->tasks.compute_count;
	return ST_OK;
}

/* "dp.0", "dp_replicate.dp_shard.0": the axes and a number. */
static uint32_t
communicator(struct st_module *m, unsigned axes)
{
	char text[512];
	size_t length = 0;
	uint32_t name;

	for (uint32_t i = 0; i < m->communicators.count; i++)
		if (m->communicators.at[i].axes == axes)
			return i + 1;
	for (uint32_t i = 0; i < m->mesh.count; i++) {
		const char *axis = st_names_text(m->names, m->mesh.name[i]);
		size_t n = strlen(axis);

		if (!(axes >> i & 1) || length + n + 3 > sizeof(text))
			continue;
		memcpy(text + length, axis, n);
		text[length + n] = '.';
		length += n + 1;
	}
	text[length++] = '0';
	name = st_names_add(m->names, text, length);
	return st_module_add_communicator(m, name, axes, ST_NONE);
}

static enum st_status
write_orders(struct scheduler *s, struct st_module **out)
{
	const struct st_module *in = s->in;
	struct st_rewrite w;

	ST_TRY(st_rewrite_init(&w, in));
	for (size_t e = 0; e < in->entries.count; e++) {
		const struct st_entry *entry = &in->entries.at[e];

		st_rewrite_begin(&w, entry);
		for (uint32_t i = 0; i < entry->nodes; i++) {
			uint32_t n = s->orders[e] ? s->orders[e][i]
						  : entry->first_node + i;
			struct st_node *made;

			if (s->apart[e] && in->nodes.at[n].start)
				st_rewrite_bucket(&w, n, -1);
			else
				st_rewrite_node(&w, n);
			ST_TRY(st_rewrite_status(&w));
			made = &w.out->nodes.at[w.out->nodes.count - 1];
			if (made->start)
				made->on = communicator(
					w.out,
					(unsigned)st_node_int(w.out, made,
							      ST_KEY_axes));
		}
		st_rewrite_end(&w, entry);
	}
	w.out->options[ST_OPTION_machine].s = s->machine->name;
	w.out->options_set |= (uint64_t)1 << ST_OPTION_machine;
	*out = w.out;
	return st_rewrite_status(&w);
}

/* Bytes that lie beside what an entry computes. */
static int64_t
fixed_bytes(const struct scheduler *s, const struct st_entry *entry)
{
	int64_t bytes = 0;

	for (uint32_t i = 0; i < s->in->states.count; i++)
		bytes += st_live_bytes(&s->live, s->in->states.at[i].value);
	for (uint32_t i = 0; i < entry->inputs; i++)
		bytes += st_live_bytes(&s->live, entry->first_input + i);
	return bytes;
}

static enum st_status
order_all(struct scheduler *s, int64_t limit, struct st_pass_context *cx)
{
	cx->changes = 0;
	s->time = s->top = 0;
	for (size_t e = 0; e < s->in->entries.count; e++) {
		const struct st_entry *entry = &s->in->entries.at[e];

		int64_t fixed = fixed_bytes(s, entry);

		s->limit = limit ? limit - fixed : INT64_MAX;
		s->best_top = 0;
		ST_TRY(order_entry(s, entry, cx));
		if (s->best_top + fixed > s->top)
			s->top = s->best_top + fixed;
	}
	return ST_OK;
}

/* What `memory` makes of it. */
static enum st_status
packed_bytes(const struct st_module *m, int64_t *bytes)
{
	struct st_pass_context cx = {0};
	struct st_module *placed;

	ST_TRY(st_pass_memory(&cx, m, &placed));
	*bytes = placed->arena_bytes;
	return ST_OK;
}

static enum st_status
fail_limit(const struct st_module *m, int64_t limit, int64_t bytes)
{
	return st_error(m->diag, ST_EINFEASIBLE, st_no_loc(),
			"schedule: the limit is %lld bytes a rank, and the "
			"program's own order needs %lld",
			(long long)limit, (long long)bytes);
}

/* Orders under a limit on the sum of what lives (0: none). */
static enum st_status
attempt(struct scheduler *s, int64_t tight, struct st_pass_context *cx,
	struct st_module **out, int64_t *bytes)
{
	ST_TRY(order_all(s, tight, cx));
	ST_TRY(write_orders(s, out));
	return packed_bytes(*out, bytes);
}

/* Tightens the limit by what packing adds; *out is NULL if nothing fits. */
static enum st_status
tighten(struct scheduler *s, int64_t limit, struct st_pass_context *cx,
	struct st_module **out)
{
	int64_t bytes, tight = limit;

	for (int turn = 0; turn < 4 && tight > 0; turn++) {
		ST_TRY(attempt(s, tight, cx, out, &bytes));
		if (bytes <= limit)
			return ST_OK;
		tight = (s->top < tight ? s->top : tight) - (bytes - limit);
	}
	*out = NULL;
	return ST_OK;
}

/* Small modules can pay for more: first without a limit, then by halves
 * between what fitted and what did not. */
static enum st_status
search_limit(struct scheduler *s, int64_t limit, struct st_pass_context *cx,
	     struct st_module **out)
{
	int64_t bytes, tight = limit, good = 0, bad = 0, best = 0;
	struct st_module *found;

	ST_TRY(attempt(s, 0, cx, out, &bytes));
	if (bytes <= limit)
		return ST_OK;
	*out = NULL;
	for (int turn = 0; turn < 6 && tight > 0; turn++) {
		ST_TRY(attempt(s, tight, cx, &found, &bytes));
		if (bytes <= limit) {
			if (!*out || s->time < best) {
				*out = found;
				best = s->time;
			}
			if (tight == limit)
				break;
			good = tight;
		} else {
			bad = tight;
		}
		tight = good ? good + (bad - good) / 2
			     : tight - (bytes - limit);
	}
	return ST_OK;
}

static int
all_small(const struct st_module *m)
{
	for (size_t e = 0; e < m->entries.count; e++)
		if (!is_small(&m->entries.at[e]))
			return 0;
	return 1;
}

/* The program's order, or, where that does not fit, the quickest of all. */
static enum st_status
fall_back(struct scheduler *s, int64_t limit, struct st_pass_context *cx,
	  struct st_module **out)
{
	int64_t bytes, least;

	memset(s->orders, 0, s->in->entries.count * sizeof(*s->orders));
	memset(s->apart, 0, s->in->entries.count);
	ST_TRY(write_orders(s, out));
	ST_TRY(packed_bytes(*out, &least));
	cx->changes = 0;
	cx->skipped = "only the program's own order fits into the limit";
	if (least <= limit)
		return ST_OK;
	ST_TRY(attempt(s, 0, cx, out, &bytes));
	cx->skipped = NULL;
	return bytes <= limit ? ST_OK : fail_limit(s->in, limit, least);
}

static enum st_status
leave(struct scheduler *s, int64_t limit, struct st_pass_context *cx,
      struct st_module **out)
{
	int64_t bytes;

	ST_TRY(write_orders(s, out));
	cx->skipped = "overlap is off";
	if (limit == 0)
		return ST_OK;
	ST_TRY(packed_bytes(*out, &bytes));
	return bytes <= limit ? ST_OK : fail_limit(s->in, limit, bytes);
}

static enum st_status
fit(struct scheduler *s, int64_t limit, struct st_pass_context *cx,
    struct st_module **out)
{
	if (strcmp(s->in->options[ST_OPTION_overlap].s, "none") == 0)
		return leave(s, limit, cx, out);
	if (limit == 0) {
		ST_TRY(order_all(s, 0, cx));
		return write_orders(s, out);
	}
	if (all_small(s->in))
		ST_TRY(search_limit(s, limit, cx, out));
	else
		ST_TRY(tighten(s, limit, cx, out));
	return *out ? ST_OK : fall_back(s, limit, cx, out);
}

enum st_status
st_pass_schedule(struct st_pass_context *cx, const struct st_module *in,
		 struct st_module **out)
{
	struct scheduler s;

	memset(&s, 0, sizeof(s));
	s.in = in;
	s.machine = cx->machine;
	ST_TRY(st_live_init(&s.live, in));
	s.orders = st_arena_array(in->arena, in->entries.count + 1,
				  sizeof(*s.orders));
	s.apart = st_arena_array(in->arena, in->entries.count + 1, 1);
	if (!s.orders || !s.apart)
		return st_error_memory(in->diag);
	ST_TRY(fit(&s, cx->memory_limit, cx, out));
	if (cx->changes == 0 && !cx->skipped)
		cx->skipped = "there is no collective";
	return ST_OK;
}
