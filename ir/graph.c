/* Building and reading a module. */

#include "ir/graph.h"

#include <string.h>

enum { FIRST_TYPE_SLOTS = 256 };

/* Makes room for one more element of a vector; evaluates to 0 without
 * memory. */
#define ROOM(module, vector)                                              \
	reserve((module)->arena, (void **)&(vector).at, (vector).count,   \
		&(vector).capacity, (vector).count + 1, sizeof(*(vector).at))

static int
reserve(struct st_arena *arena, void **at, size_t count, size_t *capacity,
	size_t want, size_t size)
{
	void *grown = st_arena_grow(arena, *at, count, capacity, want, size);

	if (!grown)
		return 0;
	*at = grown;
	return 1;
}

struct st_module *
st_module_create(struct st_arena *arena, struct st_diag *diag,
		 struct st_names *names)
{
	struct st_module *module = st_arena_alloc(arena, sizeof(*module));

	if (!module)
		return NULL;
	module->arena = arena;
	module->diag = diag;
	module->names = names;
	st_option_defaults(module->options);
	module->type_slots = st_arena_array(arena, FIRST_TYPE_SLOTS,
					    sizeof(*module->type_slots));
	module->type_slot_count = FIRST_TYPE_SLOTS;
	/* Empty arrays have an address too: views point into them. */
	if (!module->type_slots || !ROOM(module, module->refs) ||
	    !ROOM(module, module->attrs) || !ROOM(module, module->values) ||
	    !ROOM(module, module->nodes) ||
	    st_module_loc(module, st_no_loc()) == ST_NONE)
		return NULL;
	return module;
}

struct st_module *
st_module_create_like(const struct st_module *like)
{
	struct st_module *module = st_module_create(like->arena, like->diag,
						    like->names);

	if (!module)
		return NULL;
	module->form = like->form;
	module->mesh = like->mesh;
	memcpy(module->options, like->options, sizeof(like->options));
	module->options_set = like->options_set;
	module->locs.at = like->locs.at;
	module->locs.count = like->locs.count;
	/* The old arrays are shared: the first push copies them. */
	module->locs.capacity = like->locs.count;
	module->communicators.at = like->communicators.at;
	module->communicators.count = like->communicators.count;
	module->communicators.capacity = like->communicators.count;
	return module;
}

static size_t
hash_type(const struct st_type *type)
{
	uint64_t h = 1469598103934665603u;
	uint64_t head = (uint64_t)type->dtype | (uint64_t)type->factors << 8 |
			(uint64_t)type->joined << 16 |
			(uint64_t)type->flat << 24 |
			(uint64_t)type->partial << 32 |
			(uint64_t)type->is_async << 40;

	h = (h ^ head) * 1099511628211u;
	for (int i = 0; i < type->factors; i++) {
		uint64_t f = (uint64_t)type->f[i].size * 8 +
			     type->f[i].axes;

		h = (h ^ f ^ (h >> 32)) * 1099511628211u;
	}
	return (size_t)(h ^ h >> 31);
}

static uint32_t *
type_slot(const struct st_module *module, const struct st_type *type)
{
	size_t mask = module->type_slot_count - 1;
	size_t at = hash_type(type) & mask;

	while (module->type_slots[at]) {
		uint32_t index = module->type_slots[at] - 1;

		if (st_type_equal(&module->types.at[index], type))
			break;
		at = (at + 1) & mask;
	}
	return &module->type_slots[at];
}

static int
grow_type_slots(struct st_module *module)
{
	size_t larger = module->type_slot_count * 2;
	uint32_t *slots = st_arena_array(module->arena, larger,
					 sizeof(*slots));

	if (!slots)
		return 0;
	module->type_slots = slots;
	module->type_slot_count = larger;
	for (size_t i = 0; i < module->types.count; i++)
		*type_slot(module, &module->types.at[i]) = (uint32_t)i + 1;
	return 1;
}

uint32_t
st_module_type(struct st_module *module, const struct st_type *type)
{
	uint32_t *slot = type_slot(module, type);

	if (*slot)
		return *slot - 1;
	if (module->types.count * 2 > module->type_slot_count) {
		if (!grow_type_slots(module))
			return ST_NONE;
		slot = type_slot(module, type);
	}
	if (!ROOM(module, module->types))
		return ST_NONE;
	module->types.at[module->types.count++] = *type;
	*slot = (uint32_t)module->types.count;
	return (uint32_t)module->types.count - 1;
}

uint32_t
st_module_loc(struct st_module *module, struct st_loc loc)
{
	if (!ROOM(module, module->locs))
		return ST_NONE;
	module->locs.at[module->locs.count] = loc;
	return (uint32_t)module->locs.count++;
}

/* The scope that is open: 0 for the states, else entry + 1. */
static uint32_t
scope(const struct st_module *module)
{
	return (uint32_t)module->entries.count;
}

