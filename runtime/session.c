/* Ranks as threads, and the exchange of whole tensors with them. */

#include "runtime/session.h"

#include "kernels/cpu/cpu.h"
#include "runtime/lane.h"
#include "runtime/layout.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEFAULT_LARGEST_MESH = 256, QUIT = -1 };

struct rank {
	struct st_session *session;
	int64_t index;
	pthread_t thread;
	int started;
	char *base;                  /* its arena */
	struct st_lane *lanes[1 << ST_MAX_AXES]; /* by axes */
	uint64_t before[1 << ST_MAX_AXES]; /* issued before this run */
	struct st_launch **launches; /* by entry */
	struct st_trace_time **times; /* by entry; NULL without trace */
	enum st_status status;
	uint32_t node; /* where it failed */
	int kernel_error;
};

struct st_session {
	struct st_arena *arena;
	struct st_diag *diag;
	const struct st_module *module; /* `view` */
	struct st_module view; /* the plan, with messages going to `diag` */
	struct st_message failure; /* of the run that ended the session */
	struct st_teams teams;
	int has_lanes; /* some collective has a start */
	int no_collectives;
	struct rank *ranks;
	int64_t rank_count;
	int64_t op_ns[ST_OP_COUNT]; /* of rank 0 */

	pthread_mutex_t lock;
	pthread_cond_t go, done;
	int locks_made;
	uint64_t turn; /* counts runs */
	int64_t entry; /* what to run; QUIT: end */
	int64_t running;
};

static int64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void
slice(const struct st_slice_args *args, enum st_dtype dtype, void *from,
      void *to)
{
	void *ptr[2] = {from, to};
	struct st_kernel k = {.dtype = (int32_t)dtype, .pointers = 2,
			      .ptr = ptr};

	k.slice = *args;
	st_cpu_slice(&k);
}

static enum st_status
exchange(const struct st_launch *l, void *in, void *out)
{
	const struct st_comm_args *c = &l->comm;
	enum st_reduce_op op = c->reduction == ST_MAX ? ST_REDUCE_MAX
						      : ST_REDUCE_SUM;
	struct st_exchange shape = {
		c->split_last ? ST_SPLIT_LAST : ST_SPLIT_FIRST,
		(size_t)c->outer, (size_t)c->middle, (size_t)c->chunk};

	switch (c->op) {
	case ST_OP_all_reduce:
		return st_team_all_reduce(l->team, l->member, c->dtype, op, in,
					  out, (size_t)c->count);
	case ST_OP_all_gather:
		return st_team_all_gather(l->team, l->member, c->dtype, in,
					  out, (size_t)c->outer,
					  (size_t)c->chunk);
	case ST_OP_all_to_all:
		return st_team_all_to_all(l->team, l->member, c->dtype, &shape,
					  in, out);
	default:
		return st_team_reduce_scatter(l->team, l->member, c->dtype, op,
					      in, out, (size_t)c->outer,
					      (size_t)c->chunk);
	}
}

static enum st_status
run_collective(const struct st_launch *l)
{
	const struct st_comm_args *c = &l->comm;
	void *in = l->kernel.ptr[0], *out = l->kernel.ptr[1];

	if (l->padded) {
		slice(&c->pad, c->dtype, in, l->padded);
		in = l->padded;
	}
	ST_TRY(exchange(l, in, l->unstripped ? l->unstripped : out));
	if (l->unstripped)
		slice(&c->strip, c->dtype, l->unstripped, out);
	/* The last pieces of a flat tensor reach past its end. */
	if (c->zero_count > 0)
		memset((char *)out + (size_t)c->zero_from *
					     st_dtype_size(c->dtype),
		       0, (size_t)c->zero_count * st_dtype_size(c->dtype));
	return ST_OK;
}

static enum st_status
run_timed(struct rank *rank, const struct st_launch *l)
{
	const struct st_module *m = rank->session->module;
	uint32_t entry = m->nodes.at[l->node].entry;
	struct st_trace_time *time;
	enum st_status status;

	if (!rank->times)
		return run_collective(l);
	time = &rank->times[entry][l->node - m->entries.at[entry].first_node];
	time->begin = now_ns();
	status = run_collective(l);
	time->end = now_ns();
	return status;
}

static enum st_status
run_on_lane(void *user, const struct st_launch *l)
{
	return run_timed(user, l);
}

