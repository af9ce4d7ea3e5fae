/* Collectives between threads: post, wait, work on a part, wait. */

#include "runtime/collective.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "kernels/cpu/cpu.h"

/* Parts of an all_reduce begin at multiples of this, so that two members do
 * not write the same cache line. */
enum { LINE = 64, ERROR_LENGTH = 384 };

enum kind {
	ALL_REDUCE,
	ALL_GATHER,
	REDUCE_SCATTER,
	ALL_TO_ALL,
	BROADCAST,
	BARRIER,
};

/* What a member asks for.  All but the buffers must be the same on all. */
struct call {
	enum kind kind;
	enum st_dtype dtype;
	enum st_reduce_op op;
	enum st_split_side split;
	int root;
	size_t outer, middle, chunk;
};

struct post {
	struct call call;
	const void *in;
	void *out;
	bool posted;
	const void **inputs; /* scratch: one pointer a member */
};

struct st_team {
	pthread_mutex_t mutex;
	pthread_cond_t all_posted, all_done;
	int members, timeout_ms;
	const int *ranks;
	const char *name;
	struct post *posts;
	struct st_link link;
	int64_t due_ns; /* of the round in work: set before it begins */

	/* Under the mutex. */
	int posted, done;
	uint64_t round;    /* counts rounds in which all have posted */
	uint64_t finished; /* counts those that all have left */
	enum st_status status;
	char error[ERROR_LENGTH];
};

static const char *const kind_names[] = {
	"all_reduce", "all_gather", "reduce_scatter",
	"all_to_all", "broadcast",  "barrier",
};

static const char *const dtype_names[] = {"f64", "f32", "bf16", "i32", "u8"};

static int
rank_of(const struct st_team *team, int member)
{
	return team->ranks ? team->ranks[member] : member;
}

/* The first failure stays.  With the mutex held. */
__attribute__((format(printf, 3, 4))) static void
fail(struct st_team *team, enum st_status status, const char *format, ...)
{
	va_list args;

	if (team->status != ST_OK)
		return;
	team->status = status;
	va_start(args, format);
	vsnprintf(team->error, sizeof(team->error), format, args);
	va_end(args);
	pthread_cond_broadcast(&team->all_posted);
}

/* "all_reduce of 16 f32, sum". */
static void
describe(const struct call *call, char *text, size_t size)
{
	static const char *const ops[] = {"sum", "max"};
	static const char *const sides[] = {"split first", "split last"};
	size_t used = 0;

	used = (size_t)snprintf(text, size, "%s", kind_names[call->kind]);
	if (call->kind == BARRIER)
		return;
	used += (size_t)snprintf(text + used, size - used, " of ");
	if (call->kind == ALL_TO_ALL)
		used += (size_t)snprintf(text + used, size - used,
					 "%zu x %zu x ", call->outer,
					 call->middle);
	else if (call->outer != 1)
		used += (size_t)snprintf(text + used, size - used, "%zu x ",
					 call->outer);
	used += (size_t)snprintf(text + used, size - used, "%zu %s",
				 call->chunk, dtype_names[call->dtype]);
	if (call->kind == ALL_REDUCE || call->kind == REDUCE_SCATTER)
		snprintf(text + used, size - used, ", %s", ops[call->op]);
	else if (call->kind == ALL_TO_ALL)
		snprintf(text + used, size - used, ", %s", sides[call->split]);
	else if (call->kind == BROADCAST)
		snprintf(text + used, size - used, " from member %d",
			 call->root);
}

static bool
same_call(const struct call *a, const struct call *b)
{
	return a->kind == b->kind && a->dtype == b->dtype && a->op == b->op &&
	       a->split == b->split && a->root == b->root &&
	       a->outer == b->outer && a->middle == b->middle &&
	       a->chunk == b->chunk;
}

