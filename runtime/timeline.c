/* Lanes of a trace in a terminal. */

#include "runtime/trace.h"

#include <stdio.h>
#include <string.h>

/* What a column of a lane mostly is. */
enum mark {
	IDLE,
	FORWARD,
	BACKWARD,
	OPTIMIZER,
	HIDDEN, /* a collective beside computation */
	ALONE,
	LITTLE, /* less than half of the column */
	MARKS
};

static const char *const blocks[MARKS] = {
	"\u00b7", "\u2588", "\u2593", "\u2592", "\u2592", "\u2588", "\u2591"};
static const char *const letters[MARKS] = {".", "#", "=", "+", "-", "#", ","};
static const char *const meanings[MARKS] = {
	"idle",   "forward", "backward",      "optimizer",
	"hidden", "exposed", "less than half"};

struct drawing {
	struct st_arena *arena;
	const struct st_trace *trace;
	int columns, name_columns;
	int ascii;
	int64_t from, to;
	int64_t (*time)[MARKS];              /* by column */
	const struct st_trace_event **label; /* by column: one that fills it */
	struct st_buffer *out;
};

static int64_t
column_begin(const struct drawing *d, int column)
{
	return d->from + (d->to - d->from) / d->columns * column +
	       (d->to - d->from) % d->columns * column / d->columns;
}

static int
column_of(const struct drawing *d, int64_t time)
{
	int column = (int)((double)(time - d->from) /
			   (double)(d->to - d->from) * d->columns);

	if (column >= d->columns)
		column = d->columns - 1;
	if (column < 0)
		column = 0;
	while (column > 0 && column_begin(d, column) > time)
		column--;
	while (column + 1 < d->columns && column_begin(d, column + 1) <= time)
		column++;
	return column;
}

/* Adds an interval to the columns that it touches. */
static void
spread(struct drawing *d, int64_t begin, int64_t end, enum mark mark)
{
	begin = begin > d->from ? begin : d->from;
	end = end < d->to ? end : d->to;
	if (begin >= end)
		return;
	for (int c = column_of(d, begin); c < d->columns; c++) {
		int64_t a = column_begin(d, c), b = column_begin(d, c + 1);

		if (a >= end)
			return;
		a = a > begin ? a : begin;
		b = b < end ? b : end;
		d->time[c][mark] += b - a;
	}
}

/* Collectives are cut where computation beside them begins and ends. */
static void
spread_comm(struct drawing *d, const struct st_trace_event *e, uint32_t *at)
{
	const struct st_trace *t = d->trace;
	int64_t done = e->begin;

	while (*at < t->count &&
	       (t->at[*at].lane || t->at[*at].end <= e->begin))
		++*at;
	for (uint32_t i = *at; i < t->count; i++) {
		const struct st_trace_event *c = &t->at[i];
		int64_t begin = c->begin > done ? c->begin : done;
		int64_t end = c->end < e->end ? c->end : e->end;

		if (c->lane)
			continue;
		if (c->begin >= e->end)
			break;
		if (begin >= end)
			continue;
		spread(d, done, begin, ALONE);
		spread(d, begin, end, HIDDEN);
		done = end;
	}
	spread(d, done, e->end, ALONE);
}

static void
collect(struct drawing *d, int lane)
{
	const struct st_trace *t = d->trace;
	uint32_t at = 0;

	memset(d->time, 0, (size_t)d->columns * sizeof(*d->time));
	memset(d->label, 0, (size_t)d->columns * sizeof(*d->label));
	for (uint32_t i = 0; i < t->count; i++) {
		const struct st_trace_event *e = &t->at[i];

		if (e->lane != lane || e->end <= d->from || e->begin >= d->to)
			continue;
		if (lane)
			spread_comm(d, e, &at);
		else
			spread(d, e->begin, e->end,
			       (enum mark)(FORWARD + e->region));
		d->label[column_of(d, e->begin)] = e;
	}
}

static enum mark
mark_of(const struct drawing *d, int column)
{
	int64_t whole = column_begin(d, column + 1) - column_begin(d, column);
	int64_t sum = 0, most = 0;
	enum mark mark = IDLE;

	for (int m = FORWARD; m < LITTLE; m++) {
		sum += d->time[column][m];
		if (d->time[column][m] > most) {
			most = d->time[column][m];
			mark = (enum mark)m;
		}
	}
	if (sum == 0)
		return IDLE;
	return 2 * sum < whole ? LITTLE : mark;
}

/* Behind the layer, "h.0/attn.q" is "attn.q". */
static const char *
short_name(const struct st_trace_event *e)
{
	const char *slash = strrchr(e->node, '/');

	return slash ? slash + 1 : e->node;
}