/* A collective without a start is one that is waited for at once. */
static enum st_status
run_lane(struct rank *rank, const struct st_launch *l)
{
	struct st_lane *lane = rank->lanes[l->axes];
	const struct st_launch *failed;
	enum st_status status;

	if (!l->is_wait)
		st_lane_issue(lane, l);
	if (l->is_start)
		return ST_OK;
	status = st_lane_wait(lane, rank->before[l->axes] + l->number,
			      &failed);
	if (status != ST_OK)
		rank->node = failed->node;
	return status;
}

static enum st_status
run_one(struct rank *rank, const struct st_launch *l)
{
	rank->node = l->node;
	if (!l->fn && rank->session->no_collectives)
		return ST_OK;
	if (!l->fn)
		return rank->session->has_lanes ? run_lane(rank, l)
						: run_collective(l);
	rank->kernel_error = l->fn(&l->kernel);
	if (rank->kernel_error == ST_KERNEL_OK)
		return ST_OK;
	return rank->kernel_error == ST_KERNEL_ERANGE ? ST_EINPUT
						      : ST_EDEVICE;
}

static void
run_rank(struct rank *rank, int64_t entry)
{
	struct st_session *s = rank->session;
	uint32_t nodes = s->module->entries.at[entry].nodes;
	const struct st_launch *launches = rank->launches[entry];
	int64_t before = now_ns();

	for (int axes = 0; axes < 1 << ST_MAX_AXES; axes++)
		if (rank->lanes[axes])
			rank->before[axes] = st_lane_issued(rank->lanes[axes]);
	for (uint32_t i = 0; i < nodes; i++) {
		int64_t begin = rank->times ? now_ns() : 0;
		enum st_status status = run_one(rank, &launches[i]);

		/* A start's time is written by its lane. */
		if (rank->times && !launches[i].is_start)
			rank->times[entry][i] =
				(struct st_trace_time){begin, now_ns()};
		if (status != ST_OK) {
			rank->status = status;
			st_teams_cancel(&s->teams, status,
					"another rank failed");
			return;
		}
		if (rank->index == 0) {
			int64_t now = now_ns();
			int op = s->module->nodes.at[launches[i].node].op;

			s->op_ns[op] += now - before;
			before = now;
		}
	}
}

static void *
rank_main(void *user)
{
	struct rank *rank = user;
	struct st_session *s = rank->session;
	uint64_t turn = 0;

	for (;;) {
		int64_t entry;

		pthread_mutex_lock(&s->lock);
		while (s->turn == turn)
			pthread_cond_wait(&s->go, &s->lock);
		turn = s->turn;
		entry = s->entry;
		pthread_mutex_unlock(&s->lock);
		if (entry == QUIT)
			return NULL;
		run_rank(rank, entry);
		pthread_mutex_lock(&s->lock);
		if (--s->running == 0)
			pthread_cond_signal(&s->done);
		pthread_mutex_unlock(&s->lock);
	}
}

static enum st_status
create_lanes(struct st_session *s, struct rank *rank)
{
	const struct st_module *m = s->module;
	struct st_lane_options options = {.run = run_on_lane, .user = rank};

	for (size_t e = 0; e < m->entries.count; e++)
		if (m->entries.at[e].nodes > options.most)
			options.most = m->entries.at[e].nodes;
	for (int axes = 0; axes < 1 << ST_MAX_AXES; axes++) {
		if (!s->teams.groups[axes])
			continue;
		rank->lanes[axes] = st_lane_create(s->arena, &options);
		if (!rank->lanes[axes])
			return st_error(s->diag, ST_EDEVICE, st_no_loc(),
					"no thread for a lane of rank %lld",
					(long long)rank->index);
	}
	return ST_OK;
}

static enum st_status
build_rank(struct st_session *s, struct rank *rank, int reference)
{
	const struct st_module *m = s->module;
	size_t bytes = (size_t)m->arena_bytes;

	rank->session = s;
	bytes = (bytes + 4095) / 4096 * 4096;
	rank->base = aligned_alloc(4096, bytes ? bytes : 4096);
	rank->launches = st_arena_array(s->arena, m->entries.count + 1,
					sizeof(*rank->launches));
	if (!rank->base || !rank->launches)
		return st_error(s->diag, ST_EDEVICE, st_no_loc(),
				"no memory for the arena of rank %lld: %zu "
				"bytes",
				(long long)rank->index, bytes);
	memset(rank->base, 0, bytes);
	for (size_t e = 0; e < m->entries.count; e++)
		ST_TRY(st_launch_build(s->arena, m, &m->entries.at[e],
				       rank->index, &s->teams, rank->base,
				       reference, &rank->launches[e]));
	return ST_OK;
}

