/*
 * Teams of threads, as a plain program so that it runs under a thread
 * sanitizer: random sequences of collectives against a serial computation,
 * bit for bit; then what happens when a member fails, differs or is late.
 *
 * usage: test_collective [SEED [SEQUENCES]]
 */

#include "runtime/collective.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 8, STEPS = 40, ROOM = 1 << 18 };

#define REQUIRE(truth, ...)                                                  \
	do {                                                                 \
		if (!(truth)) {                                              \
			fprintf(stderr, "%s:%d: %s\n  ", __FILE__, __LINE__, \
				#truth);                                     \
			fprintf(stderr, __VA_ARGS__);                        \
			fprintf(stderr, "\n");                               \
			exit(1);                                             \
		}                                                            \
	} while (0)

struct member {
	struct st_team *team;
	pthread_t thread;
	int member, members;
	uint64_t seed;
	enum st_status status;
	int rounds;      /* that succeeded */
	double cpu_used; /* seconds */
	size_t count;
	enum st_dtype dtype;
	int kind;
};

static uint64_t
mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static uint64_t
draw(uint64_t *state, uint64_t bound)
{
	*state = mix(*state);
	return *state % bound;
}

/* Values of mixed sign and size, so that the order of a sum shows. */
static double
value_at(uint64_t seed, int member, size_t index)
{
	uint64_t bits = mix(mix(seed + (uint64_t)member) + index);
	double scale[] = {1e-3, 1, 37, 1e4};

	return ((double)(bits >> 12) / (double)(1ull << 51) - 1) *
	       scale[bits & 3];
}

static uint16_t
to_bf16(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, 4);
	bits += 0x7fff + (bits >> 16 & 1);
	return (uint16_t)(bits >> 16);
}

static float
from_bf16(uint16_t half)
{
	uint32_t bits = (uint32_t)half << 16;
	float value;

	memcpy(&value, &bits, 4);
	return value;
}

static void
store(void *array, enum st_dtype dtype, size_t index, double value)
{
	switch (dtype) {
	case ST_F64: ((double *)array)[index] = value; break;
	case ST_F32: ((float *)array)[index] = (float)value; break;
	case ST_BF16: ((uint16_t *)array)[index] = to_bf16((float)value); break;
	case ST_I32: ((int32_t *)array)[index] = (int32_t)value; break;
	default: ((uint8_t *)array)[index] = (uint8_t)(int)value; break;
	}
}

/* What a member has at an index, as its dtype keeps it. */
static double
input_at(enum st_dtype dtype, uint64_t seed, int member, size_t index)
{
	double value = value_at(seed, member, index);

	switch (dtype) {
	case ST_F32: return (float)value;
	case ST_BF16: return from_bf16(to_bf16((float)value));
	case ST_I32: return (int32_t)value;
	case ST_U8: return (uint8_t)(int)value;
	default: return value;
	}
}

/* In rank order; f32 and bf16 accumulate in float. */
static double
reduced_at(enum st_dtype dtype, enum st_reduce_op op, uint64_t seed,
	   int members, size_t index)
{
	double sum = input_at(dtype, seed, 0, index);

	for (int i = 1; i < members; i++) {
		double next = input_at(dtype, seed, i, index);

		if (op == ST_REDUCE_MAX)
			sum = next > sum ? next : sum;
		else if (dtype == ST_F64 || dtype == ST_I32)
			sum += next;
		else
			sum = (float)sum + (float)next;
	}
	return sum;
}

/* One collective: its form, and buffers with a guard behind the result. */
struct step {
	enum st_dtype dtype;
	enum st_reduce_op op;
	uint64_t seed;
	size_t outer, middle, chunk;
	int kind, root;
	bool in_place;
	enum st_split_side split;
};

enum {
	ALL_REDUCE,
	ALL_GATHER,
	REDUCE_SCATTER,
	ALL_TO_ALL,
	BROADCAST,
	BARRIER,
	KINDS
};

