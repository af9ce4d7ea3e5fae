/*
 * Traces as Chrome's JSON.
 *
 * What readers insist on: HolisticTraceAnalysis takes an event for one of a
 * device if its category is "kernel" and args.stream is set, for a collective
 * if its name begins with "nccl" and holds "Kernel", and finds the rank by a
 * pattern that wants a blank behind the colon.  Perfetto wants slices of one
 * track not to overlap.  Times are microseconds; six decimals keep
 * picoseconds.
 */

#include "runtime/trace.h"

#include <math.h>
#include <string.h>

#include "runtime/json.h"

static const char *const regions[] = {"forward", "backward", "optimizer"};

static void
put_time(struct st_buffer *out, int64_t ps)
{
	st_buffer_printf(out, "%lld.%06lld", (long long)(ps / ST_PS_PER_US),
			 (long long)(ps % ST_PS_PER_US));
}

static void
put_string(struct st_buffer *out, const char *text)
{
	struct st_json_writer w;

	st_json_writer_init(&w, st_json_put_buffer, out);
	st_json_string(&w, text);
}

static void
put_head(struct st_buffer *out, const struct st_trace *trace)
{
	st_buffer_printf(out,
			 "{\"schemaVersion\": 1,\n\"distributedInfo\": "
			 "{\"rank\": %lld, \"backend\": \"nccl\", "
			 "\"world_size\": %lld},\n\"stretto\": {\"kind\": ",
			 (long long)trace->rank, (long long)trace->ranks);
	put_string(out, trace->kind);
	st_buffer_puts(out, ", \"machine\": ");
	put_string(out, trace->machine);
	st_buffer_puts(out, ", \"step_us\": ");
	put_time(out, trace->step);
	st_buffer_puts(out, "},\n\"traceEvents\": [\n");
	st_buffer_printf(out,
			 "{\"ph\": \"M\", \"name\": \"process_name\", "
			 "\"pid\": %lld, \"args\": {\"name\": \"rank %lld, "
			 "%s\"}}",
			 (long long)trace->rank, (long long)trace->rank,
			 trace->kind);
	for (int i = 0; i < trace->lane_count; i++)
		st_buffer_printf(out,
				 ",\n{\"ph\": \"M\", \"name\": "
				 "\"thread_name\", \"pid\": %lld, \"tid\": %d, "
				 "\"args\": {\"name\": \"%s%s\"}}",
				 (long long)trace->rank, i, i ? "comm: " : "",
				 trace->lanes[i]);
}

static void
put_event(struct st_buffer *out, const struct st_trace *trace, uint32_t i)
{
	const struct st_trace_event *e = &trace->at[i];

	st_buffer_printf(out,
			 ",\n{\"ph\": \"X\", \"cat\": \"kernel\", \"pid\": "
			 "%lld, \"tid\": %d, \"ts\": ",
			 (long long)trace->rank, e->lane);
	put_time(out, e->begin);
	st_buffer_puts(out, ", \"dur\": ");
	put_time(out, e->end - e->begin);
	st_buffer_printf(out,
			 ", \"name\": \"%s%s %s\", \"args\": {\"stream\": %d, "
			 "\"correlation\": %u, \"op\": \"%s\", \"node\": "
			 "\"%s\", \"region\": \"%s\"",
			 e->lane ? "ncclDevKernel " : "", st_ops[e->op].name,
			 e->node, e->lane, i + 1, st_ops[e->op].name, e->node,
			 regions[e->region]);
	if (e->lane)
		st_buffer_printf(out, ", \"bytes\": %lld", (long long)e->bytes);
	st_buffer_puts(out, "}}");
}

enum st_status
st_trace_write(struct st_arena *arena, const struct st_trace *trace,
	       char **text, size_t *length)
{
	struct st_buffer out;

	st_buffer_init(&out, arena);
	put_head(&out, trace);
	for (uint32_t i = 0; i < trace->count; i++)
		put_event(&out, trace, i);
	st_buffer_puts(&out, "\n]}\n");
	*text = out.text;
	*length = out.length;
	return arena->failed ? ST_EDEVICE : ST_OK;
}

/* ---- reading ---- */

struct reader {
	struct st_json_reader json;
	struct st_arena *arena;
	struct st_diag *diag;
	struct st_trace *trace;
	size_t capacity;
	int found; /* a list of events */
};

/* One event of the list, whatever the order of its keys. */
struct raw {
	char phase;
	const char *name, *lane, *node, *op, *region;
	double begin, length;
	int64_t pid, tid, bytes;
	struct st_loc loc;
};

