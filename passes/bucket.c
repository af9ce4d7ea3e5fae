/*
 * bucket: small collectives of one kind over one set of axes become one
 * launch.
 *
 *   before: %b.r = all_reduce %b, axes=dp : f32[64]
 *           ...                               # nothing here reads %b.r
 *           %c.r = all_reduce %c, axes=dp : f32[64]
 *   after:  ...
 *           %b.r = all_reduce %b, axes=dp, bucket=0 : f32[64]
 *           %c.r = all_reduce %c, axes=dp, bucket=0 : f32[64]
 *
 * Nothing is copied: a bucket is a group launch over the buffers as they lie.
 * What reduces waits for the last of its bucket, what gathers moves up to the
 * first; neither passes a node that it depends on, nor one that overwrites a
 * state that it reads.  A bucket is full when its start is a small share of
 * it, and what waits for its bucket leaves enough computation behind it to
 * hide in.  `schedule` takes buckets apart again where that is quicker.
 *
 * Requires a ranked module without starts.  Does nothing where no two small
 * collectives are alike.  Linear in nodes, times the kinds open at once.
 */

#include "passes/cost.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

#include <string.h>

enum {
	MOST_OPEN = 32,
	FULL = 16, /* starts that a full bucket takes as long as */
	SMALL = 8, /* a collective of more starts goes alone */
	NEAR = 64, /* starts of computation that a gather may move up by */
	SLACK = 4, /* times its own length that must be left to hide in */
};

struct open {
	uint16_t op;
	uint8_t axes, dtype, region;
	uint32_t first, last, members; /* nodes of the entry */
	uint32_t limit; /* a reducer's: who first needs one of its members */
	int64_t bytes;
};

struct bucketer {
	const struct st_module *in;
	const struct st_machine *machine;
	const struct st_entry *entry;
	struct st_rewrite w;
	uint32_t *first_use; /* by value: node of the entry; its end */
	uint32_t *writer;    /* by state: maker of its next content; the end */
	int64_t *elapsed;    /* by node of the entry: computation before it */
	uint32_t *next;      /* by node: the next of its bucket, or ST_NONE */
	uint32_t *head;      /* by node: first of its bucket; ST_NONE: none */
	struct open open[MOST_OPEN];
	int open_count;
	int64_t buckets; /* in the entry so far */
};

static int
gathers(const struct st_node *node)
{
	return node->op == ST_OP_all_gather;
}

static int64_t
time_of(const struct bucketer *b, const struct open *o, int64_t bytes)
{
	return st_cost_collective(b->machine, &b->in->mesh, (enum st_op)o->op,
				  o->axes, bytes);
}

/* ---- what may move where ---- */

static void
look_at(struct bucketer *b)
{
	const struct st_module *m = b->in;
	const struct st_entry *e = b->entry;
	int64_t sum = 0;

	for (uint32_t i = 0; i < m->states.count; i++)
		b->writer[i] = e->nodes;
	for (uint32_t i = 0; i < e->outputs; i++) {
		const struct st_output *o = &m->outputs.at[e->first_output + i];
		uint32_t maker = m->values.at[o->value].node;

		if (o->state != ST_NONE && maker != ST_NONE)
			b->writer[o->state] = maker - e->first_node;
	}
	for (uint32_t i = 0; i < e->nodes; i++) {
		const struct st_node *n = &m->nodes.at[e->first_node + i];

		b->elapsed[i] = sum;
		b->next[i] = b->head[i] = ST_NONE;
		if (st_ops[n->op].class != ST_COMM)
			sum += st_cost_node(b->machine, m, n);
		for (uint32_t r = 0; r < n->results; r++)
			b->first_use[n->first_result + r] = e->nodes;
		for (uint32_t k = 0; k < n->operands; k++) {
			uint32_t v = st_node_operand(m, n, k);

			if (b->first_use[v] == e->nodes)
				b->first_use[v] = i;
		}
	}
	b->elapsed[e->nodes] = sum;
}

/* Node of the entry before which a reducer must stand. */
static uint32_t
limit_of(const struct bucketer *b, const struct st_node *node)
{
	uint32_t limit = b->first_use[node->first_result];
	uint32_t v = st_node_operand(b->in, node, 0);

	/* States come first among the values. */
	if (b->in->values.at[v].kind == ST_VALUE_STATE && b->writer[v] < limit)
		limit = b->writer[v];
	return limit;
}

/* Node of the entry behind which a gather may stand: 0 for the begin. */
static uint32_t
made_at(const struct bucketer *b, const struct st_node *node)
{
	uint32_t maker = b->in->values.at[st_node_operand(b->in, node, 0)].node;

	return maker == ST_NONE ? 0 : maker - b->entry->first_node + 1;
}

/* ---- filling ---- */

static void
close_bucket(struct bucketer *b, int which)
{
	struct open *o = &b->open[which];

	if (o->members == 1)
		b->head[o->first] = ST_NONE;
	*o = b->open[--b->open_count];
}

static struct open *
find_open(struct bucketer *b, const struct st_node *node, unsigned axes,
	  enum st_dtype dtype)
{
	for (int i = 0; i < b->open_count; i++) {
		struct open *o = &b->open[i];

		if (o->op == node->op && o->axes == axes && o->dtype == dtype &&
		    o->region == node->region)
			return o;
	}
	return NULL;
}

/* Is there enough to compute between node i and the limit? */
static int
has_slack(const struct bucketer *b, uint32_t limit, uint32_t i, int64_t time)
{
	return b->elapsed[limit] - b->elapsed[i] >= SLACK * time;
}

