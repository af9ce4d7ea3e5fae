/*
 * Collectives in flight: started here, waited for there, over real threads.
 * What a started collective gives must be what a plain one gives, bit for bit,
 * in whatever order it is waited for; the emulated link takes its time; and a
 * rank that fails leaves nobody waiting.
 */

#include "passes/pass.h"
#include "runtime/session.h"
#include "tests/train/harness.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

struct world {
	struct st_arena arena;
	struct st_diag diag;
	struct st_names names;
	struct st_module *plan;
	struct st_session *session;
};

static int
open_text(struct world *w, const char *text,
	  const struct st_session_options *options)
{
	struct st_pass_context cx = {0};
	struct st_module *module;
	uint32_t source;

	memset(w, 0, sizeof(*w));
	st_arena_init(&w->arena, NULL);
	st_diag_init(&w->diag, &w->arena);
	if (st_names_init(&w->names, &w->arena))
		return -1;
	source = st_diag_add_source(&w->diag, "test", text, strlen(text));
	if (st_parse(&w->arena, &w->diag, &w->names, source, &module) ||
	    st_verify(module) || st_pass_memory(&cx, module, &w->plan) ||
	    st_verify(w->plan) ||
	    st_session_open(&w->arena, &w->diag, w->plan, options,
			    &w->session)) {
		for (size_t i = 0; i < w->diag.count; i++)
			fputs(st_diag_render(&w->diag, i), stderr);
		return -1;
	}
	return 0;
}

static void
close_world(struct world *w)
{
	st_session_close(w->session);
	st_arena_finish(&w->arena);
}

static int64_t
now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

#define HEAD "stretto-ir 1\nform ranked\nmesh dp=2, tp=2\n"
#define ENTRY                                                            \
	"entry @run(%x : f32[64, 48/tp], %g : f32[64, 48] partial<sum>(dp)) {\n"

/* Sums over dp and pieces over tp, in flight together with computations. */
static const char in_flight[] = HEAD ENTRY
	"  %a.s = all_gather.start %x, axes=tp : async f32[64, 48]\n"
	"  %r.s = reduce_scatter.start %g, axes=dp : async f32[64/dp, 48]\n"
	"  %b.s = all_reduce.start %g, axes=dp : async f32[64, 48]\n"
	"  %y = scale %x, factor=3.0 : f32[64, 48/tp]\n"
	"  %z = activation %y, act=\"relu\" : f32[64, 48/tp]\n"
	"  %b = wait %b.s : f32[64, 48]\n"
	"  %a = wait %a.s : f32[64, 48]\n"
	"  %c = sum %a, %b : f32[64, 48]\n"
	"  %r = wait %r.s : f32[64/dp, 48]\n"
	"  %r.g.s = all_gather.start %r, axes=dp : async f32[64, 48]\n"
	"  %r.g = wait %r.g.s : f32[64, 48]\n"
	"  %d = sum %c, %r.g : f32[64, 48]\n"
	"  ret %d as d\n  ret %z as z\n}\n";

static const char at_once[] = HEAD ENTRY
	"  %a = all_gather %x, axes=tp : f32[64, 48]\n"
	"  %r = reduce_scatter %g, axes=dp : f32[64/dp, 48]\n"
	"  %b = all_reduce %g, axes=dp : f32[64, 48]\n"
	"  %y = scale %x, factor=3.0 : f32[64, 48/tp]\n"
	"  %z = activation %y, act=\"relu\" : f32[64, 48/tp]\n"
	"  %c = sum %a, %b : f32[64, 48]\n"
	"  %r.g = all_gather %r, axes=dp : f32[64, 48]\n"
	"  %d = sum %c, %r.g : f32[64, 48]\n"
	"  ret %d as d\n  ret %z as z\n}\n";

enum { ELEMENTS = 64 * 48 };