static const char *
keep(struct reader *r)
{
	char *copy = st_arena_array(r->arena, r->json.length + 1, 1);

	if (!copy)
		return "";
	memcpy(copy, r->json.string, r->json.length);
	copy[r->json.length] = '\0';
	return copy;
}

static enum st_status
read_string(struct reader *r, const char *what, const char **string)
{
	ST_TRY(st_json_expect(&r->json, ST_JSON_STRING, what));
	*string = keep(r);
	return ST_OK;
}

static enum st_status
read_number(struct reader *r, const char *what, double *value)
{
	ST_TRY(st_json_expect(&r->json, ST_JSON_NUMBER, what));
	*value = r->json.number;
	return ST_OK;
}

static enum st_status
read_integer(struct reader *r, const char *what, int64_t *value)
{
	ST_TRY(st_json_expect(&r->json, ST_JSON_NUMBER, what));
	if (!r->json.whole)
		return st_error(r->diag, ST_EINPUT, st_json_loc(&r->json),
				"%s is not a whole number", what);
	*value = r->json.integer;
	return ST_OK;
}

/* Calls `field` for each key of the object that comes next. */
static enum st_status
read_object(struct reader *r, const char *what,
	    enum st_status (*field)(struct reader *r, void *user), void *user)
{
	ST_TRY(st_json_expect(&r->json, ST_JSON_OBJECT, what));
	while (st_json_next(&r->json) == ST_JSON_KEY)
		ST_TRY(field(r, user));
	return r->json.token == ST_JSON_OBJECT_END ? ST_OK : r->json.status;
}

static enum st_status
read_argument(struct reader *r, void *user)
{
	struct raw *raw = user;

	if (st_json_is(&r->json, "name"))
		return read_string(r, "args.name", &raw->lane);
	if (st_json_is(&r->json, "node"))
		return read_string(r, "args.node", &raw->node);
	if (st_json_is(&r->json, "op"))
		return read_string(r, "args.op", &raw->op);
	if (st_json_is(&r->json, "region"))
		return read_string(r, "args.region", &raw->region);
	if (st_json_is(&r->json, "bytes"))
		return read_integer(r, "args.bytes", &raw->bytes);
	return st_json_skip(&r->json);
}

static enum st_status
read_field(struct reader *r, void *user)
{
	struct raw *raw = user;
	const char *text;

	if (st_json_is(&r->json, "ph")) {
		ST_TRY(read_string(r, "ph", &text));
		raw->phase = text[0];
		return ST_OK;
	}
	if (st_json_is(&r->json, "name"))
		return read_string(r, "name", &raw->name);
	if (st_json_is(&r->json, "ts"))
		return read_number(r, "ts", &raw->begin);
	if (st_json_is(&r->json, "dur"))
		return read_number(r, "dur", &raw->length);
	if (st_json_is(&r->json, "tid"))
		return read_integer(r, "tid", &raw->tid);
	if (st_json_is(&r->json, "args"))
		return read_object(r, "args", read_argument, raw);
	return st_json_skip(&r->json);
}

static enum st_status
take_lane(struct reader *r, const struct raw *raw)
{
	const char *name = raw->lane ? raw->lane : "";

	if (raw->tid < 0 || raw->tid >= ST_TRACE_MAX_LANES)
		return st_error(r->diag, ST_EINPUT, raw->loc,
				"a track of number %lld is none of stretto's",
				(long long)raw->tid);
	if (strncmp(name, "comm: ", 6) == 0)
		name += 6;
	r->trace->lanes[raw->tid] = name;
	if (raw->tid >= r->trace->lane_count)
		r->trace->lane_count = (int)raw->tid + 1;
	return ST_OK;
}

static int
region_of(const char *name)
{
	for (int i = 0; name && i < 3; i++)
		if (strcmp(name, regions[i]) == 0)
			return i;
	return 0;
}

