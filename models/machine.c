/* Machine files: from YAML to the rates that a plan is costed on, and back. */

#include "models/machine.h"
#include "models/net.h"

#include <string.h>
#include <unistd.h>

enum kind { COUNT, RANKS, RATE, TIME, SHARE, TEXT, DEVICE };

static const struct {
	const char *want;
	double low, high;
	int whole;
} kinds[] = {
	[COUNT] = {"a whole number from 1 to 1e15", 1, 1e15, 1},
	[RANKS] = {"a whole number from 2 to 1e6", 2, 1e6, 1},
	[RATE] = {"a number above 0, at most 1e9", 1e-9, 1e9, 0},
	[TIME] = {"a number from 0 to 1e9", 0, 1e9, 0},
	[SHARE] = {"a number from 0 to 100", 0, 100, 0},
	[TEXT] = {"a name", 0, 0, 0},
	[DEVICE] = {"cuda or cpu", 0, 0, 0},
};

/* A key: where it stands in its mapping, where its value goes. */
struct field {
	const char *path;
	enum kind kind;
	size_t at;
};

#define AT(name) offsetof(struct st_machine, name)
static const struct field of_machine[] = {
	{"machine", TEXT, AT(name)},
	{"device.kind", DEVICE, AT(is_cuda)},
	{"device.memory_bytes", COUNT, AT(memory_bytes)},
	{"device.sms", COUNT, AT(sms)},
	{"device.cores", COUNT, AT(sms)},
	{"device.matmul.bf16_tflops", RATE, AT(matmul_tflops[ST_BF16])},
	{"device.matmul.f32_tflops", RATE, AT(matmul_tflops[ST_F32])},
	{"device.matmul.f64_tflops", RATE, AT(matmul_tflops[ST_F64])},
	{"device.matmul.start_us", TIME, AT(matmul_start_us)},
	{"device.memory.gb_per_s", RATE, AT(memory_gb_per_s)},
	{"device.memory.start_us", TIME, AT(memory_start_us)},
	{"device.attention.forward_tflops.head_64", RATE,
	 AT(attention_forward_tflops_64)},
	{"device.attention.forward_tflops.head_128", RATE,
	 AT(attention_forward_tflops_128)},
	{"device.attention.backward_tflops.head_64", RATE,
	 AT(attention_backward_tflops_64)},
	{"device.attention.backward_tflops.head_128", RATE,
	 AT(attention_backward_tflops_128)},
	{"launch.graph_node_us", TIME, AT(node_us)},
	{"launch.stream_us", TIME, AT(stream_us)},
	{"launch.graph_us", TIME, AT(graph_us)},
	{"launch.graph_ns_per_node", TIME, AT(graph_ns_per_node)},
	{"contention.compute_slowdown", SHARE, AT(compute_slowdown)},
	{"contention.comm_slowdown", SHARE, AT(comm_slowdown)},
	{NULL, TEXT, 0},
};
#undef AT

#define AT(name) offsetof(struct st_machine_tier, name)
static const struct field of_tier[] = {
	{"name", TEXT, AT(name)},
	{"devices", COUNT, AT(devices)},
	{"link", TEXT, AT(link)},
	{"gb_per_s", RATE, AT(gb_per_s)},
	{"line_gb_per_s", RATE, AT(line_gb_per_s)},
	{"hop_us", TIME, AT(hop_us)},
	{NULL, TEXT, 0},
};
#undef AT

#define AT(name) offsetof(struct st_machine_form, name)
static const struct field of_form[] = {
	{"ranks", RANKS, AT(ranks)},
	{"a_us", TIME, AT(a_us)},
	{"bus_gb_per_s", RATE, AT(bus_gb_per_s)},
	{"c_ns_per_sqrt_byte", TIME, AT(c_ns_per_sqrt_byte)},
	{"small.a_us", TIME, AT(small_a_us)},
	{"small.bus_gb_per_s", RATE, AT(small_bus_gb_per_s)},
	{NULL, TEXT, 0},
};
#undef AT

struct op_rates {
	double gb_per_s, start_us;
};

static const struct field of_op[] = {
	{"gb_per_s", RATE, offsetof(struct op_rates, gb_per_s)},
	{"start_us", TIME, offsetof(struct op_rates, start_us)},
	{NULL, TEXT, 0},
};

