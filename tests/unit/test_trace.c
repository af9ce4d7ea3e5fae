/* Traces: sums by hand, there and back, pictures, bad files. */

#include "runtime/trace.h"

#include <criterion/criterion.h>
#include <string.h>

#include "models/model.h"
#include "passes/pass.h"

#define US(x) ((int64_t)(x)*ST_PS_PER_US)

/* lane 0  f f f f f f f f f f . . b b b b b b b b
 * dp      . . g g g g . . g g G G g g . . . . . .
 * tp      . . . . . r r r r . . . . . . . . . . .  (G: beside nothing) */
static struct st_trace_event events[] = {
	{"h.0/x", US(0), US(10), 0, ST_OP_matmul, ST_FORWARD, 0, {0}},
	{"h.0/g", US(2), US(6), 4096, ST_OP_all_gather, ST_FORWARD, 1, {0}},
	{"h.0/r", US(5), US(9), 64, ST_OP_reduce_scatter, ST_FORWARD, 2, {0}},
	{"h.1/g", US(8), US(14), 4096, ST_OP_all_gather, ST_FORWARD, 1, {0}},
	{"h.0/dx", US(12), US(20), 0, ST_OP_matmul, ST_BACKWARD, 0, {0}},
};
static const struct st_trace by_hand = {.kind = "predicted",
					.machine = "a \"quoted\" one",
					.rank = 1,
					.ranks = 2,
					.lanes = {"compute", "dp", "tp"},
					.lane_count = 3,
					.at = events,
					.count = sizeof(events) /
						 sizeof(events[0]),
					.step = US(20)};

static struct st_arena arena;
static struct st_diag diag;

static void
open_arena(void)
{
	st_arena_init(&arena, NULL);
	st_diag_init(&diag, &arena);
}

static enum st_status
read_text(const char *text, struct st_trace *trace)
{
	return st_trace_read(
		&arena, &diag,
		st_diag_add_source(&diag, "t.json", text, strlen(text)), text,
		strlen(text), trace);
}

Test(trace, sums)
{
	struct st_trace_sums sums;

	open_arena();
	cr_assert_eq(st_trace_sum(&arena, &by_hand, &sums), ST_OK);
	cr_assert_eq(sums.compute, US(18));
	cr_assert_eq(sums.comm, US(12));
	cr_assert_eq(sums.both, US(10));
	cr_assert_eq(sums.busy[0], US(18));
	cr_assert_eq(sums.busy[1], US(10));
	cr_assert_eq(sums.busy[2], US(4));
	cr_assert_eq(sums.alone[1], US(2));
	cr_assert_eq(sums.alone[2], 0);
	cr_assert_float_eq(st_trace_hta_overlap_pct(&sums), 1000.0 / 12, 1e-9);
	memset(&sums, 0, sizeof(sums));
	cr_assert_eq(st_trace_hta_overlap_pct(&sums), 0);
	st_arena_finish(&arena);
}

Test(trace, there_and_back)
{
	struct st_trace back;
	size_t length;
	char *text;

	open_arena();
	cr_assert_eq(st_trace_write(&arena, &by_hand, &text, &length), ST_OK);
	cr_assert_eq(strlen(text), length);
	cr_assert_not_null(strstr(text, "\"rank\": 1,"));
	cr_assert_not_null(
		strstr(text, "\"name\": \"ncclDevKernel all_gather h.0/g\""));
	cr_assert_eq(read_text(text, &back), ST_OK);
	cr_assert_str_eq(back.kind, "predicted");
	cr_assert_str_eq(back.machine, "a \"quoted\" one");
	cr_assert_eq(back.rank, 1);
	cr_assert_eq(back.ranks, 2);
	cr_assert_eq(back.lane_count, 3);
	cr_assert_eq(back.step, by_hand.step);
	cr_assert_eq(back.count, by_hand.count);
	for (int i = 0; i < 3; i++)
		cr_assert_str_eq(back.lanes[i], by_hand.lanes[i]);
	for (uint32_t i = 0; i < back.count; i++) {
		cr_assert_str_eq(back.at[i].node, events[i].node);
		cr_assert_eq(back.at[i].begin, events[i].begin);
		cr_assert_eq(back.at[i].end, events[i].end);
		cr_assert_eq(back.at[i].bytes, events[i].bytes);
		cr_assert_eq(back.at[i].op, events[i].op);
		cr_assert_eq(back.at[i].region, events[i].region);
		cr_assert_eq(back.at[i].lane, events[i].lane);
	}
	st_arena_finish(&arena);
}

static const char *
draw(int width, int64_t from, int64_t to)
{
	const struct st_timeline look = {
		.width = width, .ascii = 1, .from = from, .to = to};
	struct st_buffer out;

	st_buffer_init(&out, &arena);
	cr_assert_eq(st_timeline_draw(&arena, &by_hand, &look, &out), ST_OK);
	return out.text;
}