static enum st_status
build_trace(struct st_session *s, struct rank *rank)
{
	const struct st_module *m = s->module;

	rank->times = st_arena_array(s->arena, m->entries.count + 1,
				     sizeof(*rank->times));
	for (size_t e = 0; rank->times && e < m->entries.count; e++)
		rank->times[e] =
			st_arena_array(s->arena, m->entries.at[e].nodes + 1u,
				       sizeof(**rank->times));
	return s->arena->failed ? st_error_memory(s->diag) : ST_OK;
}

static enum st_status
start_threads(struct st_session *s)
{
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->go, NULL);
	pthread_cond_init(&s->done, NULL);
	s->locks_made = 1;
	for (int64_t i = 0; i < s->rank_count; i++) {
		struct rank *rank = &s->ranks[i];

		if (pthread_create(&rank->thread, NULL, rank_main, rank))
			return st_error(s->diag, ST_EDEVICE, st_no_loc(),
					"no thread for rank %lld",
					(long long)i);
		rank->started = 1;
	}
	return ST_OK;
}

static enum st_status
check_module(struct st_diag *diag, const struct st_module *m, int64_t most)
{
	int64_t ranks = st_mesh_ranks(&m->mesh);

	if (m->form != ST_RANKED || m->arena_bytes == 0)
		return st_error(diag, ST_EINPUT, st_no_loc(),
				"the module is no plan: it must have gone "
				"through partition and memory");
	if (ranks > most)
		return st_error(diag, ST_EINFEASIBLE, st_no_loc(),
				"the mesh has %lld ranks; the cpu backend runs "
				"at most %lld threads",
				(long long)ranks, (long long)most);
	return ST_OK;
}

static enum st_status
open_session(struct st_session *s, const struct st_session_options *o)
{
	ST_TRY(st_teams_create(&s->teams, s->arena, s->module, o->timeout_ms,
			       &o->link));
	s->ranks = st_arena_array(s->arena, (size_t)s->rank_count,
				  sizeof(*s->ranks));
	if (!s->ranks)
		return st_error_memory(s->diag);
	s->no_collectives = o->no_collectives;
	for (size_t i = 0; i < s->module->nodes.count; i++)
		s->has_lanes |= s->module->nodes.at[i].start;
	for (int64_t i = 0; i < s->rank_count; i++) {
		s->ranks[i].index = i;
		ST_TRY(build_rank(s, &s->ranks[i], o->reference));
		if (o->trace)
			ST_TRY(build_trace(s, &s->ranks[i]));
		if (s->has_lanes && !o->no_collectives)
			ST_TRY(create_lanes(s, &s->ranks[i]));
	}
	return start_threads(s);
}

enum st_status
st_session_open(struct st_arena *arena, struct st_diag *diag,
		const struct st_module *module,
		const struct st_session_options *options,
		struct st_session **session)
{
	struct st_session_options none = {0}, *o = &none;
	struct st_session *s;
	enum st_status status;

	if (options)
		none = *options;
	ST_TRY(check_module(diag, module,
			    o->largest_mesh ? o->largest_mesh
					    : DEFAULT_LARGEST_MESH));
	s = st_arena_alloc(arena, sizeof(*s));
	if (!s)
		return st_error_memory(diag);
	s->arena = arena;
	s->diag = diag;
	s->view = *module;
	s->view.diag = diag;
	s->view.arena = arena;
	s->module = &s->view;
	s->rank_count = st_mesh_ranks(&module->mesh);
	status = open_session(s, o);
	if (status != ST_OK) {
		st_session_close(s);
		return status;
	}
	*session = s;
	return ST_OK;
}

void
st_session_close(struct st_session *s)
{
	if (!s)
		return;
	if (s->locks_made) {
		pthread_mutex_lock(&s->lock);
		s->entry = QUIT;
		s->turn++;
		pthread_cond_broadcast(&s->go);
		pthread_mutex_unlock(&s->lock);
	}
	for (int64_t i = 0; s->ranks && i < s->rank_count; i++)
		if (s->ranks[i].started)
			pthread_join(s->ranks[i].thread, NULL);
	/* What a failed run left behind on one may wait for another. */
	if (s->ranks)
		st_teams_cancel(&s->teams, ST_ECOMM, "the session ends");
	for (int64_t i = 0; s->ranks && i < s->rank_count; i++) {
		for (int axes = 0; axes < 1 << ST_MAX_AXES; axes++)
			st_lane_destroy(s->ranks[i].lanes[axes]);
		free(s->ranks[i].base);
	}
	if (s->locks_made) {
		pthread_mutex_destroy(&s->lock);
		pthread_cond_destroy(&s->go);
		pthread_cond_destroy(&s->done);
	}
	st_teams_destroy(&s->teams);
}