struct reader {
	struct st_arena *arena;
	struct st_diag *diag;
	struct st_machine *machine;
	const struct st_yaml *root;
	struct st_loc root_loc;
};

typedef enum st_status section_reader(struct reader *r,
				      const struct st_yaml_item *item);
static section_reader read_tiers, read_collectives, read_ops;

static const struct {
	const char *name;
	section_reader *read;
} sections[] = {
	{"tiers", read_tiers},
	{"collectives", read_collectives},
	{"ops", read_ops},
};

enum { SECTIONS = sizeof(sections) / sizeof(sections[0]) };

/* ---- one key ---- */

static enum st_status
fail_value(struct reader *r, const char *key, const struct st_yaml *node,
	   const char *want)
{
	const char *quote = node->kind == ST_YAML_STRING ? "'" : "";
	const char *got = node->kind >= ST_YAML_LIST || node->kind == 0
				  ? st_yaml_kind_name(node->kind)
				  : node->text;

	return st_error(r->diag, ST_EINPUT, node->loc,
			"%s: want %s, not %s%s%s", key, want, quote, got,
			quote);
}

static enum st_status
set_word(struct reader *r, const struct field *field, const char *key,
	 const struct st_yaml *node, char *base)
{
	int cuda = strcmp(node->text, "cuda") == 0;

	if (node->kind != ST_YAML_STRING || node->text[0] == '\0' ||
	    (field->kind == DEVICE && !cuda && strcmp(node->text, "cpu") != 0))
		return fail_value(r, key, node, kinds[field->kind].want);
	if (field->kind == DEVICE)
		*(int *)(void *)(base + field->at) = cuda;
	else
		*(const char **)(void *)(base + field->at) = node->text;
	return ST_OK;
}

static enum st_status
set(struct reader *r, const struct field *field, const char *key,
    const struct st_yaml *node, char *base)
{
	enum kind kind = field->kind;

	if (kind == TEXT || kind == DEVICE)
		return set_word(r, field, key, node, base);
	if ((node->kind != ST_YAML_INT && node->kind != ST_YAML_FLOAT) ||
	    !(node->f >= kinds[kind].low && node->f <= kinds[kind].high) ||
	    (kinds[kind].whole && node->f != (double)(int64_t)node->f))
		return fail_value(r, key, node, kinds[kind].want);
	if (kinds[kind].whole)
		*(int64_t *)(void *)(base + field->at) = (int64_t)node->f;
	else /* -0 prints as 0 */
		*(double *)(void *)(base + field->at) = node->f + 0.0;
	return ST_OK;
}

/* ---- a mapping ---- */

static const struct field *
find(const struct field *fields, const char *path)
{
	for (; fields->path; fields++)
		if (strcmp(fields->path, path) == 0)
			return fields;
	return NULL;
}

/* What follows "group." in a path, or NULL; the group may be "". */
static const char *
below(const char *path, const char *group)
{
	size_t length = strlen(group);

	if (length == 0)
		return path;
	return strncmp(path, group, length) == 0 && path[length] == '.'
		       ? path + length + 1
		       : NULL;
}

static int
is_group(const struct field *fields, const char *path)
{
	for (; fields->path; fields++)
		if (below(fields->path, path))
			return 1;
	return 0;
}

static enum st_status
fail_unknown(struct reader *r, const struct field *fields, const char *group,
	     const struct st_yaml_item *item)
{
	const char *list[sizeof(of_machine) / sizeof(of_machine[0]) + SECTIONS];
	size_t n = 0;

	for (const struct field *field = fields; field->path; field++) {
		const char *rest = below(field->path, group);

		if (!rest)
			continue;
		list[n] = st_arena_strndup(r->arena, rest, strcspn(rest, "."));
		if (!list[n++])
			return st_error_memory(r->diag);
	}
	if (fields == of_machine && group[0] == '\0')
		for (size_t i = 0; i < SECTIONS; i++)
			list[n++] = sections[i].name;
	list[n] = NULL;
	return st_net_unknown(r->diag, item->loc, "key", item->key, list);
}

static enum st_status read_map(struct reader *r, const struct field *fields,
			       const char *group, const struct st_yaml *node,
			       void *base);