/* Lets the three tables by name reach `name`. */
static int
know_name(struct st_module *module, uint32_t name)
{
	size_t want = (size_t)name + 1;

	while (module->name_entry.count < want) {
		if (!ROOM(module, module->name_entry) ||
		    !ROOM(module, module->name_value) ||
		    !ROOM(module, module->name_next))
			return 0;
		module->name_entry.at[module->name_entry.count++] = ST_NONE;
		module->name_value.at[module->name_value.count++] = ST_NONE;
		module->name_next.at[module->name_next.count++] = 0;
	}
	return 1;
}

uint32_t
st_module_lookup(const struct st_module *module, uint32_t name)
{
	uint32_t in;

	if (name >= module->name_entry.count)
		return ST_NONE;
	in = module->name_entry.at[name];
	if (in != 0 && in != scope(module))
		return ST_NONE;
	return module->name_value.at[name];
}

int
st_module_name_is_free(const struct st_module *module, uint32_t name)
{
	return name != 0 && st_module_lookup(module, name) == ST_NONE;
}

/* A free name made of `name` and a counter. */
static uint32_t
make_unique(struct st_module *module, uint32_t name)
{
	uint32_t candidate = name;

	while (!st_module_name_is_free(module, candidate)) {
		const char *text;

		if (!know_name(module, name))
			return 0;
		text = st_arena_printf(module->arena, "%s.%u",
				       st_names_text(module->names, name),
				       ++module->name_next.at[name]);
		if (!text)
			return 0;
		candidate = st_names_add(module->names, text, strlen(text));
		if (module->arena->failed)
			return 0;
	}
	return candidate;
}

static uint32_t
add_value(struct st_module *module, uint32_t name, const struct st_type *type,
	  enum st_value_kind kind, uint32_t node)
{
	uint32_t index = (uint32_t)module->values.count;
	uint32_t of_type = st_module_type(module, type);
	struct st_value *value;

	if (!know_name(module, name) || of_type == ST_NONE ||
	    !ROOM(module, module->values))
		return ST_NONE;
	value = &module->values.at[module->values.count++];
	value->name = name;
	value->type = of_type;
	value->node = node;
	value->arena_at = ST_NONE;
	value->kind = (uint8_t)kind;
	module->name_entry.at[name] = scope(module);
	module->name_value.at[name] = index;
	return index;
}

uint32_t
st_module_add_communicator(struct st_module *module, uint32_t name,
			   unsigned axes, uint32_t loc)
{
	struct st_communicator *c;

	if (!ROOM(module, module->communicators))
		return 0;
	c = &module->communicators.at[module->communicators.count++];
	c->name = name;
	c->loc = loc;
	c->axes = (uint8_t)axes;
	return (uint32_t)module->communicators.count;
}

uint32_t
st_module_find_communicator(const struct st_module *module, uint32_t name)
{
	for (uint32_t i = 0; i < module->communicators.count; i++)
		if (module->communicators.at[i].name == name)
			return i + 1;
	return 0;
}

uint32_t
st_module_add_state(struct st_module *module, uint32_t name,
		    const struct st_type *type, enum st_role role, uint32_t loc)
{
	struct st_state *state;
	uint32_t value;

	if (!st_module_name_is_free(module, name) ||
	    !ROOM(module, module->states))
		return ST_NONE;
	value = add_value(module, name, type, ST_VALUE_STATE, ST_NONE);
	if (value == ST_NONE)
		return ST_NONE;
	state = &module->states.at[module->states.count++];
	state->value = value;
	state->role = (uint8_t)role;
	state->loc = loc;
	return value;
}

void
st_module_begin_entry(struct st_module *module, uint32_t name, uint32_t loc)
{
	struct st_entry *entry;

	if (!ROOM(module, module->entries))
		return;
	entry = &module->entries.at[module->entries.count++];
	memset(entry, 0, sizeof(*entry));
	entry->name = name;
	entry->loc = loc;
	entry->first_input = (uint32_t)module->values.count;
	entry->first_node = (uint32_t)module->nodes.count;
	entry->first_output = (uint32_t)module->outputs.count;
	/* Suffixes start again, so that every entry names alike. */
	if (module->name_next.count)
		memset(module->name_next.at, 0,
		       module->name_next.count * sizeof(uint32_t));
}

static struct st_entry *
open_entry(struct st_module *module)
{
	return &module->entries.at[module->entries.count - 1];
}

uint32_t
st_module_add_input(struct st_module *module, uint32_t name,
		    const struct st_type *type)
{
	uint32_t value;

	if (!st_module_name_is_free(module, name))
		return ST_NONE;
	value = add_value(module, name, type, ST_VALUE_INPUT, ST_NONE);
	if (value != ST_NONE)
		open_entry(module)->inputs++;
	return value;
}