/* All have posted: do they mean the same?  With the mutex held. */
static void
compare_calls(struct st_team *team)
{
	const struct call *first = &team->posts[0].call;
	char one[112], other[112];

	for (int i = 1; i < team->members; i++) {
		const struct call *call = &team->posts[i].call;

		if (same_call(first, call))
			continue;
		describe(first, one, sizeof(one));
		describe(call, other, sizeof(other));
		fail(team, ST_ECOMM, "%s: rank %d calls %s, rank %d calls %s",
		     team->name, rank_of(team, 0), one, rank_of(team, i),
		     other);
		return;
	}
	if ((first->kind == ALL_REDUCE || first->kind == REDUCE_SCATTER) &&
	    first->dtype == ST_U8)
		fail(team, ST_EUSAGE, "%s: %s cannot reduce u8", team->name,
		     kind_names[first->kind]);
	else if (first->kind == BROADCAST &&
		 (first->root < 0 || first->root >= team->members))
		fail(team, ST_EUSAGE, "%s: broadcast from member %d of %d",
		     team->name, first->root, team->members);
}

/* "tp: all_reduce waited 100 ms for ranks 3, 5 of 8"; with the mutex. */
static void
report_missing(struct st_team *team, enum kind kind)
{
	char list[160];
	size_t used = 0;
	int missing = team->members - team->posted;

	list[0] = '\0';
	for (int i = 0; i < team->members; i++) {
		if (team->posts[i].posted)
			continue;
		if (used + 32 > sizeof(list)) {
			snprintf(list + used, sizeof(list) - used, ", ...");
			break;
		}
		used += (size_t)snprintf(list + used, sizeof(list) - used,
					 "%s%d", used ? ", " : "",
					 rank_of(team, i));
	}
	fail(team, ST_ETIMEOUT, "%s: %s waited %d ms for rank%s %s of %d",
	     team->name, kind_names[kind], team->timeout_ms,
	     missing == 1 ? "" : "s", list, team->members);
}

static struct timespec
deadline_after(int timeout_ms)
{
	struct timespec deadline;

	clock_gettime(CLOCK_MONOTONIC, &deadline);
	deadline.tv_sec += timeout_ms / 1000;
	deadline.tv_nsec += timeout_ms % 1000 * 1000000L;
	if (deadline.tv_nsec >= 1000000000L) {
		deadline.tv_sec++;
		deadline.tv_nsec -= 1000000000L;
	}
	return deadline;
}

/* Waits until `round` is over or the team has failed. */
static void
wait_for_posts(struct st_team *team, uint64_t round, enum kind kind)
{
	struct timespec deadline = deadline_after(team->timeout_ms);
	int error = 0;

	while (team->round == round && team->status == ST_OK) {
		if (team->timeout_ms == 0)
			pthread_cond_wait(&team->all_posted, &team->mutex);
		else if (error == ETIMEDOUT)
			report_missing(team, kind);
		else
			error = pthread_cond_timedwait(&team->all_posted,
						       &team->mutex, &deadline);
	}
}

/* Bytes that cross the link of one member. */
static double
link_bytes(const struct st_team *team, const struct call *call)
{
	double n = (double)team->members;
	double part = (double)(call->outer * call->chunk) *
		      (double)st_dtype_size(call->dtype);

	switch (call->kind) {
	case ALL_REDUCE: return 2 * part * (n - 1) / n;
	case ALL_TO_ALL: return part * (double)call->middle * (n - 1);
	case BARRIER: return 0;
	case BROADCAST: return part;
	default: return part * (n - 1);
	}
}

/* When the emulated link has carried the round that begins now. */
static int64_t
due_of(const struct st_team *team, const struct call *call)
{
	struct timespec now;
	double ns;

	if (team->link.gb_per_s <= 0)
		return 0;
	clock_gettime(CLOCK_MONOTONIC, &now);
	ns = team->link.latency_us * 1e3 +
	     link_bytes(team, call) / team->link.gb_per_s;
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec + (int64_t)ns;
}

static void
sleep_until(int64_t ns)
{
	struct timespec due = {(time_t)(ns / 1000000000),
			       (long)(ns % 1000000000)};

	while (ns && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due,
				     NULL) == EINTR)
		;
}