static struct step
draw_step(uint64_t *state)
{
	struct step step;

	step.kind = (int)draw(state, KINDS);
	step.dtype = (enum st_dtype)draw(
		state, step.kind == ALL_REDUCE || step.kind == REDUCE_SCATTER
			       ? ST_U8
			       : ST_DTYPE_COUNT);
	step.op = (enum st_reduce_op)draw(state, 2);
	step.outer = draw(state, 3) ? 1 : draw(state, 4);
	step.middle = 1 + draw(state, 3);
	step.chunk = draw(state, draw(state, 4) ? 20 : 300);
	step.root = (int)draw(state, 1 << 20);
	step.in_place = draw(state, 2);
	step.split = (enum st_split_side)draw(state, 2);
	step.seed = draw(state, UINT64_MAX);
	return step;
}

/* Number of elements that a member gives, and gets. */
static void
count_elements(const struct step *step, int members, size_t *in, size_t *out)
{
	size_t n = (size_t)members;

	*in = *out = step->chunk;
	if (step->kind == ALL_GATHER || step->kind == REDUCE_SCATTER) {
		*in = step->outer * step->chunk *
		      (step->kind == ALL_GATHER ? 1 : n);
		*out = step->outer * step->chunk *
		       (step->kind == ALL_GATHER ? n : 1);
	} else if (step->kind == ALL_TO_ALL) {
		*in = *out = step->outer * step->middle * step->chunk * n;
	} else if (step->kind == BARRIER) {
		*in = *out = 0;
	}
}

static double
exchanged_at(const struct step *step, int member, int members, size_t index)
{
	size_t n = (size_t)members, r = (size_t)member;
	size_t c = index % step->chunk, rest = index / step->chunk;
	size_t j, m, o, from;

	if (step->split == ST_SPLIT_FIRST) { /* out is [o][m][j][c] */
		j = rest % n;
		m = rest / n % step->middle;
		o = rest / n / step->middle;
		from = ((o * n + r) * step->middle + m) * step->chunk + c;
	} else { /* out is [o][j][m][c] */
		m = rest % step->middle;
		j = rest / step->middle % n;
		o = rest / step->middle / n;
		from = ((o * step->middle + m) * n + r) * step->chunk + c;
	}
	return input_at(step->dtype, step->seed, (int)j, from);
}

static double
expected_at(const struct step *step, int member, int members, size_t index)
{
	size_t n = (size_t)members, chunk = step->chunk;
	size_t o = index / chunk, c = index % chunk;

	switch (step->kind) {
	case ALL_REDUCE:
		return reduced_at(step->dtype, step->op, step->seed, members,
				  index);
	case REDUCE_SCATTER:
		return reduced_at(step->dtype, step->op, step->seed, members,
				  (o * n + (size_t)member) * chunk + c);
	case ALL_GATHER: /* index is (o * n + j) * chunk + c */
		return input_at(step->dtype, step->seed, (int)(o % n),
				o / n * chunk + c);
	case ALL_TO_ALL: return exchanged_at(step, member, members, index);
	default:
		return input_at(step->dtype, step->seed, step->root % members,
				index);
	}
}

static enum st_status
call_step(struct member *me, const struct step *step, const void *in, void *out)
{
	struct st_exchange shape = {step->split, step->outer, step->middle,
				    step->chunk};

	switch (step->kind) {
	case ALL_REDUCE:
		return st_team_all_reduce(me->team, me->member, step->dtype,
					  step->op, in, out, step->chunk);
	case ALL_GATHER:
		return st_team_all_gather(me->team, me->member, step->dtype, in,
					  out, step->outer, step->chunk);
	case REDUCE_SCATTER:
		return st_team_reduce_scatter(me->team, me->member, step->dtype,
					      step->op, in, out, step->outer,
					      step->chunk);
	case ALL_TO_ALL:
		return st_team_all_to_all(me->team, me->member, step->dtype,
					  &shape, in, out);
	case BROADCAST:
		return st_team_broadcast(me->team, me->member, step->dtype,
					 step->root % me->members, in, out,
					 step->chunk);
	default: return st_team_barrier(me->team, me->member);
	}
}

