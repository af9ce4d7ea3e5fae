/* The builder. */

#include "ir/build.h"

#include <string.h>

void
st_build_init(struct st_builder *b, struct st_module *module)
{
	memset(b, 0, sizeof(*b));
	b->module = module;
}

static struct st_attr *
add_attr(struct st_builder *b, enum st_key key)
{
	struct st_attr *attr;

	/* After a failure nothing uses them up. */
	if (b->status != ST_OK || b->attr_count == ST_KEY_COUNT)
		b->attr_count = 0;
	attr = &b->attrs[b->attr_count++];

	attr->key = (uint16_t)key;
	return attr;
}

void
st_build_int(struct st_builder *b, enum st_key key, int64_t value)
{
	add_attr(b, key)->i = value;
}

void
st_build_float(struct st_builder *b, enum st_key key, double value)
{
	add_attr(b, key)->f = value;
}

void
st_build_string(struct st_builder *b, enum st_key key, const char *value)
{
	add_attr(b, key)->s =
		st_names_add(b->module->names, value, strlen(value));
}

void
st_build_axes(struct st_builder *b, unsigned axes)
{
	add_attr(b, ST_KEY_axes)->i = axes;
}

void
st_build_type(struct st_builder *b, int i, const struct st_type *type)
{
	b->stated[i] = *type;
	b->has_stated = 1;
}

/* Canonical order is that of the op's row. */
static void
sort_attrs(struct st_builder *b, enum st_op op)
{
	for (size_t i = 1; i < b->attr_count; i++)
		for (size_t j = i; j > 0; j--) {
			struct st_attr *one = &b->attrs[j - 1], swap = *one;

			if (st_op_key_place(op, one[0].key) <=
			    st_op_key_place(op, one[1].key))
				break;
			one[0] = one[1];
			one[1] = swap;
		}
}

static void
split_names(struct st_builder *b, const char *names, int results,
	    uint32_t out[ST_MAX_RESULTS])
{
	const char *at = names;
	size_t first = strcspn(names, ",");

	for (int i = 0; i < results; i++) {
		size_t length = strcspn(at, ",");
		const char *made;

		if (length) {
			out[i] = st_names_add(b->module->names, at, length);
			at += length;
			at += *at == ',';
			continue;
		}
		made = st_arena_printf(b->module->arena, "%.*s.r%d",
				       (int)first, names, i);
		out[i] = made ? st_names_add(b->module->names, made,
					     strlen(made))
			      : 0;
	}
}

static uint32_t
finish(struct st_builder *b, enum st_op op, const uint32_t *names,
       const uint32_t *operands, size_t count)
{
	struct st_type types[ST_MAX_RESULTS];
	struct st_node_view view = {
		.op = op,
		.operands = operands,
		.operand_count = count,
		.attrs = b->attrs,
		.attr_count = b->attr_count,
		.stated = b->has_stated ? b->stated : NULL,
		.loc = st_module_loc_at(b->module, b->loc),
		.start = b->start,
	};
	struct st_new_node fresh = {
		.op = op,
		.region = b->region,
		.operands = operands,
		.operand_count = count,
		.attrs = b->attrs,
		.attr_count = b->attr_count,
		.types = types,
		.names = names,
		.loc = b->loc,
		.start = b->start,
		.on = b->on,
	};
	uint32_t node = ST_NONE;

	memset(types, 0, sizeof(types));
	sort_attrs(b, op);
	b->status = st_infer(b->module, &view, types);
	if (b->status == ST_OK) {
		node = st_module_add_node(b->module, &fresh);
		if (node == ST_NONE)
			b->status = st_error_memory(b->module->diag);
	}
	b->attr_count = 0;
	b->has_stated = 0;
	b->start = 0;
	b->on = 0;
	return node == ST_NONE ? ST_NONE
			       : b->module->nodes.at[node].first_result;
}

uint32_t
st_build(struct st_builder *b, enum st_op op, const char *names,
	 const uint32_t *operands, size_t count)
{
	uint32_t numbers[ST_MAX_RESULTS] = {0};

	if (b->status != ST_OK)
		return ST_NONE;
	for (size_t i = 0; i < count; i++)
		if (operands[i] == ST_NONE) {
			b->status = st_error(
				b->module->diag, ST_EINPUT,
				st_module_loc_at(b->module, b->loc),
				"%s: an operand is missing", st_ops[op].name);
			return ST_NONE;
		}
	split_names(b, names, st_op_results(op), numbers);
	return finish(b, op, numbers, operands, count);
}

uint32_t
st_build_like(struct st_builder *b, const struct st_module *from,
	      const struct st_node *node, const uint32_t *operands)
{
	uint32_t names[ST_MAX_RESULTS] = {0};

	if (b->status != ST_OK)
		return ST_NONE;
	for (uint32_t i = 0; i < node->attrs; i++)
		b->attrs[b->attr_count++] =
			from->attrs.at[node->first_attr + i];
	for (uint32_t i = 0; i < node->results; i++) {
		uint32_t value = node->first_result + i;

		names[i] = from->values.at[value].name;
		if (!b->has_stated)
			b->stated[i] = *st_value_type(from, value);
	}
	b->has_stated = 1;
	b->start = node->start;
	b->on = node->on;
	return finish(b, node->op, names, operands, node->operands);
}