static enum st_status
read_item(struct reader *r, const struct field *fields, const char *group,
	  const struct st_yaml_item *item, void *base)
{
	const char *path = item->key;

	if (fields == of_machine && group[0] == '\0')
		for (size_t i = 0; i < SECTIONS; i++)
			if (strcmp(sections[i].name, item->key) == 0)
				return sections[i].read(r, item);
	if (group[0])
		path = st_arena_printf(r->arena, "%s.%s", group, item->key);
	if (!path)
		return st_error_memory(r->diag);
	if (!strchr(item->key, '.') && find(fields, path))
		return set(r, find(fields, path), item->key, item->value, base);
	if (strchr(item->key, '.') || item->key[0] == '\0' ||
	    !is_group(fields, path))
		return fail_unknown(r, fields, group, item);
	if (item->value->kind != ST_YAML_MAP)
		return fail_value(r, item->key, item->value, "a mapping");
	return read_map(r, fields, path, item->value, base);
}

/* Goes on after an error, so that one run shows them all; returns the
 * first. */
static enum st_status
read_map(struct reader *r, const struct field *fields, const char *group,
	 const struct st_yaml *node, void *base)
{
	enum st_status first = ST_OK;

	for (size_t i = 0; i < node->count; i++) {
		enum st_status status =
			read_item(r, fields, group, &node->items[i], base);

		if (first == ST_OK)
			first = status;
	}
	return first;
}

static enum st_status
fail_missing(struct reader *r, struct st_loc loc, const char *what,
	     const char *path)
{
	return st_error(r->diag, ST_EINPUT, loc, "%skey '%s' is missing", what,
			path);
}

/* An element of a list, or an op of `ops`. */
static enum st_status
read_element(struct reader *r, const struct field *fields, const char *what,
	     const struct st_yaml *node, const char *const *required,
	     void *base)
{
	if (node->kind != ST_YAML_MAP)
		return fail_value(r, what, node, "a mapping");
	ST_TRY(read_map(r, fields, "", node, base));
	for (; *required; required++)
		if (!st_yaml_find(node, *required))
			return fail_missing(
				r, node->loc,
				st_arena_printf(r->arena, "%s: ", what),
				*required);
	return ST_OK;
}

/* ---- tiers ---- */

/* From the inside out, so each holds more devices than the one before. */
static enum st_status
check_tier(struct reader *r, const struct st_yaml *node)
{
	const struct st_machine *machine = r->machine;
	const struct st_machine_tier *tier =
		&machine->tiers[machine->tier_count - 1];

	if (machine->tier_count == 1)
		return ST_OK;
	if (tier[-1].devices == 0)
		return st_error(r->diag, ST_EINPUT, node->loc,
				"tiers: '%s' says no number of devices, so no "
				"tier can be around it",
				tier[-1].name);
	if (tier->devices && tier->devices <= tier[-1].devices)
		return st_error(
			r->diag, ST_EINPUT, st_yaml_get(node, "devices")->loc,
			"devices: '%s' is around the %lld devices of "
			"'%s', so want more of them",
			tier->name, (long long)tier[-1].devices, tier[-1].name);
	return ST_OK;
}

static enum st_status
read_tiers(struct reader *r, const struct st_yaml_item *item)
{
	static const char *const required[] = {"name", "gb_per_s", NULL};
	const struct st_yaml *list = item->value;

	if (list->kind != ST_YAML_LIST)
		return fail_value(r, item->key, list, "a list of mappings");
	if (list->count == 0)
		return st_error(r->diag, ST_EINPUT, list->loc,
				"tiers: want at least one");
	for (size_t i = 0; i < list->count; i++) {
		const struct st_yaml *node = list->items[i].value;

		if (i == ST_MACHINE_MAX_TIERS)
			return st_error(r->diag, ST_EINPUT, node->loc,
					"tiers: more than %d do not fit",
					ST_MACHINE_MAX_TIERS);
		ST_TRY(read_element(r, of_tier, "tiers", node, required,
				    &r->machine->tiers[i]));
		r->machine->tier_count = (int)i + 1;
		ST_TRY(check_tier(r, node));
	}
	return ST_OK;
}

/* ---- collectives, ops ---- */

