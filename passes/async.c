/*
 * async: collectives become start and wait.
 *
 *   before: %y = all_reduce %x, axes=dp : f32[64]
 *   after:  %y.s = all_reduce.start %x, axes=dp : async f32[64]
 *           %y = wait %y.s : f32[64]
 *
 * Order and meaning stay: each wait stands directly behind its start, and
 * `schedule` moves them apart.  Requires a ranked module without places.
 * Does nothing to what has a start already.  Linear in nodes.
 */

#include "passes/pass.h"
#include "passes/rewrite.h"

static void
cut_apart(struct st_rewrite *w, uint32_t index)
{
	const struct st_module *in = w->in;
	const struct st_node *node = &in->nodes.at[index];
	uint32_t value = node->first_result, made, first;
	uint32_t operand = w->map[st_node_operand(in, node, 0)];
	uint32_t name = st_rewrite_name(w, value, "s");
	struct st_type type = *st_value_type(in, value);
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
	if (made == ST_NONE)
		return;
	first = w->out->nodes.at[made].first_result;
	type.is_async = 0;
	fresh.op = ST_OP_wait;
	fresh.start = 0;
	fresh.operands = &first;
	fresh.attr_count = 0;
	name = in->values.at[value].name;
	made = st_module_add_node(w->out, &fresh);
	if (made != ST_NONE)
		w->map[value] = w->out->nodes.at[made].first_result;
}

enum st_status
st_pass_async(struct st_pass_context *cx, const struct st_module *in,
	      struct st_module **out)
{
	struct st_rewrite w;

	ST_TRY(st_rewrite_init(&w, in));
	for (size_t e = 0; e < in->entries.count; e++) {
		const struct st_entry *entry = &in->entries.at[e];

		st_rewrite_begin(&w, entry);
		for (uint32_t i = 0; i < entry->nodes; i++) {
			uint32_t index = entry->first_node + i;
			const struct st_node *node = &in->nodes.at[index];

			if (st_ops[node->op].class != ST_COMM || node->start) {
				st_rewrite_node(&w, index);
				continue;
			}
			cut_apart(&w, index);
			cx->changes++;
		}
		st_rewrite_end(&w, entry);
	}
	if (cx->changes == 0)
		cx->skipped = "there is no collective";
	*out = w.out;
	return st_rewrite_status(&w);
}