/* Puts a name where its event fills enough columns. */
static int
put_label(struct drawing *d, int column)
{
	const struct st_trace_event *e = d->label[column];
	int last, length;

	if (!e)
		return 0;
	last = e->end >= d->to ? d->columns - 1 : column_of(d, e->end) - 1;
	length = (int)strlen(short_name(e));
	if (last - column + 1 < length + 3)
		return 0;
	st_buffer_puts(d->out,
		       (d->ascii ? letters : blocks)[mark_of(d, column)]);
	st_buffer_puts(d->out, short_name(e));
	return length + 1;
}

static void
put_lane(struct drawing *d, int lane)
{
	const char *kind = lane ? "comm " : "";

	st_buffer_printf(d->out, "%s%-*s  ", kind,
			 d->name_columns - (int)strlen(kind),
			 d->trace->lanes[lane]);
	collect(d, lane);
	for (int c = 0; c < d->columns;) {
		int wide = put_label(d, c);

		c += wide;
		if (wide || c >= d->columns)
			continue;
		st_buffer_puts(d->out,
			       (d->ascii ? letters : blocks)[mark_of(d, c)]);
		c++;
	}
}

static void
put_lanes(struct drawing *d, const struct st_trace_sums *sums)
{
	int64_t step = d->trace->step ? d->trace->step : 1;

	for (int lane = 0; lane < d->trace->lane_count; lane++) {
		put_lane(d, lane);
		if (lane == 0)
			st_buffer_printf(d->out, "  %.0f%% busy\n",
					 100.0 * (double)sums->compute /
						 (double)step);
		else
			st_buffer_printf(d->out, "  %.3f of %.3f ms exposed\n",
					 (double)sums->alone[lane] / 1e9,
					 (double)sums->busy[lane] / 1e9);
	}
}

static void
put_scale(struct drawing *d, const struct st_trace_sums *sums)
{
	const char *const *marks = d->ascii ? letters : blocks;
	char left[32], right[32];

	snprintf(left, sizeof(left), "%.3f", (double)d->from / 1e9);
	snprintf(right, sizeof(right), "%.3f ms", (double)d->to / 1e9);
	st_buffer_printf(d->out, "%*s%s%*s\n", d->name_columns + 2, "", left,
			 d->columns - (int)strlen(left), right);
	st_buffer_printf(d->out,
			 "rank %lld, %s%s%s: step %.3f ms; while "
			 "communicating %.1f%% computing\n",
			 (long long)d->trace->rank, d->trace->kind,
			 d->trace->machine[0] ? " for " : "", d->trace->machine,
			 (double)d->trace->step / 1e9,
			 st_trace_hta_overlap_pct(sums));
	st_buffer_printf(d->out, "compute: %s %s  %s %s  %s %s  %s %s",
			 marks[FORWARD], meanings[FORWARD], marks[BACKWARD],
			 meanings[BACKWARD], marks[OPTIMIZER],
			 meanings[OPTIMIZER], marks[IDLE], meanings[IDLE]);
	st_buffer_printf(d->out, "   comm: %s %s  %s %s   %s %s\n",
			 marks[HIDDEN], meanings[HIDDEN], marks[ALONE],
			 meanings[ALONE], marks[LITTLE], meanings[LITTLE]);
}

enum st_status
st_timeline_draw(struct st_arena *arena, const struct st_trace *trace,
		 const struct st_timeline *options, struct st_buffer *out)
{
	struct drawing d = {.arena = arena,
			    .trace = trace,
			    .columns = options->width,
			    .ascii = options->ascii,
			    .from = options->from,
			    .to = options->to ? options->to : trace->step,
			    .out = out};
	struct st_trace_sums sums;

	for (int lane = 0; lane < trace->lane_count; lane++) {
		int n = (int)strlen(trace->lanes[lane]) + (lane ? 5 : 0);

		d.name_columns = n > d.name_columns ? n : d.name_columns;
	}
	if (d.columns < 20)
		d.columns = 20;
	if (d.to > trace->step)
		d.to = trace->step;
	if (d.to - d.from < d.columns)
		d.to = d.from + d.columns;
	d.time = st_arena_array(arena, (size_t)d.columns, sizeof(*d.time));
	d.label = st_arena_array(arena, (size_t)d.columns, sizeof(*d.label));
	if (!d.time || !d.label)
		return ST_EDEVICE;
	ST_TRY(st_trace_sum(arena, trace, &sums));
	put_lanes(&d, &sums);
	put_scale(&d, &sums);
	return arena->failed ? ST_EDEVICE : ST_OK;
}