static enum st_status
find_op(struct reader *r, const struct st_yaml_item *item, int comm, int *op)
{
	const char *list[ST_OP_COUNT + 1];
	size_t n = 0;

	*op = st_op_find(item->key, strlen(item->key));
	if (*op >= 0 && (st_ops[*op].class == ST_COMM) == comm)
		return ST_OK;
	if (*op >= 0 && !comm)
		return st_error(r->diag, ST_EINPUT, item->loc,
				"%s: its times stand under 'collectives'",
				item->key);
	for (int i = 0; i < ST_OP_COUNT; i++)
		if ((st_ops[i].class == ST_COMM) == comm)
			list[n++] = st_ops[i].name;
	list[n] = NULL;
	return st_net_unknown(r->diag, item->loc, comm ? "collective" : "op",
			      item->key, list);
}

static enum st_status
read_form(struct reader *r, enum st_op op, const struct st_yaml *node)
{
	static const char *const required[] = {"ranks", "bus_gb_per_s", NULL};
	const struct st_yaml *small = st_yaml_get(node, "small");
	struct st_machine *machine = r->machine;
	struct st_machine_form form = {.op = op};

	ST_TRY(read_element(r, of_form, st_ops[op].name, node, required,
			    &form));
	if (small && !st_yaml_find(small, "bus_gb_per_s"))
		return fail_missing(r, small->loc, "small: ", "bus_gb_per_s");
	for (int i = 0; i < machine->form_count; i++)
		if (machine->forms[i].op == op &&
		    machine->forms[i].ranks == form.ranks)
			return st_error(r->diag, ST_EINPUT,
					st_yaml_get(node, "ranks")->loc,
					"%s: two forms for %lld ranks",
					st_ops[op].name, (long long)form.ranks);
	if (machine->form_count == ST_MACHINE_MAX_FORMS)
		return st_error(r->diag, ST_EINPUT, node->loc,
				"collectives: more than %d forms do not fit",
				ST_MACHINE_MAX_FORMS);
	machine->forms[machine->form_count++] = form;
	return ST_OK;
}

static enum st_status
read_collectives(struct reader *r, const struct st_yaml_item *section)
{
	const struct st_yaml *map = section->value;

	if (map->kind != ST_YAML_MAP)
		return fail_value(r, section->key, map, "a mapping");
	for (size_t i = 0; i < map->count; i++) {
		const struct st_yaml *list = map->items[i].value;
		int op;

		ST_TRY(find_op(r, &map->items[i], 1, &op));
		if (list->kind != ST_YAML_LIST)
			return fail_value(r, map->items[i].key, list,
					  "a list of mappings");
		for (size_t j = 0; j < list->count; j++)
			ST_TRY(read_form(r, (enum st_op)op,
					 list->items[j].value));
	}
	return ST_OK;
}

static enum st_status
read_ops(struct reader *r, const struct st_yaml_item *section)
{
	static const char *const required[] = {NULL};
	const struct st_yaml *map = section->value;

	if (map->kind != ST_YAML_MAP)
		return fail_value(r, section->key, map, "a mapping");
	for (size_t i = 0; i < map->count; i++) {
		struct op_rates rates = {0, 0};
		int op;

		ST_TRY(find_op(r, &map->items[i], 0, &op));
		ST_TRY(read_element(r, of_op, map->items[i].key,
				    map->items[i].value, required, &rates));
		r->machine->op_gb_per_s[op] = rates.gb_per_s;
		r->machine->op_start_us[op] = rates.start_us;
	}
	return ST_OK;
}

/* ---- the whole ---- */

/* Blames the innermost mapping on the way that is there. */
static enum st_status
require(struct reader *r, const char *path)
{
	const struct st_yaml *node = r->root;
	struct st_loc loc = r->root_loc;

	for (const char *at = path; *at;) {
		size_t length = strcspn(at, ".");
		const char *key = st_arena_strndup(r->arena, at, length);
		const struct st_yaml_item *item;

		if (!key)
			return st_error_memory(r->diag);
		item = st_yaml_find(node, key);
		if (!item)
			return fail_missing(r, loc, "", path);
		loc = item->loc;
		node = item->value;
		at += length + (at[length] == '.');
	}
	return ST_OK;
}