/* Where the result goes if the step is done in place. */
static void
place_buffers(const struct member *me, const struct step *step, char *in,
	      char *out, char **from, char **to)
{
	size_t own =
		(size_t)me->member * step->chunk * st_dtype_size(step->dtype);

	*from = in;
	*to = out;
	if (!step->in_place)
		return;
	if (step->kind == ALL_REDUCE || step->kind == BROADCAST)
		*to = in;
	else if (step->kind == ALL_GATHER && step->outer == 1)
		*from = out + own;
	else if (step->kind == REDUCE_SCATTER && step->outer == 1)
		*to = in + own;
}

static void
check_step(struct member *me, const struct step *step, char *in, char *out)
{
	size_t size = st_dtype_size(step->dtype), gives, gets;
	unsigned char want[8];
	char *from, *to;

	count_elements(step, me->members, &gives, &gets);
	REQUIRE(gives * size <= ROOM && gets * size <= ROOM, "room");
	place_buffers(me, step, in, out, &from, &to);
	for (size_t i = 0; i < gives; i++)
		store(from, step->dtype, i,
		      value_at(step->seed, me->member, i));
	REQUIRE(call_step(me, step, from, to) == ST_OK, "%s",
		st_team_error(me->team));
	for (size_t i = 0; i < gets; i++) {
		store(want, step->dtype, 0,
		      expected_at(step, me->member, me->members, i));
		REQUIRE(memcmp(to + i * size, want, size) == 0,
			"kind %d dtype %d op %d split %d, %d members, "
			"member %d, %zu x %zu x %zu, element %zu, in place "
			"%d, seed %llu",
			step->kind, (int)step->dtype, (int)step->op,
			(int)step->split, me->members, me->member, step->outer,
			step->middle, step->chunk, i, step->in_place,
			(unsigned long long)me->seed);
	}
	/* At once for the next round: nobody may still be reading. */
	memset(from, 0xa5, gives * size);
	memset(to, 0x5a, gets * size);
}

static void *
run_sequence(void *argument)
{
	struct member *me = argument;
	uint64_t state = me->seed; /* the same on all members */
	char *in = aligned_alloc(64, ROOM), *out = aligned_alloc(64, ROOM);

	REQUIRE(in && out, "out of memory");
	for (int i = 0; i < STEPS; i++) {
		struct step step = draw_step(&state);

		if (mix(me->seed + (uint64_t)(me->member * STEPS + i)) % 16 ==
		    0)
			usleep(200);
		check_step(me, &step, in, out);
	}
	free(in);
	free(out);
	return NULL;
}

struct crew {
	struct st_arena arena;
	struct st_diag diag;
	struct st_team *team;
	struct member members[MOST];
};

static void
assemble(struct crew *crew, int members, int timeout_ms)
{
	static const int ranks[MOST] = {0, 10, 20, 30, 40, 50, 60, 70};
	struct st_team_options options = {
		.name = "dp", .members = members, .ranks = ranks,
		.timeout_ms = timeout_ms};

	memset(crew, 0, sizeof(*crew));
	st_arena_init(&crew->arena, NULL);
	st_diag_init(&crew->diag, &crew->arena);
	REQUIRE(st_team_create(&crew->team, &crew->arena, &crew->diag,
			       &options) == ST_OK,
		"create");
	for (int i = 0; i < members; i++) {
		crew->members[i].team = crew->team;
		crew->members[i].member = i;
		crew->members[i].members = members;
	}
}

static void
start(struct member *member, void *(*body)(void *))
{
	REQUIRE(pthread_create(&member->thread, NULL, body, member) == 0,
		"thread");
}

static void
join(struct member *member)
{
	REQUIRE(pthread_join(member->thread, NULL) == 0, "join");
}

static void
dismiss(struct crew *crew)
{
	st_team_destroy(crew->team);
	st_arena_finish(&crew->arena);
}

static void
test_sequences(uint64_t seed, int sequences)
{
	for (int i = 0; i < sequences; i++) {
		int members = 1 + i % MOST;
		struct crew crew;

		assemble(&crew, members, i % 2 ? 60000 : 0);
		for (int j = 0; j < members; j++) {
			crew.members[j].seed = mix(seed + (uint64_t)i);
			start(&crew.members[j], run_sequence);
		}
		for (int j = 0; j < members; j++)
			join(&crew.members[j]);
		dismiss(&crew);
	}
}