static enum st_status
take_event(struct reader *r, const struct raw *raw)
{
	const double most = 9e12; /* us; in ps still an int64 */
	int op = raw->op ? st_op_find(raw->op, strlen(raw->op)) : -1;
	struct st_trace_event *e;

	if (op < 0 || !raw->node || raw->tid < 0 ||
	    raw->tid >= r->trace->lane_count)
		return st_error(r->diag, ST_EINPUT, raw->loc,
				"an event without op, node or track of a "
				"stretto trace");
	if (!(raw->begin >= 0 && raw->begin < most && raw->length >= 0 &&
	      raw->length < most - raw->begin))
		return st_error(r->diag, ST_EINPUT, raw->loc,
				"the times of '%s' are out of range",
				raw->node);
	e = st_arena_grow(r->arena, r->trace->at, r->trace->count, &r->capacity,
			  r->trace->count + 1u, sizeof(*e));
	if (!e)
		return st_error_memory(r->diag);
	r->trace->at = e;
	e += r->trace->count++;
	memset(e, 0, sizeof(*e));
	e->loc = raw->loc;
	e->node = raw->node;
	e->op = (uint16_t)op;
	e->region = (uint8_t)region_of(raw->region);
	e->lane = (uint8_t)raw->tid;
	e->bytes = raw->bytes;
	e->begin = (int64_t)(raw->begin * 1e6 + 0.5);
	e->end = e->begin + (int64_t)(raw->length * 1e6 + 0.5);
	if (e->end > r->trace->step)
		r->trace->step = e->end;
	return ST_OK;
}

static enum st_status
read_events(struct reader *r)
{
	ST_TRY(st_json_expect(&r->json, ST_JSON_ARRAY, "traceEvents"));
	r->found = 1;
	for (;;) {
		struct raw raw;

		memset(&raw, 0, sizeof(raw));
		if (st_json_next(&r->json) == ST_JSON_ARRAY_END)
			return ST_OK;
		if (r->json.token != ST_JSON_OBJECT)
			return r->json.status != ST_OK
				       ? r->json.status
				       : st_error(r->diag, ST_EINPUT,
						  st_json_loc(&r->json),
						  "an event is an object");
		raw.loc = st_json_loc(&r->json);
		while (st_json_next(&r->json) == ST_JSON_KEY)
			ST_TRY(read_field(r, &raw));
		if (r->json.token != ST_JSON_OBJECT_END)
			return r->json.status;
		if (raw.phase == 'X')
			ST_TRY(take_event(r, &raw));
		if (raw.phase == 'M' && raw.name &&
		    strcmp(raw.name, "thread_name") == 0)
			ST_TRY(take_lane(r, &raw));
	}
}

static enum st_status
read_own(struct reader *r, void *user)
{
	struct st_trace *trace = user;
	double us;

	if (st_json_is(&r->json, "kind"))
		return read_string(r, "kind", &trace->kind);
	if (st_json_is(&r->json, "machine"))
		return read_string(r, "machine", &trace->machine);
	if (!st_json_is(&r->json, "step_us"))
		return st_json_skip(&r->json);
	ST_TRY(read_number(r, "step_us", &us));
	if (us >= 0 && us < 9e12)
		trace->step = (int64_t)(us * 1e6 + 0.5);
	return ST_OK;
}

static enum st_status
read_place(struct reader *r, void *user)
{
	struct st_trace *trace = user;

	if (st_json_is(&r->json, "rank"))
		return read_integer(r, "rank", &trace->rank);
	if (st_json_is(&r->json, "world_size"))
		return read_integer(r, "world_size", &trace->ranks);
	return st_json_skip(&r->json);
}

static enum st_status
read_top(struct reader *r, void *user)
{
	if (st_json_is(&r->json, "traceEvents"))
		return read_events(r);
	if (st_json_is(&r->json, "stretto"))
		return read_object(r, "stretto", read_own, user);
	if (st_json_is(&r->json, "distributedInfo"))
		return read_object(r, "distributedInfo", read_place, user);
	return st_json_skip(&r->json);
}

enum st_status
st_trace_read(struct st_arena *arena, struct st_diag *diag, uint32_t source,
	      const char *text, size_t length, struct st_trace *trace)
{
	struct reader r = {.arena = arena, .diag = diag, .trace = trace};

	memset(trace, 0, sizeof(*trace));
	trace->kind = trace->machine = "";
	trace->ranks = 1;
	for (int i = 0; i < ST_TRACE_MAX_LANES; i++)
		trace->lanes[i] = "";
	st_json_reader_init(&r.json, diag, source, 0, text, length);
	ST_TRY(read_object(&r, "a trace", read_top, trace));
	ST_TRY(st_json_expect(&r.json, ST_JSON_END, "a trace"));
	if (!r.found || trace->lane_count == 0)
		return st_error(diag, ST_EINPUT, st_no_loc(),
				"not a trace of stretto: no events");
	return ST_OK;
}