/* The rank that failed by itself, rather than because another did. */
static const struct rank *
find_culprit(const struct st_session *s)
{
	const struct rank *found = NULL;

	for (int64_t i = 0; i < s->rank_count; i++) {
		const struct rank *rank = &s->ranks[i];

		if (rank->status == ST_OK)
			continue;
		if (!found || (rank->kernel_error && !found->kernel_error))
			found = rank;
	}
	return found;
}

/* Which token or target was outside the vocabulary, and where; rows are
 * those of the rank. */
static const char *
name_outside(const struct st_session *s, const struct st_launch *l)
{
	int targets = l->kernel.op == ST_OP_xent_sum ||
		      l->kernel.op == ST_OP_xent_grad;
	const int32_t *ids = l->kernel.ptr[targets];
	const struct st_vocab_args *v = &l->kernel.vocab;
	const char *why = NULL;
	int64_t i = 0;

	while (i < v->b * v->t && ids[i] >= 0 && ids[i] < v->total)
		i++;
	if (i < v->b * v->t)
		why = st_arena_printf(s->arena,
				      "%s %ld at [%lld, %lld] is outside the "
				      "vocabulary of %lld",
				      targets ? "target" : "token",
				      (long)ids[i], (long long)(i / v->t),
				      (long long)(i % v->t),
				      (long long)v->total);
	return why ? why : "a token or target is outside the vocabulary";
}

static enum st_status
report(const struct st_session *s, const struct rank *rank)
{
	const struct st_node *node = &s->module->nodes.at[rank->node];
	uint32_t first = s->module->entries.at[node->entry].first_node;
	const struct st_launch *l =
		&rank->launches[node->entry][rank->node - first];
	const char *why = "failed";

	if (rank->kernel_error == ST_KERNEL_ERANGE)
		why = name_outside(s, l);
	else if (rank->kernel_error == ST_KERNEL_EDTYPE)
		why = "this arithmetic is not built";
	else if (st_ops[node->op].class == ST_COMM)
		why = st_team_error(l->team);
	return st_error(s->diag, rank->status,
			st_module_loc_at(s->module, node->loc),
			"rank %lld: %s %%%s: %s", (long long)rank->index,
			st_ops[node->op].name,
			st_value_name(s->module, node->first_result), why);
}

/* What a failed session holds is half of a step: the first reason stands for
 * whatever is asked of it. */
static enum st_status
check_alive(const struct st_session *s)
{
	if (s->failure.status == ST_OK)
		return ST_OK;
	return st_error(s->diag, s->failure.status, s->failure.loc,
			"the session has failed and can only be closed; it "
			"was: %s",
			s->failure.text ? s->failure.text : "out of memory");
}

enum st_status
st_session_run(struct st_session *s, uint32_t entry)
{
	const struct rank *culprit;
	enum st_status status;

	ST_TRY(check_alive(s));
	pthread_mutex_lock(&s->lock);
	s->entry = entry;
	s->running = s->rank_count;
	s->turn++;
	pthread_cond_broadcast(&s->go);
	while (s->running)
		pthread_cond_wait(&s->done, &s->lock);
	pthread_mutex_unlock(&s->lock);
	culprit = find_culprit(s);
	if (!culprit)
		return ST_OK;
	status = report(s, culprit);
	if (s->diag->count)
		s->failure = s->diag->messages[s->diag->count - 1];
	s->failure.status = status;
	return status;
}

static char *
buffer(const struct st_session *s, int64_t rank, uint32_t value)
{
	const struct st_module *m = s->module;

	return s->ranks[rank].base +
	       m->placements.at[m->values.at[value].arena_at];
}

static enum st_status
check_size(const struct st_session *s, uint32_t value, size_t bytes)
{
	const struct st_type *type = st_value_type(s->module, value);
	size_t want = (size_t)st_type_elements(type) *
		      st_dtype_size(type->dtype);

	if (bytes == want)
		return ST_OK;
	return st_error(s->diag, ST_EINPUT, st_no_loc(),
			"'%s' has %zu bytes, %zu given",
			st_value_name(s->module, value), want, bytes);
}

static void
scatter(struct st_session *s, uint32_t value, const void *data)
{
	const struct st_type *type = st_value_type(s->module, value);

	for (int64_t i = 0; i < s->rank_count; i++)
		st_layout_scatter(type, &s->module->mesh, i,
				  st_dtype_size(type->dtype), data,
				  buffer(s, i, value));
}