/* Sums until the team ends. */
static void *
run_until_failure(void *argument)
{
	struct member *me = argument;
	int32_t data[200];

	for (;;) {
		for (int i = 0; i < 200; i++)
			data[i] = me->member + me->rounds;
		me->status = st_team_all_reduce(me->team, me->member, ST_I32,
						ST_REDUCE_SUM, data, data, 200);
		if (me->status != ST_OK)
			return NULL;
		for (int i = 0; i < 200; i++)
			REQUIRE(data[i] == me->members * (me->members - 1) / 2 +
						   me->members * me->rounds,
				"round %d", me->rounds);
		me->rounds++;
	}
}

/* From outside at any moment: every member has seen the same rounds. */
static void
test_cancel_at_random(uint64_t seed)
{
	for (int i = 0; i < 30; i++) {
		int members = 2 + i % (MOST - 1);
		struct crew crew;

		assemble(&crew, members, 0);
		for (int j = 0; j < members; j++)
			start(&crew.members[j], run_until_failure);
		usleep((unsigned)(mix(seed + (uint64_t)i) % 3000));
		st_team_cancel(crew.team, ST_EDEVICE, "kernel failed");
		st_team_cancel(crew.team, ST_ECOMM, "too late");
		for (int j = 0; j < members; j++)
			join(&crew.members[j]);
		for (int j = 0; j < members; j++) {
			REQUIRE(crew.members[j].status == ST_EDEVICE,
				"member %d", j);
			REQUIRE(crew.members[j].rounds ==
					crew.members[0].rounds,
				"member %d saw %d rounds, member 0 %d", j,
				crew.members[j].rounds, crew.members[0].rounds);
		}
		REQUIRE(strcmp(st_team_error(crew.team), "dp: kernel failed") ==
				0,
			"%s", st_team_error(crew.team));
		REQUIRE(st_team_barrier(crew.team, 0) == ST_EDEVICE,
			"a call after the end");
		dismiss(&crew);
	}
}

