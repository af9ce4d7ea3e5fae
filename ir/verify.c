/* The verifier: runs after parsing and after each pass. */

#include "ir/ir.h"
#include "ir/live.h"
#include "ir/rule.h"

#include <string.h>

struct verifier {
	const struct st_module *module;
	int faults;
	uint32_t *last_reader; /* of each state in this entry, node or none */
	uint32_t *writer;      /* of each state: output index + 1 */
	uint32_t *becomes;     /* of each value: state that it becomes + 1 */
	uint8_t *taken;        /* of each async value: something takes it */
	/* Where the op's row has the key, from 1, and whether it must be
	 * there: looked up once an op. */
	uint8_t known[ST_OP_COUNT];
	uint64_t needs[ST_OP_COUNT]; /* bit a key */
	int16_t place[ST_OP_COUNT][ST_KEY_COUNT];
};

static void
learn_keys(struct verifier *v, enum st_op op)
{
	_Static_assert(ST_KEY_COUNT <= 64, "one bit a key");

	if (v->known[op])
		return;
	v->known[op] = 1;
	for (enum st_key key = 0; key < ST_KEY_COUNT; key++) {
		v->place[op][key] = (int16_t)st_op_key_place(op, key);
		if (st_op_needs(op, key))
			v->needs[op] |= (uint64_t)1 << key;
	}
}

static void
fault(struct verifier *v, uint32_t loc, const char *op, const char *what)
{
	v->faults++;
	st_error(v->module->diag, ST_EINPUT, st_module_loc_at(v->module, loc),
		 "%s: %s", op, what);
}

static const char *
print_types(const struct st_module *m, const struct st_type *type)
{
	struct st_buffer out;

	st_buffer_init(&out, m->arena);
	st_type_print(&out, type, &m->mesh, m->names);
	return out.text;
}

static void
check_attrs(struct verifier *v, const struct st_node *node)
{
	const struct st_module *m = v->module;
	const char *name = st_ops[node->op].name;
	int last = -1;

	learn_keys(v, node->op);
	for (enum st_key key = 0; key < ST_KEY_COUNT; key++)
		if ((v->needs[node->op] >> key & 1) &&
		    !st_node_attr(m, node, key)) {
			v->faults++;
			st_error(m->diag, ST_EINPUT,
				 st_module_loc_at(m, node->loc),
				 "%s: attribute '%s' is missing", name,
				 st_key_name(key));
		}
	for (uint32_t i = 0; i < node->attrs; i++) {
		enum st_key key = m->attrs.at[node->first_attr + i].key;
		int place = v->place[node->op][key];

		if (place <= last) {
			fault(v, node->loc, name,
			      "attributes are not in the order of the op's "
			      "row");
			return;
		}
		last = place;
	}
}

/* Operands come from states, or from this entry and earlier. */
static int
check_operands(struct verifier *v, const struct st_node *node, uint32_t index)
{
	const struct st_module *m = v->module;
	const struct st_entry *entry = &m->entries.at[node->entry];

	for (uint32_t i = 0; i < node->operands; i++) {
		uint32_t ref = st_node_operand(m, node, i);
		const struct st_value *value;

		if (ref >= m->values.count || ref >= node->first_result) {
			fault(v, node->loc, st_ops[node->op].name,
			      "an operand is not defined before its use");
			return 0;
		}
		value = &m->values.at[ref];
		if (value->kind == ST_VALUE_STATE)
			v->last_reader[ref] = index;
		else if (ref < entry->first_input) {
			fault(v, node->loc, st_ops[node->op].name,
			      "an operand belongs to another entry");
			return 0;
		}
	}
	return 1;
}

static void
check_types(struct verifier *v, const struct st_node *node)
{
	const struct st_module *m = v->module;
	struct st_type stated[ST_MAX_RESULTS], found[ST_MAX_RESULTS];
	struct st_node_view view = {
		.op = node->op,
		.operands = &m->refs.at[node->first_operand],
		.operand_count = node->operands,
		.attrs = &m->attrs.at[node->first_attr],
		.attr_count = node->attrs,
		.stated = stated,
		.loc = st_module_loc_at(m, node->loc),
		.start = node->start,
	};

	memset(found, 0, sizeof(found));
	for (int i = 0; i < node->results; i++)
		stated[i] = *st_value_type(m, node->first_result + (uint32_t)i);
	if (st_infer(m, &view, found) != ST_OK) {
		v->faults++;
		return;
	}
	for (int i = 0; i < node->results; i++) {
		if (st_type_equal(&stated[i], &found[i]))
			continue;
		v->faults++;
		st_error(m->diag, ST_EINPUT, view.loc,
			 "%s: result %d is %s, but the operands make it %s",
			 st_ops[node->op].name, i + 1,
			 print_types(m, &stated[i]), print_types(m, &found[i]));
	}
}