static enum st_status
check_device(struct reader *r)
{
	const struct st_yaml *device = st_yaml_get(r->root, "device");
	int cuda = r->machine->is_cuda;
	const struct st_yaml_item *wrong =
		st_yaml_find(device, cuda ? "cores" : "sms");
	const double *rates = r->machine->matmul_tflops;
	int rated = 0;

	if (wrong)
		return st_error(r->diag, ST_EINPUT, wrong->loc,
				"%s: a device of kind %s has '%s'", wrong->key,
				cuda ? "cuda" : "cpu", cuda ? "sms" : "cores");
	for (int i = 0; i < ST_DTYPE_COUNT; i++)
		rated |= rates[i] > 0;
	if (!rated)
		return st_error(r->diag, ST_EINPUT,
				st_yaml_find(device, "matmul")->loc,
				"matmul: want a rate of at least one dtype, "
				"such as 'f32_tflops'");
	return ST_OK;
}

static enum st_status
take(struct st_arena *arena, struct st_diag *diag, uint32_t source,
     const struct st_yaml *root, struct st_machine *machine)
{
	static const char *const required[] = {
		"machine",
		"device.kind",
		"device.memory_bytes",
		"device.matmul",
		"device.memory.gb_per_s",
		"tiers",
	};
	struct reader r = {arena, diag, machine, root, {source, 1, 1, 0, 0}};

	memset(machine, 0, sizeof(*machine));
	if (!root || root->kind != ST_YAML_MAP)
		return st_error(diag, ST_EINPUT, root ? root->loc : r.root_loc,
				"want a mapping of keys to values");
	ST_TRY(read_map(&r, of_machine, "", root, machine));
	for (size_t i = 0; i < sizeof(required) / sizeof(required[0]); i++)
		ST_TRY(require(&r, required[i]));
	ST_TRY(check_device(&r));
	return arena->failed ? st_error_memory(diag) : ST_OK;
}

enum st_status
st_machine_parse(struct st_arena *arena, struct st_diag *diag, uint32_t source,
		 struct st_machine *machine)
{
	struct st_yaml *root;

	ST_TRY(st_yaml_parse(arena, diag, source, 0, &root));
	return take(arena, diag, source, root, machine);
}

/* ---- finding the file ---- */

static int
ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), want = strlen(end);

	return length > want && strcmp(text + length - want, end) == 0;
}

/* The name of a machine that is nearest to the word, over all folders. */
static const char *
nearest(struct st_arena *arena, const char *word, const char *const *search)
{
	const char *best = NULL;

	for (; search && *search; search++)
		best = st_net_nearest(
			arena, word,
			st_net_beside(arena, *search, "machines"), best);
	return best;
}

static const char *
find_file(struct st_arena *arena, const char *name, const char *const *search)
{
	for (; search && *search; search++) {
		const char *folder = st_net_beside(arena, *search, "machines");
		const char *path = st_arena_printf(arena, "%s/%s.yaml",
						   folder ? folder : "", name);

		if (path && access(path, R_OK) == 0)
			return path;
	}
	return NULL;
}

enum st_status
st_machine_load(struct st_arena *arena, struct st_diag *diag,
		const char *name_or_path, const char *const *search,
		struct st_machine *machine)
{
	const char *path = name_or_path, *near;
	struct st_yaml *root;

	if (!strchr(path, '/') && !ends_with(path, ".yaml") &&
	    !ends_with(path, ".yml")) {
		path = find_file(arena, name_or_path, search);
		near = path ? NULL : nearest(arena, name_or_path, search);
		if (!path && arena->failed)
			return st_error_memory(diag);
		if (!path)
			return st_error(
				diag, ST_EINPUT, st_no_loc(),
				"no machine '%s': there is no %s.yaml in "
				"'machines' beside the directories searched"
				"%s%s%s",
				name_or_path, name_or_path,
				near ? "; did you mean '" : "",
				near ? near : "", near ? "'?" : "");
	}
	ST_TRY(st_yaml_read(arena, diag, path, st_no_loc(), &root));
	return take(arena, diag, (uint32_t)diag->source_count - 1, root,
		    machine);
}

/* ---- printing ---- */

struct printer {
	struct st_buffer *out;
	int indent;
	int dash; /* the next line begins an element of a list */
};

static void
start_line(struct printer *p, int depth)
{
	int indent = p->indent + 2 * depth;

	if (p->dash)
		st_buffer_printf(p->out, "%*s- ", indent - 2, "");
	else
		st_buffer_printf(p->out, "%*s", indent, "");
	p->dash = 0;
}

