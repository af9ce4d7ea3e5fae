/* Copying what a pass leaves as it is. */

#include "passes/rewrite.h"

#include <string.h>

enum st_status
st_rewrite_init(struct st_rewrite *w, const struct st_module *in)
{
	memset(w, 0, sizeof(*w));
	w->in = in;
	w->out = st_module_create_like(in);
	w->map = st_arena_array(in->arena, in->values.count + 1,
				sizeof(*w->map));
	if (!w->out || !w->map)
		return st_error_memory(in->diag);
	st_build_init(&w->b, w->out);
	for (uint32_t i = 0; i < in->states.count; i++) {
		const struct st_state *state = &in->states.at[i];

		w->map[state->value] = st_module_add_state(
			w->out, in->values.at[state->value].name,
			st_value_type(in, state->value), state->role,
			state->loc);
	}
	return st_rewrite_status(w);
}

void
st_rewrite_begin(struct st_rewrite *w, const struct st_entry *entry)
{
	st_module_begin_entry(w->out, entry->name, entry->loc);
	for (uint32_t i = 0; i < entry->inputs; i++) {
		uint32_t value = entry->first_input + i;

		w->map[value] = st_module_add_input(
			w->out, w->in->values.at[value].name,
			st_value_type(w->in, value));
	}
}

void
st_rewrite_end(struct st_rewrite *w, const struct st_entry *entry)
{
	for (uint32_t i = 0; i < entry->outputs; i++) {
		const struct st_output *output =
			&w->in->outputs.at[entry->first_output + i];

		st_module_add_output(w->out, w->map[output->value],
				     output->name, output->state);
	}
	st_module_end_entry(w->out);
}

static void
copy_node(struct st_rewrite *w, uint32_t index, const struct st_attr *attrs,
	  size_t attr_count)
{
	const struct st_module *in = w->in;
	const struct st_node *node = &in->nodes.at[index];
	uint32_t operands[ST_MAX_OPERANDS], names[ST_MAX_RESULTS], made;
	struct st_type types[ST_MAX_RESULTS];
	struct st_new_node fresh = {
		.op = node->op,
		.region = node->region,
		.operands = operands,
		.operand_count = node->operands,
		.attrs = attrs,
		.attr_count = attr_count,
		.types = types,
		.names = names,
		.loc = node->loc,
		.start = node->start,
		.on = node->on,
	};

	for (uint32_t i = 0; i < node->operands; i++)
		operands[i] = w->map[st_node_operand(in, node, i)];
	for (uint32_t i = 0; i < node->results; i++) {
		types[i] = *st_value_type(in, node->first_result + i);
		names[i] = in->values.at[node->first_result + i].name;
	}
	made = st_module_add_node(w->out, &fresh);
	if (made == ST_NONE) {
		w->b.status = st_error_memory(in->diag);
		return;
	}
	for (uint32_t i = 0; i < node->results; i++)
		w->map[node->first_result + i] =
			w->out->nodes.at[made].first_result + i;
}

void
st_rewrite_node(struct st_rewrite *w, uint32_t index)
{
	const struct st_node *node = &w->in->nodes.at[index];

	copy_node(w, index, &w->in->attrs.at[node->first_attr], node->attrs);
}

void
st_rewrite_bucket(struct st_rewrite *w, uint32_t index, int64_t bucket)
{
	const struct st_node *node = &w->in->nodes.at[index];
	struct st_attr attrs[ST_KEY_COUNT];
	size_t count = 0;

	/* The key stands last in the rows of collectives. */
	for (uint32_t i = 0; i < node->attrs; i++) {
		attrs[count] = w->in->attrs.at[node->first_attr + i];
		count += attrs[count].key != ST_KEY_bucket;
	}
	if (bucket >= 0)
		attrs[count++] =
			(struct st_attr){.key = ST_KEY_bucket, .i = bucket};
	copy_node(w, index, attrs, count);
}

uint32_t
st_rewrite_name(struct st_rewrite *w, uint32_t value, const char *mark)
{
	const char *text = st_arena_printf(w->in->arena, "%s.%s",
					   st_value_name(w->in, value), mark);

	return text ? st_names_add(w->in->names, text, strlen(text)) : 0;
}

enum st_status
st_rewrite_status(const struct st_rewrite *w)
{
	if (w->in->arena->failed)
		return st_error_memory(w->in->diag);
	return w->b.status;
}