/* A communicator belongs to starts, and an async value to one node. */
static void
check_async(struct verifier *v, const struct st_node *node, uint32_t index)
{
	const struct st_module *m = v->module;
	const char *name = st_ops[node->op].name;
	uint32_t first = node->operands ? st_node_operand(m, node, 0) : 0;

	if (node->on && !node->start)
		fault(v, node->loc, name,
		      "only a start stands on a communicator");
	else if (node->on && m->communicators.at[node->on - 1].axes !=
				     st_node_int(m, node, ST_KEY_axes))
		fault(v, node->loc, name,
		      "the communicator is one over other axes");
	if (!node->start && node->op != ST_OP_wait)
		return;
	if (st_value_type(m, first)->is_async) {
		if (v->taken[first])
			fault(v, node->loc, name,
			      "its operand is taken by another node already");
		v->taken[first] = 1;
	}
	/* Until the wait, its start reads what it was lent. */
	while (node->op == ST_OP_wait || node->start) {
		first = st_node_operand(m, node, 0);
		if (m->values.at[first].kind == ST_VALUE_STATE)
			v->last_reader[first] = index;
		if (!st_value_type(m, first)->is_async ||
		    m->values.at[first].node == ST_NONE)
			break;
		node = &m->nodes.at[m->values.at[first].node];
	}
}

static void
check_taken(struct verifier *v, const struct st_node *node)
{
	uint32_t value = node->first_result;

	if (node->start && !v->taken[value]) {
		v->faults++;
		st_error(v->module->diag, ST_EINPUT,
			 st_module_loc_at(v->module, node->loc),
			 "%s: nothing waits for '%%%s'", st_ops[node->op].name,
			 st_value_name(v->module, value));
	}
}

/* Output `index` takes the place of a state: of one, alone, and behind all who
 * read it. */
static void
check_place(struct verifier *v, uint32_t index, uint32_t target,
	    uint32_t writer, uint32_t loc)
{
	const struct st_module *m = v->module;
	const struct st_output *output = &m->outputs.at[index];

	if (v->writer[output->state]) {
		v->faults++;
		st_error(m->diag, ST_EINPUT, st_module_loc_at(m, loc),
			 "ret: '%%%s' is written twice",
			 st_value_name(m, target));
	}
	v->writer[output->state] = index + 1;
	if (v->becomes[output->value]) {
		v->faults++;
		st_error(m->diag, ST_EINPUT, st_module_loc_at(m, loc),
			 "ret: '%%%s' cannot take the place of two states",
			 st_value_name(m, output->value));
	}
	v->becomes[output->value] = output->state + 1;
	if (v->last_reader[target] != ST_NONE &&
	    v->last_reader[target] > writer) {
		const struct st_node *reader =
			&m->nodes.at[v->last_reader[target]];

		v->faults++;
		st_error(m->diag, ST_EINPUT, st_module_loc_at(m, reader->loc),
			 "%s reads '%%%s' after '%%%s' has taken its place",
			 st_ops[reader->op].name, st_value_name(m, target),
			 st_value_name(m, output->value));
	}
}

static void
check_output(struct verifier *v, const struct st_entry *entry, uint32_t index)
{
	const struct st_module *m = v->module;
	const struct st_output *output = &m->outputs.at[index];
	const struct st_value *value = &m->values.at[output->value];
	struct st_type have = m->types.at[value->type], want;
	uint32_t target, writer, loc = entry->loc;

	if (m->types.at[value->type].is_async)
		fault(v, loc, "ret", "the value is still async");
	if (output->state == ST_NONE)
		return;
	target = m->states.at[output->state].value;
	want = *st_value_type(m, target);
	if (value->node == ST_NONE) {
		v->faults++;
		st_error(m->diag, ST_EINPUT, st_module_loc_at(m, loc),
			 "ret: '%%%s' is made by no node, so it cannot take "
			 "the place of '%%%s'",
			 st_value_name(m, output->value),
			 st_value_name(m, target));
		return;
	}
	writer = value->node;
	if (m->nodes.at[writer].op == ST_OP_wait)
		writer = st_wait_start(m, &m->nodes.at[writer]);
	loc = m->nodes.at[value->node].loc;
	if (m->form == ST_LOGICAL)
		want = st_type_whole(&want);
	if (!st_type_equal(&have, &want)) {
		v->faults++;
		st_error(m->diag, ST_EINPUT, st_module_loc_at(m, loc),
			 "ret: '%%%s' is %s, the state '%%%s' is %s",
			 st_value_name(m, output->value), print_types(m, &have),
			 st_value_name(m, target), print_types(m, &want));
	}
	check_place(v, index, target, writer, loc);
}