/*
 * The first wait.  Decides for all members alike: either all work on this
 * round or none does, whatever happens to the team meanwhile.
 */
static enum st_status
enter(struct st_team *team, int member, const struct call *call, const void *in,
      void *out)
{
	struct post *post = &team->posts[member];
	enum st_status status;
	uint64_t round;

	assert(member >= 0 && member < team->members);
	pthread_mutex_lock(&team->mutex);
	round = team->round;
	if (team->status == ST_OK) {
		assert(!post->posted);
		post->call = *call;
		post->in = in;
		post->out = out;
		post->posted = true;
		if (++team->posted == team->members)
			compare_calls(team);
	}
	if (team->status == ST_OK && team->posted == team->members) {
		for (int i = 0; i < team->members; i++)
			team->posts[i].posted = false;
		team->posted = 0;
		team->round++;
		team->due_ns = due_of(team, call);
		pthread_cond_broadcast(&team->all_posted);
	} else {
		wait_for_posts(team, round, call->kind);
	}
	status = team->round == round ? team->status : ST_OK;
	pthread_mutex_unlock(&team->mutex);
	return status;
}

/*
 * The second wait: others may still read this member's buffers.  It always
 * ends, because all of them are at work and none waits for anything else;
 * hence neither a failure nor a timeout cuts it short.
 */
static void
leave(struct st_team *team)
{
	uint64_t finished;

	pthread_mutex_lock(&team->mutex);
	finished = team->finished;
	if (++team->done == team->members) {
		team->done = 0;
		team->finished++;
		pthread_cond_broadcast(&team->all_done);
	}
	while (team->finished == finished)
		pthread_cond_wait(&team->all_done, &team->mutex);
	pthread_mutex_unlock(&team->mutex);
}

static const char *
in_of(const struct st_team *team, int member)
{
	return team->posts[member].in;
}

/* memmove, as a member's own part may already be in place. */
static void
move(void *to, const void *from, size_t bytes)
{
	if (to != from && bytes)
		memmove(to, from, bytes);
}

/* Reduces `count` elements from byte `offset` of each member's input. */
static void
reduce(struct st_team *team, int member, size_t offset, void *out, size_t count)
{
	const struct post *post = &team->posts[member];
	int error;

	if (count == 0)
		return;
	for (int i = 0; i < team->members; i++)
		post->inputs[i] = in_of(team, i) + offset;
	error = st_cpu_reduce((int)post->call.dtype,
			      post->call.op == ST_REDUCE_SUM ? ST_CPU_SUM
							     : ST_CPU_MAX,
			      out, post->inputs, team->members, count);
	assert(error == ST_KERNEL_OK); /* compare_calls knows the dtypes */
	(void)error;
}

/* The member's slice, reduced once and given to all. */
static void
work_all_reduce(struct st_team *team, int member)
{
	const struct call *call = &team->posts[member].call;
	size_t size = st_dtype_size(call->dtype), line = LINE / size;
	size_t lines = (call->chunk + line - 1) / line;
	size_t n = (size_t)team->members, r = (size_t)member;
	size_t share = lines / n, more = lines % n;
	size_t begin = (r * share + (r < more ? r : more)) * line;
	size_t end = begin + (share + (r < more)) * line;
	char *out = team->posts[member].out;

	if (begin > call->chunk)
		begin = call->chunk;
	if (end > call->chunk)
		end = call->chunk;
	if (begin == end)
		return;
	reduce(team, member, begin * size, out + begin * size, end - begin);
	for (int i = 0; i < team->members; i++)
		move((char *)team->posts[i].out + begin * size,
		     out + begin * size, (end - begin) * size);
}

static void
work_all_gather(struct st_team *team, int member)
{
	const struct call *call = &team->posts[member].call;
	size_t bytes = call->chunk * st_dtype_size(call->dtype);
	size_t n = (size_t)team->members;
	char *out = team->posts[member].out;

	for (size_t j = 0; j < n; j++)
		for (size_t o = 0; o < call->outer; o++)
			move(out + (o * n + j) * bytes,
			     in_of(team, (int)j) + o * bytes, bytes);
}