static int
run_text(const char *text, int runs, float *d, float *z)
{
	static float x[ELEMENTS];
	struct world w;
	int status = open_text(&w, text, NULL);

	for (int i = 0; i < ELEMENTS; i++)
		x[i] = (float)(i * 7919 % 1000) / 300.0f - 1.5f;
	for (int i = 0; i < runs && !status; i++)
		status = st_session_write_input(w.session, 0, "x", x,
						sizeof(x)) ||
			 st_session_run(w.session, 0) ||
			 st_session_read_output(w.session, 0, "d", d,
						ELEMENTS * sizeof(*d)) ||
			 st_session_read_output(w.session, 0, "z", z,
						ELEMENTS * sizeof(*z));
	close_world(&w);
	return status;
}

static void
check_same(void)
{
	static float d[2][ELEMENTS], z[2][ELEMENTS];

	check(run_text(at_once, 1, d[0], z[0]) == 0, "collectives at once");
	check(run_text(in_flight, 50, d[1], z[1]) == 0, "in flight, 50 runs");
	check(memcmp(d[0], d[1], sizeof(d[0])) == 0 &&
		      memcmp(z[0], z[1], sizeof(z[0])) == 0,
	      "the same bits");
}

/* 64 KiB that all but a half cross the link, at 10 MB/s and 2 ms. */
static const char one_gather[] =
	"stretto-ir 1\nform ranked\nmesh dp=2\n"
	"entry @run(%x : f32[16384/dp]) {\n"
	"  %a.s = all_gather.start %x, axes=dp : async f32[16384]\n"
	"  %a = wait %a.s : f32[16384]\n"
	"  %b.s = all_gather.start %x, axes=dp : async f32[16384]\n"
	"  %b = wait %b.s : f32[16384]\n"
	"  %c = sum %a, %b : f32[16384]\n"
	"  ret %c as c\n}\n";

static void
check_link(void)
{
	struct st_session_options options = {
		.link = {.latency_us = 2000, .gb_per_s = 0.01}, .trace = 1};
	const struct st_trace_time *t;
	const int64_t want = 2 * (2000 + 3276);
	struct world w;
	int64_t begin;

	check(open_text(&w, one_gather, &options) == 0, "open with a link");
	begin = now_us();
	check(st_session_run(w.session, 0) == 0, "run over a link");
	check(now_us() - begin >= want, "two transfers take %lld us at least",
	      (long long)want);
	t = st_session_trace(w.session, 1, 0);
	check(t && t[0].end - t[0].begin >= want / 2 * 1000 &&
		      t[1].end >= t[0].end && t[2].begin >= t[1].end,
	      "the trace has transfers, waits and what follows");
	close_world(&w);

	options = (struct st_session_options){.no_collectives = 1,
					      .trace = 1};
	check(open_text(&w, one_gather, &options) == 0 &&
		      st_session_run(w.session, 0) == 0,
	      "without collectives");
	close_world(&w);
}

/* Rank 0 alone holds an id outside the vocabulary; the others are waiting. */
static const char failing[] =
	"stretto-ir 1\nform ranked\nmesh dp=2\n"
	"entry @run(%t : i32[2/dp, 8], %w : f32[16, 4], "
	"%g : f32[64] partial<sum>(dp)) {\n"
	"  %e = embedding %t, %w : f32[8, 2/dp, 4]\n"
	"  %b.s = all_reduce.start %g, axes=dp : async f32[64]\n"
	"  %b = wait %b.s : f32[64]\n"
	"  ret %b as b\n  ret %e as e\n}\n";

static void
check_failure(void)
{
	static const int32_t ids[16] = {99};
	struct world w;

	check(open_text(&w, failing, NULL) == 0, "open");
	check(st_session_write_input(w.session, 0, "t", ids, sizeof(ids)) == 0,
	      "write");
	check(st_session_run(w.session, 0) == ST_EINPUT,
	      "a rank that fails ends the run");
	check(w.diag.count &&
		      strstr(w.diag.messages[w.diag.count - 1].text, "rank 0"),
	      "and is named");
	check(st_session_run(w.session, 0) != ST_OK, "for good");
	close_world(&w);
}

int
main(void)
{
	check_same();
	check_link();
	check_failure();
	return finish();
}