Test(trace, timeline)
{
	static const char whole[] =
		"compute  #x########..=dx=====  90% busy\n"
		"comm dp  ..-g--..-g##--......  0.002 of 0.010 ms exposed\n"
		"comm tp  .....-r--...........  0.000 of 0.004 ms exposed\n"
		"         0.000       0.020 ms\n";
	static const char part[] =
		"compute  #x##........=dx=====  90% busy\n"
		"comm dp  -g--########--------  0.002 of 0.010 ms exposed\n";

	open_arena();
	cr_assert_eq(strncmp(draw(20, 0, 0), whole, sizeof(whole) - 1), 0, "%s",
		     draw(20, 0, 0));
	/* 5 us in 20 columns: from 9 to 14. */
	cr_assert_eq(strncmp(draw(20, US(9), US(14)), part, sizeof(part) - 1),
		     0, "%s", draw(20, US(9), US(14)));
	st_arena_finish(&arena);
}

static void
refuse(const char *text, const char *message)
{
	struct st_trace trace;
	const char *line;

	open_arena();
	cr_assert_eq(read_text(text, &trace), ST_EINPUT, "%s", text);
	cr_assert_gt(diag.count, 0u, "%s", text);
	line = st_diag_render(&diag, 0);
	cr_assert_not_null(strstr(line, message), "%s: %s", text, line);
	st_arena_finish(&arena);
}

Test(trace, bad_files)
{
	refuse("", "expected a value");
	refuse("{}", "no events");
	refuse("{\"traceEvents\": 3}", "traceEvents: expected array");
	refuse("{\"traceEvents\": [3]}", "an event is an object");
	refuse("{\"traceEvents\": []}", "no events");
	refuse("{\"traceEvents\": [{\"ph\": \"X\"}]}", "without op");
	refuse("{\"traceEvents\": [{\"ph\": \"M\", \"name\": \"thread_name\","
	       "\"tid\": 9999}]}",
	       "a track of number 9999");
	refuse("{\"traceEvents\": [{\"ph\": \"M\", \"name\": \"thread_name\","
	       "\"tid\": 0.5}]}",
	       "tid is not a whole number");
	refuse("{\"traceEvents\": [{\"ph\": \"M\", \"name\": \"thread_name\","
	       "\"tid\": 0, \"args\": {\"name\": \"compute\"}},"
	       "{\"ph\": \"X\", \"tid\": 0, \"ts\": -1, \"dur\": 1, \"args\":"
	       "{\"op\": \"add\", \"node\": \"x\"}}]}",
	       "out of range");
	refuse("{\"traceEvents\": [", "t.json");
}

/* Of a plan: lanes hold nothing twice at a time, and the sums agree with the
 * verdicts. */
Test(trace, of_a_plan)
{
	static const char net[] =
		"stretto: 1\n"
		"model: {model_type: gpt2, vocab_size: 64, n_positions: 16,\n"
		"  n_embd: 32, n_layer: 2, n_head: 2}\n"
		"parallelism: {dp_shard: 2, zero_stage: 3}\n"
		"training: {seq_len: 16, micro_batch_size: 2, dtype: f32}\n";
	static const char *const search[] = {"models/families", NULL};
	struct st_model_source source = {.path = "net",
					 .text = net,
					 .length = sizeof(net) - 1,
					 .search = search};
	struct st_pipeline pipeline = {.passes = NULL};
	int64_t last[ST_TRACE_MAX_LANES] = {0};
	struct st_module *module, *plan;
	struct st_explanation x;
	struct st_trace_sums sums;
	struct st_trace trace;
	struct st_names names;
	struct st_model *model;
	const struct st_entry *step;
	const char *why;

	open_arena();
	cr_assert_eq(st_names_init(&names, &arena), 0);
	cr_assert_eq(st_model_load(&arena, &diag, &names, &source, &model),
		     ST_OK);
	cr_assert_eq(st_model_lower(model, &module), ST_OK);
	cr_assert_eq(st_pipeline_run(&pipeline, module, &plan), ST_OK);
	step = &plan->entries.at[st_module_find_entry(plan, "step")];
	cr_assert_eq(st_explain(plan, step, &st_machine_laptop, &x, &why),
		     ST_OK);
	cr_assert_eq(st_trace_predict(plan, step, &x, &trace), ST_OK);
	cr_assert_eq(st_trace_sum(&arena, &trace, &sums), ST_OK);
	cr_assert_gt(trace.lane_count, 1);
	cr_assert_eq(sums.compute, x.busy + x.contention);
	cr_assert_eq(trace.step, x.step);
	cr_assert_leq(sums.comm - sums.both, x.stalls);
	for (uint32_t i = 0; i < trace.count; i++) {
		const struct st_trace_event *e = &trace.at[i];

		cr_assert_leq(last[e->lane], e->begin, "%s", e->node);
		last[e->lane] = e->end;
	}
	st_arena_finish(&arena);
}