static void
work_reduce_scatter(struct st_team *team, int member)
{
	const struct call *call = &team->posts[member].call;
	size_t bytes = call->chunk * st_dtype_size(call->dtype);
	size_t n = (size_t)team->members, r = (size_t)member;
	char *out = team->posts[member].out;

	for (size_t o = 0; o < call->outer; o++)
		reduce(team, member, (o * n + r) * bytes, out + o * bytes,
		       call->chunk);
}

/* In block o, piece m of member j's part for this member. */
static void
work_all_to_all(struct st_team *team, int member)
{
	const struct call *call = &team->posts[member].call;
	size_t bytes = call->chunk * st_dtype_size(call->dtype);
	size_t n = (size_t)team->members, r = (size_t)member;
	size_t middle = call->middle;
	bool first = call->split == ST_SPLIT_FIRST;
	char *out = team->posts[member].out;

	for (size_t j = 0; j < n; j++)
		for (size_t o = 0; o < call->outer; o++)
			for (size_t m = 0; m < middle; m++) {
				size_t by_part = o * n * middle + m;
				size_t by_piece = (o * middle + m) * n;
				size_t from = first ? by_part + r * middle
						    : by_piece + r;
				size_t to = first ? by_piece + j
						  : by_part + j * middle;

				move(out + to * bytes,
				     in_of(team, (int)j) + from * bytes, bytes);
			}
}

static void
work_broadcast(struct st_team *team, int member)
{
	const struct call *call = &team->posts[member].call;

	move(team->posts[member].out, in_of(team, call->root),
	     call->chunk * st_dtype_size(call->dtype));
}

static enum st_status
run(struct st_team *team, int member, const struct call *call, const void *in,
    void *out)
{
	ST_TRY(enter(team, member, call, in, out));
	sleep_until(team->due_ns);
	switch (call->kind) {
	case ALL_REDUCE: work_all_reduce(team, member); break;
	case ALL_GATHER: work_all_gather(team, member); break;
	case REDUCE_SCATTER: work_reduce_scatter(team, member); break;
	case ALL_TO_ALL: work_all_to_all(team, member); break;
	case BROADCAST: work_broadcast(team, member); break;
	case BARRIER: return ST_OK;
	}
	leave(team);
	return ST_OK;
}

static enum st_status
allocate(struct st_team *team, struct st_arena *arena,
	 const struct st_team_options *options)
{
	const char *name = options->name ? options->name : "team";
	size_t n = (size_t)options->members;
	const void **inputs;
	int *ranks;

	team->name = st_arena_strndup(arena, name, strnlen(name, 48));
	team->posts = st_arena_array(arena, n, sizeof(*team->posts));
	inputs = st_arena_array(arena, n * n, sizeof(*inputs));
	ranks = st_arena_array(arena, n, sizeof(*ranks));
	if (!team->name || !team->posts || !inputs || !ranks)
		return ST_EDEVICE;
	for (size_t i = 0; i < n; i++) {
		team->posts[i].inputs = inputs + i * n;
		ranks[i] = options->ranks ? options->ranks[i] : (int)i;
	}
	team->ranks = ranks;
	team->members = options->members;
	team->timeout_ms = options->timeout_ms;
	team->link = options->link;
	return ST_OK;
}

/* Returns 0 or errno; on failure nothing is left to destroy. */
static int
init_locks(struct st_team *team)
{
	pthread_condattr_t clock;
	int error = pthread_mutex_init(&team->mutex, NULL);

	if (error)
		return error;
	error = pthread_condattr_init(&clock);
	if (error)
		goto no_attribute;
	/* Setting the wall clock must not end a wait. */
	error = pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	if (!error)
		error = pthread_cond_init(&team->all_posted, &clock);
	pthread_condattr_destroy(&clock);
	if (error)
		goto no_attribute;
	error = pthread_cond_init(&team->all_done, NULL);
	if (!error)
		return 0;
	pthread_cond_destroy(&team->all_posted);
no_attribute:
	pthread_mutex_destroy(&team->mutex);
	return error;
}

