/* The canonical text of a module. */

#include "ir/ir.h"

#include <string.h>

static void
print_string(struct st_buffer *out, const char *text)
{
	st_buffer_puts(out, "\"");
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			st_buffer_puts(out, "\\");
		st_buffer_add(out, text, 1);
	}
	st_buffer_puts(out, "\"");
}

static void
print_axes(const struct st_module *module, struct st_buffer *out, unsigned axes)
{
	const char *plus = "";

	for (uint32_t i = 0; i < module->mesh.count; i++) {
		if (!(axes >> i & 1))
			continue;
		st_buffer_printf(
			out, "%s%s", plus,
			st_names_text(module->names, module->mesh.name[i]));
		plus = "+";
	}
}

static void
print_attr(const struct st_module *module, struct st_buffer *out,
	   const struct st_attr *attr)
{
	st_buffer_puts(out, st_key_name(attr->key));
	st_buffer_add(out, "=", 1);
	switch (st_key_kind(attr->key)) {
	case ST_ATTR_INT:
		st_buffer_printf(out, "%lld", (long long)attr->i);
		break;
	case ST_ATTR_FLOAT: st_buffer_double(out, attr->f); break;
	case ST_ATTR_STRING:
		print_string(out, st_names_text(module->names, attr->s));
		break;
	case ST_ATTR_AXES: print_axes(module, out, (unsigned)attr->i); break;
	}
}

/* Types are few and values many: a type's text is copied from where it was
 * printed first. */
struct spans {
	struct span {
		size_t at, length; /* in the output; length 0: not yet */
	} * of;                    /* by type; NULL without memory */
};

static void
print_type(const struct st_module *module, struct st_buffer *out,
	   struct spans *spans, uint32_t value)
{
	uint32_t at = module->values.at[value].arena_at;
	struct span *span = NULL;

	if (spans->of)
		span = &spans->of[module->values.at[value].type];
	if (span && span->length) {
		st_buffer_add(out, out->text + span->at, span->length);
	} else {
		size_t begin = out->length;

		st_type_print(out, st_value_type(module, value), &module->mesh,
			      module->names);
		if (span)
			*span = (struct span){begin, out->length - begin};
	}
	if (at != ST_NONE)
		st_buffer_printf(out, " @%lld",
				 (long long)module->placements.at[at]);
}

static void
print_value(const struct st_module *module, struct st_buffer *out,
	    uint32_t value)
{
	st_buffer_add(out, "%", 1);
	st_buffer_puts(out, st_value_name(module, value));
}

static const char *
communicator_name(const struct st_module *module, uint32_t on)
{
	return st_names_text(module->names,
			     module->communicators.at[on - 1].name);
}

static void
print_node(const struct st_module *module, struct st_buffer *out,
	   struct spans *spans, const struct st_node *node)
{
	const char *separator = " ";

	st_buffer_puts(out, "  ");
	for (uint32_t i = 0; i < node->results; i++) {
		st_buffer_puts(out, i ? ", " : "");
		print_value(module, out, node->first_result + i);
	}
	st_buffer_puts(out, " = ");
	st_buffer_puts(out, st_ops[node->op].name);
	st_buffer_puts(out, node->start ? ".start" : "");
	for (uint32_t i = 0; i < node->operands; i++) {
		st_buffer_puts(out, separator);
		print_value(module, out, st_node_operand(module, node, i));
		separator = ", ";
	}
	for (uint32_t i = 0; i < node->attrs; i++) {
		st_buffer_puts(out, separator);
		print_attr(module, out,
			   &module->attrs.at[node->first_attr + i]);
		separator = ", ";
	}
	st_buffer_puts(out, " : ");
	for (uint32_t i = 0; i < node->results; i++) {
		st_buffer_puts(out, i ? ", " : "");
		print_type(module, out, spans, node->first_result + i);
	}
	if (node->region != ST_FORWARD)
		st_buffer_printf(out, " !%s", st_region_name(node->region));
	if (node->on)
		st_buffer_printf(out, " on %s",
				 communicator_name(module, node->on));
	st_buffer_puts(out, "\n");
}

