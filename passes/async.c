/*
 * async: collectives become start and wait.
 *
 *   before: %y = all_reduce %x, axes=dp : f32[64]
 *   after:  %y.s = all_reduce.start %x, axes=dp : async f32[64]
 *           %y = wait %y.s : f32[64]
 *
 * Order and meaning stay: each wait stands directly behind its start, or
 * behind the last start of its bucket, and `schedule` moves them apart.
 * Requires a ranked module without places. Does nothing to what has a start
 * already.  Linear in nodes.
 */

#include "passes/pass.h"
#include "passes/rewrite.h"

enum { MOST_MEMBERS = 256 };

static uint32_t
add_start(struct st_rewrite *w, uint32_t index)
{
	const struct st_module *in = w->in;
	const struct st_node *node = &in->nodes.at[index];
	uint32_t operand = w->map[st_node_operand(in, node, 0)], made;
	uint32_t name = st_rewrite_name(w, node->first_result, "s");
	struct st_type type = *st_value_type(in, node->first_result);
	struct st_new_node fresh = {
		.op = node->op,
		.region = node->region,
		.operands = &operand,
		.operand_count = 1,
		.attrs = &in->attrs.at[node->first_attr],
		.attr_count = node->attrs,
		.types = &type,
		.names = &name,
		.loc = node->loc,
		.start = 1,
	};

	type.is_async = 1;
	made = st_module_add_node(w->out, &fresh);
	return made == ST_NONE ? ST_NONE : w->out->nodes.at[made].first_result;
}

static void
add_wait(struct st_rewrite *w, uint32_t index, uint32_t started)
{
	const struct st_module *in = w->in;
	const struct st_node *node = &in->nodes.at[index];
	uint32_t value = node->first_result, made;
	struct st_type type = *st_value_type(in, value);
	struct st_new_node fresh = {
		.op = ST_OP_wait,
		.region = node->region,
		.operands = &started,
		.operand_count = 1,
		.types = &type,
		.names = &in->values.at[value].name,
		.loc = node->loc,
	};

	made = st_module_add_node(w->out, &fresh);
	if (made != ST_NONE)
		w->map[value] = w->out->nodes.at[made].first_result;
}

/* How many nodes from this one on are one bucket: the same key, and none
 * reads what another makes. */
static uint32_t
bucket_length(const struct st_module *in, uint32_t index, uint32_t end)
{
	const struct st_attr *key =
		st_node_attr(in, &in->nodes.at[index], ST_KEY_bucket);
	uint32_t n = 1;

	while (key && index + n < end && n < MOST_MEMBERS) {
		const struct st_node *node = &in->nodes.at[index + n];
		const struct st_attr *other =
			st_node_attr(in, node, ST_KEY_bucket);
		uint32_t maker;

		if (!other || other->i != key->i || node->start)
			break;
		maker = in->values.at[st_node_operand(in, node, 0)].node;
		if (maker != ST_NONE && maker >= index)
			break;
		n++;
	}
	return n;
}

static void
cut_apart(struct st_rewrite *w, uint32_t index, uint32_t count)
{
	uint32_t started[MOST_MEMBERS];

	for (uint32_t i = 0; i < count; i++) {
		started[i] = add_start(w, index + i);
		if (started[i] == ST_NONE)
			return;
	}
	for (uint32_t i = 0; i < count; i++)
		add_wait(w, index + i, started[i]);
}

enum st_status
st_pass_async(struct st_pass_context *cx, const struct st_module *in,
	      struct st_module **out)
{
	struct st_rewrite w;

	ST_TRY(st_rewrite_init(&w, in));
	for (size_t e = 0; e < in->entries.count; e++) {
		const struct st_entry *entry = &in->entries.at[e];
		uint32_t end = entry->first_node + entry->nodes;

		st_rewrite_begin(&w, entry);
		for (uint32_t i = entry->first_node, n; i < end; i += n) {
			const struct st_node *node = &in->nodes.at[i];

			n = 1;
			if (st_ops[node->op].class != ST_COMM || node->start) {
				st_rewrite_node(&w, i);
				continue;
			}
			n = bucket_length(in, i, end);
			cut_apart(&w, i, n);
			cx->changes += n;
		}
		st_rewrite_end(&w, entry);
	}
	if (cx->changes == 0)
		cx->skipped = "there is no collective";
	*out = w.out;
	return st_rewrite_status(&w);
}