void
st_module_add_output(struct st_module *module, uint32_t value, uint32_t name,
		     uint32_t state)
{
	struct st_output *output;

	if (!ROOM(module, module->outputs))
		return;
	output = &module->outputs.at[module->outputs.count++];
	output->value = value;
	output->name = name;
	output->state = state;
	open_entry(module)->outputs++;
}

void
st_module_end_entry(struct st_module *module)
{
	struct st_entry *entry = open_entry(module);

	entry->nodes = (uint32_t)module->nodes.count - entry->first_node;
}

static int
add_lists(struct st_module *module, struct st_node *node,
	  const struct st_new_node *fresh)
{
	node->operands = (uint16_t)fresh->operand_count;
	node->first_operand = (uint32_t)module->refs.count;
	for (size_t i = 0; i < fresh->operand_count; i++) {
		if (!ROOM(module, module->refs))
			return 0;
		module->refs.at[module->refs.count++] = fresh->operands[i];
	}
	node->attrs = (uint16_t)fresh->attr_count;
	node->first_attr = (uint32_t)module->attrs.count;
	for (size_t i = 0; i < fresh->attr_count; i++) {
		if (!ROOM(module, module->attrs))
			return 0;
		module->attrs.at[module->attrs.count++] = fresh->attrs[i];
	}
	return 1;
}

uint32_t
st_module_add_node(struct st_module *module, const struct st_new_node *fresh)
{
	uint32_t index = (uint32_t)module->nodes.count;
	const char *word = st_ops[fresh->op].name;
	struct st_node node = {.op = (uint16_t)fresh->op,
			       .region = fresh->region & 0x7f,
			       .start = fresh->start != 0,
			       .loc = fresh->loc,
			       .on = fresh->on};

	if (!ROOM(module, module->nodes) || !add_lists(module, &node, fresh))
		return ST_NONE;
	node.results = (uint8_t)st_op_results(fresh->op);
	node.first_result = (uint32_t)module->values.count;
	node.entry = (uint32_t)module->entries.count - 1;
	for (int i = 0; i < node.results; i++) {
		uint32_t name = fresh->names ? fresh->names[i] : 0;

		if (name == 0)
			name = st_names_add(module->names, word, strlen(word));
		name = make_unique(module, name);
		if (name == 0 ||
		    add_value(module, name, &fresh->types[i], ST_VALUE_RESULT,
			      index) == ST_NONE)
			return ST_NONE;
	}
	module->nodes.at[module->nodes.count++] = node;
	return index;
}

const struct st_attr *
st_node_attr(const struct st_module *module, const struct st_node *node,
	     enum st_key key)
{
	for (uint32_t i = 0; i < node->attrs; i++) {
		const struct st_attr *attr =
			&module->attrs.at[node->first_attr + i];

		if (attr->key == key)
			return attr;
	}
	return NULL;
}

const char *
st_node_string(const struct st_module *module, const struct st_node *node,
	       enum st_key key)
{
	const struct st_attr *attr = st_node_attr(module, node, key);

	return attr ? st_names_text(module->names, attr->s) : "";
}

double
st_node_float(const struct st_module *module, const struct st_node *node,
	      enum st_key key)
{
	const struct st_attr *attr = st_node_attr(module, node, key);

	return attr ? attr->f : 0.0;
}

int64_t
st_node_int(const struct st_module *module, const struct st_node *node,
	    enum st_key key)
{
	const struct st_attr *attr = st_node_attr(module, node, key);

	return attr ? attr->i : 0;
}

uint32_t
st_module_find_entry(const struct st_module *module, const char *name)
{
	for (uint32_t i = 0; i < module->entries.count; i++)
		if (strcmp(st_names_text(module->names,
					 module->entries.at[i].name),
			   name) == 0)
			return i;
	return ST_NONE;
}

uint32_t
st_module_find_state(const struct st_module *module, uint32_t value)
{
	/* States are the first values, in order. */
	return value < module->states.count ? value : ST_NONE;
}

int
st_module_find_axis(const struct st_module *module, const char *name)
{
	for (uint32_t i = 0; i < module->mesh.count; i++)
		if (strcmp(st_names_text(module->names, module->mesh.name[i]),
			   name) == 0)
			return (int)i;
	return -1;
}

int64_t
st_module_parameters(const struct st_module *module)
{
	int64_t n = 0;

	for (size_t i = 0; i < module->states.count; i++)
		if (module->states.at[i].role == ST_ROLE_param)
			n += st_type_elements(st_value_type(
				module, module->states.at[i].value));
	return n;
}

const char *
st_role_name(enum st_role role)
{
	static const char *const names[] = {
#define X(name) #name,
		ST_ROLES(X)
#undef X
	};

	return names[role];
}

const char *
st_region_name(enum st_region region)
{
	static const char *const names[] = {"forward", "backward",
					    "optimizer"};

	return names[region];
}