/* Opens the mappings of a path that the line before did not open; returns
 * the last word of it. */
static const char *
open_groups(struct printer *p, const char *before, const char *path)
{
	int depth = 0, shared = 1;

	for (;; depth++) {
		size_t length = strcspn(path, ".");

		if (path[length] == '\0')
			break;
		shared = shared && strncmp(before, path, length + 1) == 0;
		if (shared) {
			before += length + 1;
		} else {
			start_line(p, depth);
			st_buffer_printf(p->out, "%.*s:\n", (int)length, path);
		}
		path += length + 1;
	}
	start_line(p, depth);
	return path;
}

/* A whole number without ".0": what it prints as is what was written. */
static void
print_number(struct st_buffer *out, double value)
{
	if (value <= 1e9 && value == (double)(int64_t)value)
		st_buffer_printf(out, "%lld", (long long)value);
	else
		st_buffer_double(out, value);
}

static int
is_known(const struct field *field, const char *base)
{
	const void *value = base + field->at;

	switch (field->kind) {
	case DEVICE: return 1;
	case TEXT: return *(const char *const *)value != NULL;
	case COUNT:
	case RANKS: return *(const int64_t *)value != 0;
	default: return *(const double *)value != 0;
	}
}

static void
print_value(struct st_buffer *out, const struct field *field, const char *base)
{
	const void *value = base + field->at;

	switch (field->kind) {
	case DEVICE:
		st_buffer_puts(out, *(const int *)value ? "cuda" : "cpu");
		break;
	case TEXT:
		st_yaml_print_string(out, *(const char *const *)value);
		break;
	case COUNT:
	case RANKS:
		st_buffer_printf(out, "%lld",
				 (long long)*(const int64_t *)value);
		break;
	default: print_number(out, *(const double *)value); break;
	}
	st_buffer_puts(out, "\n");
}

/* `skip` is a path that is not printed. */
static void
print_fields(struct printer *p, const struct field *fields, const void *base,
	     const char *skip)
{
	const char *before = "";

	for (const struct field *field = fields; field->path; field++) {
		if (!is_known(field, base) || strcmp(field->path, skip) == 0)
			continue;
		st_buffer_printf(p->out,
				 "%s: ", open_groups(p, before, field->path));
		print_value(p->out, field, base);
		before = field->path;
	}
}

static void
print_ops(const struct st_machine *machine, struct st_buffer *out)
{
	int any = 0;

	for (int op = 0; op < ST_OP_COUNT; op++) {
		struct op_rates rates = {machine->op_gb_per_s[op],
					 machine->op_start_us[op]};
		struct printer p = {out, 4, 0};

		if (rates.gb_per_s == 0 && rates.start_us == 0)
			continue;
		st_buffer_printf(out, "%s  %s:\n", any ? "" : "ops:\n",
				 st_ops[op].name);
		print_fields(&p, of_op, &rates, "");
		any = 1;
	}
}

/* Forms of one op stand together, in the order in which they were read. */
static void
print_collectives(const struct st_machine *machine, struct st_buffer *out)
{
	const struct st_machine_form *forms = machine->forms;

	for (int i = 0; i < machine->form_count; i++) {
		int first = 0;

		while (forms[first].op != forms[i].op)
			first++;
		if (first < i)
			continue;
		st_buffer_printf(out, "%s  %s:\n", i ? "" : "collectives:\n",
				 st_ops[forms[i].op].name);
		for (int j = i; j < machine->form_count; j++) {
			struct printer p = {out, 6, 1};

			if (forms[j].op == forms[i].op)
				print_fields(&p, of_form, &forms[j], "");
		}
	}
}

void
st_machine_print(const struct st_machine *machine, struct st_buffer *out)
{
	struct printer p = {out, 0, 0};

	print_fields(&p, of_machine, machine,
		     machine->is_cuda ? "device.cores" : "device.sms");
	print_ops(machine, out);
	st_buffer_puts(out, "tiers:\n");
	for (int i = 0; i < machine->tier_count; i++) {
		struct printer tier = {out, 4, 1};

		print_fields(&tier, of_tier, &machine->tiers[i], "");
	}
	print_collectives(machine, out);
}