/* What goes to the caller has one name, and is not overwritten before. */
static void
check_return(struct verifier *v, const struct st_entry *entry, uint32_t i)
{
	const struct st_module *m = v->module;
	const struct st_output *output =
		&m->outputs.at[entry->first_output + i];
	const struct st_value *value = &m->values.at[output->value];
	uint32_t state;

	if (output->state != ST_NONE)
		return;
	state = value->kind == ST_VALUE_STATE
			? st_module_find_state(m, output->value)
			: ST_NONE;
	if (state != ST_NONE && v->writer[state])
		fault(v, entry->loc, "ret",
		      "a state that is written here is returned as it was");
	for (uint32_t j = 0; j < i; j++) {
		const struct st_output *other =
			&m->outputs.at[entry->first_output + j];

		if (other->state == ST_NONE && other->name == output->name)
			fault(v, entry->loc, "ret",
			      "two values are returned under one name");
	}
}

/* Types of a text are checked as they are read; a pass makes them too. */
static void
check_faults(struct verifier *v)
{
	const struct st_module *m = v->module;

	for (size_t i = 0; i < m->types.count; i++) {
		const char *what = st_type_fault(&m->types.at[i], &m->mesh);

		if (what)
			fault(v, ST_NONE, print_types(m, &m->types.at[i]),
			      what);
	}
}

static void
check_entry(struct verifier *v, const struct st_entry *entry)
{
	const struct st_module *m = v->module;

	for (size_t i = 0; i < m->states.count; i++) {
		v->last_reader[i] = ST_NONE;
		v->writer[i] = 0;
	}
	for (uint32_t i = 0; i < entry->nodes; i++) {
		uint32_t index = entry->first_node + i;
		const struct st_node *node = &m->nodes.at[index];

		if (v->faults >= ST_MAX_FAULTS)
			return;
		check_attrs(v, node);
		if (!v->faults && check_operands(v, node, index)) {
			check_types(v, node);
			if (!v->faults)
				check_async(v, node, index);
		}
	}
	for (uint32_t i = 0; i < entry->nodes && !v->faults; i++)
		check_taken(v, &m->nodes.at[entry->first_node + i]);
	for (uint32_t i = 0; i < entry->outputs; i++)
		check_output(v, entry, entry->first_output + i);
	for (uint32_t i = 0; i < entry->outputs; i++)
		check_return(v, entry, i);
}

/* States and inputs are complete from the start. */
static void
check_sources(struct verifier *v)
{
	const struct st_module *m = v->module;

	for (size_t i = 0; i < m->states.count; i++)
		if (st_value_type(m, m->states.at[i].value)->is_async)
			fault(v, m->states.at[i].loc, "state",
			      "cannot be async");
	for (size_t i = 0; i < m->entries.count; i++)
		for (uint32_t j = 0; j < m->entries.at[i].inputs; j++)
			if (st_value_type(m, m->entries.at[i].first_input + j)
				    ->is_async)
				fault(v, m->entries.at[i].loc, "input",
				      "cannot be async");
}

enum st_status
st_verify(const struct st_module *module)
{
	struct verifier v = {.module = module};
	size_t states = module->states.count + 1;

	if (module->arena->failed)
		return st_error_memory(module->diag);
	v.last_reader =
		st_arena_array(module->arena, states, sizeof(*v.last_reader));
	v.writer = st_arena_array(module->arena, states, sizeof(*v.writer));
	v.becomes = st_arena_array(module->arena, module->values.count + 1,
				   sizeof(*v.becomes));
	v.taken = st_arena_array(module->arena, module->values.count + 1, 1);
	if (!v.last_reader || !v.writer || !v.becomes || !v.taken)
		return st_error_memory(module->diag);
	check_faults(&v);
	check_sources(&v);
	for (size_t i = 0; i < module->entries.count; i++)
		check_entry(&v, &module->entries.at[i]);
	return v.faults ? ST_EINPUT : st_verify_places(module);
}