/* May node i join? */
static int
joins(const struct bucketer *b, const struct open *o, uint32_t i, int64_t bytes)
{
	const struct st_node *node = &b->in->nodes.at[b->entry->first_node + i];
	int64_t start = time_of(b, o, 0), time;

	time = time_of(b, o, o->bytes + bytes);
	if (time > FULL * start)
		return 0;
	if (gathers(node))
		return made_at(b, node) <= o->first &&
		       b->elapsed[i] - b->elapsed[o->first] <= NEAR * start;
	return o->limit > i && has_slack(b, o->limit, i, time);
}

static void
open_new(struct bucketer *b, uint32_t i, unsigned axes, enum st_dtype dtype,
	 int64_t bytes)
{
	const struct st_node *node = &b->in->nodes.at[b->entry->first_node + i];
	struct open *o;

	if (b->open_count == MOST_OPEN)
		close_bucket(b, 0);
	o = &b->open[b->open_count++];
	*o = (struct open){.op = node->op,
			   .axes = (uint8_t)axes,
			   .dtype = (uint8_t)dtype,
			   .region = node->region,
			   .first = i,
			   .last = i,
			   .members = 1,
			   .limit = limit_of(b, node),
			   .bytes = bytes};
	b->head[i] = i;
}

static void
add_member(struct bucketer *b, struct open *o, uint32_t i, int64_t bytes)
{
	const struct st_node *node = &b->in->nodes.at[b->entry->first_node + i];
	uint32_t limit = limit_of(b, node);

	b->next[o->last] = i;
	b->head[i] = o->first;
	o->last = i;
	o->members++;
	o->bytes += bytes;
	o->limit = limit < o->limit ? limit : o->limit;
}

static void
take(struct bucketer *b, uint32_t i)
{
	const struct st_module *m = b->in;
	const struct st_node *node = &m->nodes.at[b->entry->first_node + i];
	unsigned axes = (unsigned)st_node_int(m, node, ST_KEY_axes);
	enum st_dtype dtype = st_value_type(m, node->first_result)->dtype;
	struct open one = {.op = node->op, .axes = (uint8_t)axes};
	int64_t bytes = st_cost_bytes(m, node);
	struct open *o;

	if (time_of(b, &one, bytes) > SMALL * time_of(b, &one, 0) ||
	    (!gathers(node) &&
	     !has_slack(b, limit_of(b, node), i, time_of(b, &one, bytes))))
		return;
	o = find_open(b, node, axes, dtype);
	if (o && joins(b, o, i, bytes)) {
		add_member(b, o, i, bytes);
		return;
	}
	if (o)
		close_bucket(b, (int)(o - b->open));
	open_new(b, i, axes, dtype, bytes);
}

/* ---- writing ---- */

/* Gathers come with the first of their bucket, the others with the last. */
static void
write_entry(struct bucketer *b)
{
	const struct st_entry *e = b->entry;

	for (uint32_t i = 0; i < e->nodes; i++) {
		const struct st_node *n = &b->in->nodes.at[e->first_node + i];
		uint32_t head = b->head[i];

		if (head == ST_NONE) {
			st_rewrite_node(&b->w, e->first_node + i);
			continue;
		}
		if (gathers(n) ? i != head : b->next[i] != ST_NONE)
			continue;
		for (uint32_t k = head; k != ST_NONE; k = b->next[k])
			st_rewrite_bucket(&b->w, e->first_node + k, b->buckets);
		b->buckets++;
	}
}

static void
run_entry(struct bucketer *b, struct st_pass_context *cx)
{
	look_at(b);
	b->open_count = 0;
	b->buckets = 0;
	for (uint32_t i = 0; i < b->entry->nodes; i++) {
		const struct st_node *node =
			&b->in->nodes.at[b->entry->first_node + i];

		if (st_ops[node->op].class == ST_COMM && !node->start)
			take(b, i);
	}
	while (b->open_count)
		close_bucket(b, b->open_count - 1);
	st_rewrite_begin(&b->w, b->entry);
	write_entry(b);
	st_rewrite_end(&b->w, b->entry);
	cx->changes += b->buckets;
}

static enum st_status
allocate(struct bucketer *b)
{
	const struct st_module *m = b->in;
	size_t most = 0;

	for (size_t e = 0; e < m->entries.count; e++)
		if (m->entries.at[e].nodes > most)
			most = m->entries.at[e].nodes;
	b->first_use =
		st_arena_array(m->arena, m->values.count + 1, sizeof(uint32_t));
	b->writer =
		st_arena_array(m->arena, m->states.count + 1, sizeof(uint32_t));
	b->elapsed = st_arena_array(m->arena, most + 1, sizeof(int64_t));
	b->next = st_arena_array(m->arena, most + 1, sizeof(uint32_t));
	b->head = st_arena_array(m->arena, most + 1, sizeof(uint32_t));
	return m->arena->failed ? st_error_memory(m->diag) : ST_OK;
}

enum st_status
st_pass_bucket(struct st_pass_context *cx, const struct st_module *in,
	       struct st_module **out)
{
	struct bucketer b;

	memset(&b, 0, sizeof(b));
	b.in = in;
	b.machine = cx->machine;
	*out = (struct st_module *)(uintptr_t)in;
	if (strcmp(in->options[ST_OPTION_bucket].s, "off") == 0)
		cx->skipped = "buckets are off";
	if (strcmp(in->options[ST_OPTION_overlap].s, "none") == 0)
		cx->skipped = "overlap is off";
	if (cx->skipped)
		return ST_OK;
	ST_TRY(allocate(&b));
	ST_TRY(st_rewrite_init(&b.w, in));
	for (size_t e = 0; e < in->entries.count; e++) {
		b.entry = &in->entries.at[e];
		run_entry(&b, cx);
	}
	if (cx->changes == 0)
		cx->skipped = "no two small collectives are alike and may "
			      "stand together";
	*out = b.w.out;
	return st_rewrite_status(&b.w);
}