enum st_status
st_team_create(struct st_team **result, struct st_arena *arena,
	       struct st_diag *diag, const struct st_team_options *options)
{
	struct st_team *team = st_arena_alloc(arena, sizeof(*team));
	int error;

	*result = NULL;
	if (options->members < 1 || options->members > ST_TEAM_LARGEST ||
	    options->timeout_ms < 0)
		return st_error(diag, ST_EUSAGE, st_no_loc(),
				"team of %d members with a timeout of %d ms",
				options->members, options->timeout_ms);
	if (!team || allocate(team, arena, options) != ST_OK)
		return st_error_memory(diag);
	error = init_locks(team);
	if (error)
		return st_error(diag, ST_EDEVICE, st_no_loc(),
				"cannot create the locks of a team: %s",
				strerror(error));
	*result = team;
	return ST_OK;
}

void
st_team_destroy(struct st_team *team)
{
	if (!team)
		return;
	pthread_cond_destroy(&team->all_done);
	pthread_cond_destroy(&team->all_posted);
	pthread_mutex_destroy(&team->mutex);
}

int
st_team_size(const struct st_team *team)
{
	return team->members;
}

enum st_status
st_team_status(struct st_team *team)
{
	enum st_status status;

	pthread_mutex_lock(&team->mutex);
	status = team->status;
	pthread_mutex_unlock(&team->mutex);
	return status;
}

const char *
st_team_error(struct st_team *team)
{
	return st_team_status(team) == ST_OK ? "" : team->error;
}

void
st_team_cancel(struct st_team *team, enum st_status status, const char *reason)
{
	assert(status != ST_OK);
	pthread_mutex_lock(&team->mutex);
	fail(team, status, "%s: %s", team->name, reason);
	pthread_mutex_unlock(&team->mutex);
}

enum st_status
st_team_all_reduce(struct st_team *team, int member, enum st_dtype dtype,
		   enum st_reduce_op op, const void *in, void *out,
		   size_t count)
{
	struct call call = {.kind = ALL_REDUCE,
			    .dtype = dtype,
			    .op = op,
			    .outer = 1,
			    .middle = 1,
			    .chunk = count};

	return run(team, member, &call, in, out);
}

enum st_status
st_team_all_gather(struct st_team *team, int member, enum st_dtype dtype,
		   const void *in, void *out, size_t outer, size_t chunk)
{
	struct call call = {.kind = ALL_GATHER,
			    .dtype = dtype,
			    .outer = outer,
			    .middle = 1,
			    .chunk = chunk};

	return run(team, member, &call, in, out);
}

enum st_status
st_team_reduce_scatter(struct st_team *team, int member, enum st_dtype dtype,
		       enum st_reduce_op op, const void *in, void *out,
		       size_t outer, size_t chunk)
{
	struct call call = {.kind = REDUCE_SCATTER,
			    .dtype = dtype,
			    .op = op,
			    .outer = outer,
			    .middle = 1,
			    .chunk = chunk};

	return run(team, member, &call, in, out);
}

enum st_status
st_team_all_to_all(struct st_team *team, int member, enum st_dtype dtype,
		   const struct st_exchange *shape, const void *in, void *out)
{
	struct call call = {.kind = ALL_TO_ALL,
			    .dtype = dtype,
			    .split = shape->split,
			    .outer = shape->outer,
			    .middle = shape->middle,
			    .chunk = shape->chunk};

	return run(team, member, &call, in, out);
}

enum st_status
st_team_broadcast(struct st_team *team, int member, enum st_dtype dtype,
		  int root, const void *in, void *out, size_t count)
{
	struct call call = {.kind = BROADCAST,
			    .dtype = dtype,
			    .root = root,
			    .outer = 1,
			    .middle = 1,
			    .chunk = count};

	return run(team, member, &call, in, out);
}

enum st_status
st_team_barrier(struct st_team *team, int member)
{
	struct call call = {.kind = BARRIER};

	return run(team, member, &call, NULL, NULL);
}