static void *
run_barrier(void *argument)
{
	struct member *me = argument;
	struct timespec used;

	me->status = st_team_barrier(me->team, me->member);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	me->cpu_used = (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
	return NULL;
}

/* A member that never comes does not keep the others, nor the processor. */
static void
test_cancel_while_waiting(void)
{
	struct crew crew;

	assemble(&crew, 4, 0);
	for (int i = 0; i < 3; i++)
		start(&crew.members[i], run_barrier);
	usleep(300000);
	st_team_cancel(crew.team, ST_EDEVICE, "rank 30 is out of memory");
	for (int i = 0; i < 3; i++) {
		join(&crew.members[i]);
		REQUIRE(crew.members[i].status == ST_EDEVICE, "member %d", i);
		REQUIRE(crew.members[i].cpu_used < 0.1,
			"waiting used %g s of processor time",
			crew.members[i].cpu_used);
	}
	dismiss(&crew);
}

static void
test_timeout(void)
{
	struct crew crew;

	assemble(&crew, 5, 1500);
	for (int i = 0; i < 5; i += 2)
		start(&crew.members[i], run_barrier);
	for (int i = 0; i < 5; i += 2) {
		join(&crew.members[i]);
		REQUIRE(crew.members[i].status == ST_ETIMEOUT, "member %d", i);
	}
	REQUIRE(strcmp(st_team_error(crew.team),
		       "dp: barrier waited 1500 ms for ranks 10, 30 of 5") == 0,
		"%s", st_team_error(crew.team));
	REQUIRE(st_team_barrier(crew.team, 1) == ST_ETIMEOUT, "the late one");
	dismiss(&crew);
}

static void *
run_one(void *argument)
{
	struct member *me = argument;
	char in[4096] = {1}, out[4096] = {2};
	struct step step = {.dtype = me->dtype,
			    .outer = 1,
			    .middle = 1,
			    .chunk = me->count,
			    .kind = me->kind,
			    .root = (int)me->seed};

	me->status =
		me->kind == BROADCAST && me->seed
			? st_team_broadcast(me->team, me->member, me->dtype,
					    (int)me->seed, in, out, me->count)
			: call_step(me, &step, in, out);
	REQUIRE(me->status == ST_OK || out[0] == 2, "out was written");
	return NULL;
}

struct mismatch {
	int kind[2];
	enum st_dtype dtype[2];
	size_t count[2];
	uint64_t root[2];
	enum st_status status;
	const char *text;
};

/* Member 2 of 4 differs from the others. */
static const struct mismatch mismatches[] = {
	{{ALL_REDUCE, ALL_GATHER},
	 {ST_F32, ST_F32},
	 {16, 4},
	 {0, 0},
	 ST_ECOMM,
	 "dp: rank 0 calls all_reduce of 16 f32, sum, rank 20 calls "
	 "all_gather of 4 f32"},
	{{ALL_REDUCE, ALL_REDUCE},
	 {ST_F32, ST_F32},
	 {16, 17},
	 {0, 0},
	 ST_ECOMM,
	 "dp: rank 0 calls all_reduce of 16 f32, sum, rank 20 calls "
	 "all_reduce of 17 f32, sum"},
	{{REDUCE_SCATTER, REDUCE_SCATTER},
	 {ST_F32, ST_I32},
	 {8, 8},
	 {0, 0},
	 ST_ECOMM,
	 "dp: rank 0 calls reduce_scatter of 8 f32, sum, rank 20 calls "
	 "reduce_scatter of 8 i32, sum"},
	{{BROADCAST, BROADCAST},
	 {ST_U8, ST_U8},
	 {8, 8},
	 {1, 2},
	 ST_ECOMM,
	 "dp: rank 0 calls broadcast of 8 u8 from member 1, rank 20 calls "
	 "broadcast of 8 u8 from member 2"},
	{{ALL_TO_ALL, BARRIER},
	 {ST_BF16, ST_BF16},
	 {3, 3},
	 {0, 0},
	 ST_ECOMM,
	 "dp: rank 0 calls all_to_all of 1 x 1 x 3 bf16, split first, rank "
	 "20 calls barrier"},
	/* Alike, but wrong. */
	{{ALL_REDUCE, ALL_REDUCE},
	 {ST_U8, ST_U8},
	 {8, 8},
	 {0, 0},
	 ST_EUSAGE,
	 "dp: all_reduce cannot reduce u8"},
	{{BROADCAST, BROADCAST},
	 {ST_U8, ST_U8},
	 {8, 8},
	 {4, 4},
	 ST_EUSAGE,
	 "dp: broadcast from member 4 of 4"},
};

static void
test_mismatch(const struct mismatch *row)
{
	struct crew crew;

	assemble(&crew, 4, 0);
	for (int i = 0; i < 4; i++) {
		struct member *member = &crew.members[i];

		member->kind = row->kind[i == 2];
		member->dtype = row->dtype[i == 2];
		member->count = row->count[i == 2];
		member->seed = row->root[i == 2];
		start(member, run_one);
	}
	for (int i = 0; i < 4; i++)
		join(&crew.members[i]);
	for (int i = 0; i < 4; i++)
		REQUIRE(crew.members[i].status == row->status, "member %d", i);
	REQUIRE(strcmp(st_team_error(crew.team), row->text) == 0, "%s",
		st_team_error(crew.team));
	dismiss(&crew);
}

static void
test_create(void)
{
	struct st_team_options bad[] = {
		{.members = 0},
		{.members = ST_TEAM_LARGEST + 1},
		{.members = 2, .timeout_ms = -1},
	};
	struct st_team *team;
	struct st_arena arena;
	struct st_diag diag;

	st_arena_init(&arena, NULL);
	st_diag_init(&diag, &arena);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		REQUIRE(st_team_create(&team, &arena, &diag, &bad[i]) ==
					ST_EUSAGE &&
				!team,
			"row %zu", i);
	st_team_destroy(NULL);
	st_arena_finish(&arena);
}

int
main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	int sequences = argc > 2 ? atoi(argv[2]) : 48;

	test_create();
	test_sequences(seed, sequences);
	test_cancel_at_random(seed);
	test_cancel_while_waiting();
	test_timeout();
	for (size_t i = 0; i < sizeof(mismatches) / sizeof(mismatches[0]); i++)
		test_mismatch(&mismatches[i]);
	printf("%d sequences of %d collectives, seed %llu\n", sequences, STEPS,
	       (unsigned long long)seed);
	return 0;
}