static void
print_output(const struct st_module *module, struct st_buffer *out,
	     const struct st_output *output)
{
	st_buffer_puts(out, "  ret ");
	print_value(module, out, output->value);
	if (output->state == ST_NONE) {
		st_buffer_printf(out, " as %s\n",
				 st_names_text(module->names, output->name));
		return;
	}
	st_buffer_puts(out, " -> ");
	print_value(module, out, module->states.at[output->state].value);
	st_buffer_puts(out, "\n");
}

static void
print_entry(const struct st_module *module, struct st_buffer *out,
	    struct spans *spans, const struct st_entry *entry)
{
	st_buffer_printf(out, "\nentry @%s(",
			 st_names_text(module->names, entry->name));
	for (uint32_t i = 0; i < entry->inputs; i++) {
		st_buffer_puts(out, i ? ", " : "");
		print_value(module, out, entry->first_input + i);
		st_buffer_puts(out, " : ");
		print_type(module, out, spans, entry->first_input + i);
	}
	st_buffer_puts(out, ") {\n");
	for (uint32_t i = 0; i < entry->nodes; i++)
		print_node(module, out, spans,
			   &module->nodes.at[entry->first_node + i]);
	for (uint32_t i = 0; i < entry->outputs; i++)
		print_output(module, out,
			     &module->outputs.at[entry->first_output + i]);
	st_buffer_puts(out, "}\n");
}

static void
print_option(const struct st_module *module, struct st_buffer *out,
	     enum st_option option)
{
	const struct st_option_value *value = &module->options[option];

	st_buffer_printf(out, "option %s = ", st_option_name(option));
	switch (st_option_kind(option)) {
	case ST_ATTR_FLOAT: st_buffer_double(out, value->f); break;
	case ST_ATTR_STRING: print_string(out, value->s); break;
	default: st_buffer_printf(out, "%lld", (long long)value->i); break;
	}
	st_buffer_puts(out, "\n");
}

static void
print_header(const struct st_module *module, struct st_buffer *out)
{
	st_buffer_printf(out, "stretto-ir 1\nform %s\n",
			 module->form == ST_RANKED ? "ranked" : "logical");
	for (uint32_t i = 0; i < module->mesh.count; i++)
		st_buffer_printf(
			out, "%s%s=%lld", i ? ", " : "mesh ",
			st_names_text(module->names, module->mesh.name[i]),
			(long long)module->mesh.size[i]);
	if (module->mesh.count)
		st_buffer_puts(out, "\n");
	for (enum st_option option = 0; option < ST_OPTION_COUNT; option++)
		if (module->options_set >> option & 1)
			print_option(module, out, option);
	for (uint32_t i = 0; i < module->communicators.count; i++) {
		st_buffer_printf(out, "communicator %s = ",
				 communicator_name(module, i + 1));
		print_axes(module, out, module->communicators.at[i].axes);
		st_buffer_puts(out, "\n");
	}
	if (module->arena_bytes)
		st_buffer_printf(out, "arena %lld\n",
				 (long long)module->arena_bytes);
}

void
st_print(const struct st_module *module, struct st_buffer *out)
{
	struct spans spans = {
		st_arena_array(out->arena, module->types.count + 1,
			       sizeof(struct span)),
	};

	print_header(module, out);
	if (module->states.count)
		st_buffer_puts(out, "\n");
	for (size_t i = 0; i < module->states.count; i++) {
		const struct st_state *state = &module->states.at[i];

		st_buffer_printf(out, "state %s ", st_role_name(state->role));
		print_value(module, out, state->value);
		st_buffer_puts(out, " : ");
		print_type(module, out, &spans, state->value);
		st_buffer_puts(out, "\n");
	}
	for (size_t i = 0; i < module->entries.count; i++)
		print_entry(module, out, &spans, &module->entries.at[i]);
}