static void
gather(struct st_session *s, uint32_t value, void *data)
{
	const struct st_type *type = st_value_type(s->module, value);

	for (int64_t i = 0; i < s->rank_count; i++)
		if (st_layout_is_first(type, &s->module->mesh, i))
			st_layout_gather(type, &s->module->mesh, i,
					 st_dtype_size(type->dtype),
					 buffer(s, i, value), data);
}

enum st_status
st_session_write_input(struct st_session *s, uint32_t entry, const char *name,
		       const void *data, size_t bytes)
{
	const struct st_entry *e = &s->module->entries.at[entry];

	ST_TRY(check_alive(s));
	for (uint32_t i = 0; i < e->inputs; i++) {
		uint32_t value = e->first_input + i;

		if (strcmp(st_value_name(s->module, value), name) != 0)
			continue;
		ST_TRY(check_size(s, value, bytes));
		scatter(s, value, data);
		return ST_OK;
	}
	return st_error(s->diag, ST_EUSAGE, st_no_loc(),
			"entry '%s' has no input '%s'",
			st_names_text(s->module->names, e->name), name);
}

static uint32_t
find_output(const struct st_session *s, uint32_t entry, const char *name)
{
	const struct st_entry *e = &s->module->entries.at[entry];

	for (uint32_t i = 0; i < e->outputs; i++) {
		const struct st_output *output =
			&s->module->outputs.at[e->first_output + i];

		if (output->state == ST_NONE &&
		    strcmp(st_names_text(s->module->names, output->name),
			   name) == 0)
			return output->value;
	}
	return ST_NONE;
}

enum st_status
st_session_read_output(struct st_session *s, uint32_t entry, const char *name,
		       void *data, size_t bytes)
{
	uint32_t value = find_output(s, entry, name);

	if (value == ST_NONE)
		return st_error(s->diag, ST_EUSAGE, st_no_loc(),
				"no output is named '%s'", name);
	ST_TRY(check_size(s, value, bytes));
	gather(s, value, data);
	return ST_OK;
}

/* In a plan that was edited an output may be anything. */
static enum st_status
check_scalar(const struct st_session *s, uint32_t value, const char *name)
{
	const struct st_type *type = st_value_type(s->module, value);
	uint32_t node = s->module->values.at[value].node;

	if (type->factors == 0 &&
	    (type->dtype == ST_F32 || type->dtype == ST_F64))
		return ST_OK;
	return st_error(s->diag, ST_EINPUT,
			node == ST_NONE
				? st_no_loc()
				: st_module_loc_at(
					  s->module,
					  s->module->nodes.at[node].loc),
			"output '%s' is no scalar of f32 or f64", name);
}

enum st_status
st_session_read_scalar(struct st_session *s, uint32_t entry, const char *name,
		       double *value)
{
	uint32_t output = find_output(s, entry, name);
	float single;

	if (output != ST_NONE)
		ST_TRY(check_scalar(s, output, name));
	if (output != ST_NONE &&
	    st_value_type(s->module, output)->dtype == ST_F64)
		return st_session_read_output(s, entry, name, value,
					      sizeof(*value));
	ST_TRY(st_session_read_output(s, entry, name, &single,
				      sizeof(single)));
	*value = (double)single;
	return ST_OK;
}

static enum st_status
check_state(const struct st_session *s, uint32_t state)
{
	uint32_t value = s->module->states.at[state].value;

	ST_TRY(check_alive(s));
	if (st_value_type(s->module, value)->partial)
		return st_error(s->diag, ST_EUSAGE, st_no_loc(),
				"state '%s' is partial, so no rank holds it",
				st_value_name(s->module, value));
	return ST_OK;
}

enum st_status
st_session_read_state(struct st_session *s, uint32_t state, void *data)
{
	ST_TRY(check_state(s, state));
	gather(s, s->module->states.at[state].value, data);
	return ST_OK;
}

enum st_status
st_session_write_state(struct st_session *s, uint32_t state, const void *data)
{
	ST_TRY(check_state(s, state));
	scatter(s, s->module->states.at[state].value, data);
	return ST_OK;
}

const struct st_trace_time *
st_session_trace(const struct st_session *s, int64_t rank, uint32_t entry)
{
	return s->ranks[rank].times ? s->ranks[rank].times[entry] : NULL;
}

int64_t
st_session_op_ns(const struct st_session *s, enum st_op op)
{
	return s->op_ns[op];
}

int64_t
st_session_arena_bytes(const struct st_session *s)
{
	return s->module->arena_bytes;
}
