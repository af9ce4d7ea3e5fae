/* Reads IR text: recursive descent, one token ahead. */

#include "ir/ir.h"
#include "ir/lex.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ENTRIES = 256 };

struct parser {
	struct st_lexer lexer;
	struct st_token token;
	struct st_module *module;
	struct st_arena *arena;
	struct st_diag *diag;
	struct st_names *names;
};

static void
next(struct parser *p)
{
	p->token = st_lex(&p->lexer);
}

static enum st_status
expected(struct parser *p, const char *what)
{
	const struct st_token *t = &p->token;

	if (t->kind == ST_TOKEN_BAD)
		return st_error(p->diag, ST_EINPUT, t->loc, "%s", t->fault);
	if (t->kind == ST_TOKEN_END)
		return st_error(p->diag, ST_EINPUT, t->loc,
				"expected %s, the text ends here", what);
	return st_error(p->diag, ST_EINPUT, t->loc,
			"expected %s before '%.*s'", what,
			(int)(t->length > 40 ? 40 : t->length), t->text);
}

/* "no op is named 'x'; did you mean 'y'?" over a table of names. */
static enum st_status
unknown(struct parser *p, const char *kind, const char *(*name)(int),
	int count)
{
	const char *list[128] = {NULL}, *near;
	char word[64] = "";

	for (int i = 0; i < count && i < 127; i++)
		list[i] = name(i);
	if (p->token.length < sizeof(word))
		memcpy(word, p->token.text, p->token.length);
	near = st_nearest(word, list);
	return st_error(p->diag, ST_EINPUT, p->token.loc,
			"no %s is named '%.*s'%s%s%s", kind,
			(int)(p->token.length > 40 ? 40 : p->token.length),
			p->token.text, near ? "; did you mean '" : "",
			near ? near : "", near ? "'?" : "");
}

static const char *
op_name(int op)
{
	return st_ops[op].name;
}

static const char *
option_name(int option)
{
	return st_option_name((enum st_option)option);
}

static int
at_punct(const struct parser *p, char c)
{
	return p->token.kind == ST_TOKEN_PUNCT && p->token.punct == c;
}

static int
at_word(const struct parser *p, const char *word)
{
	return p->token.kind == ST_TOKEN_WORD &&
	       strlen(word) == p->token.length &&
	       memcmp(word, p->token.text, p->token.length) == 0;
}

static int
accept(struct parser *p, char c)
{
	if (!at_punct(p, c))
		return 0;
	next(p);
	return 1;
}

static enum st_status
expect(struct parser *p, char c, const char *what)
{
	return accept(p, c) ? ST_OK : expected(p, what);
}

static uint32_t
intern(struct parser *p)
{
	return st_names_add(p->names, p->token.text, p->token.length);
}

static enum st_status
take_int(struct parser *p, int64_t *value)
{
	char text[24], *end;

	if (p->token.kind != ST_TOKEN_NUMBER ||
	    p->token.length >= sizeof(text))
		return expected(p, "an integer");
	memcpy(text, p->token.text, p->token.length);
	text[p->token.length] = '\0';
	errno = 0;
	*value = strtoll(text, &end, 10);
	if (*end || errno)
		return expected(p, "an integer");
	next(p);
	return ST_OK;
}

static enum st_status
take_float(struct parser *p, double *value)
{
	char text[48], *end;
	int special = at_word(p, "inf") || at_word(p, "nan");

	if ((p->token.kind != ST_TOKEN_NUMBER && !special) ||
	    p->token.length >= sizeof(text))
		return expected(p, "a number");
	memcpy(text, p->token.text, p->token.length);
	text[p->token.length] = '\0';
	*value = strtod(text, &end);
	if (*end)
		return expected(p, "a number");
	next(p);
	return ST_OK;
}

/* Undoes the escapes of a string. */
static enum st_status
take_string(struct parser *p, uint32_t *name)
{
	char *copy;
	size_t length = 0;

	if (p->token.kind != ST_TOKEN_STRING)
		return expected(p, "a string");
	copy = st_arena_alloc(p->arena, p->token.length + 1);
	if (!copy)
		return st_error_memory(p->diag);
	for (size_t i = 0; i < p->token.length; i++) {
		unsigned char c = (unsigned char)p->token.text[i];

		if (c == '\\' && i + 1 < p->token.length)
			c = (unsigned char)p->token.text[++i];
		if (c < ' ' || c > '~')
			return st_error(p->diag, ST_EINPUT, p->token.loc,
					"a string holds printable ASCII only");
		copy[length++] = (char)c;
	}
	*name = st_names_add(p->names, copy, length);
	next(p);
	return ST_OK;
}

static enum st_status
take_axis(struct parser *p, int *axis)
{
	if (p->token.kind != ST_TOKEN_WORD)
		return expected(p, "a mesh axis");
	for (uint32_t i = 0; i < p->module->mesh.count; i++) {
		const char *name = st_names_text(p->names,
						 p->module->mesh.name[i]);

		if (at_word(p, name)) {
			*axis = (int)i;
			next(p);
			return ST_OK;
		}
	}
	return st_error(p->diag, ST_EINPUT, p->token.loc,
			"the mesh has no axis '%.*s'", (int)p->token.length,
			p->token.text);
}

/* One more axis of a set.  The first is the major one, so a text that names
 * them otherwise than the mesh does would not mean what it says. */
static enum st_status
add_axis(struct parser *p, uint8_t *axes)
{
	struct st_loc loc = p->token.loc;
	int axis = 0;

	ST_TRY(take_axis(p, &axis));
	if (*axes >> axis)
		return st_error(p->diag, ST_EINPUT, loc,
				"axes stand in the order of the mesh, each "
				"once");
	*axes |= (uint8_t)(1u << axis);
	return ST_OK;
}

static enum st_status
take_axes(struct parser *p, uint8_t *axes)
{
	ST_TRY(expect(p, '(', "'('"));
	do {
		ST_TRY(add_axis(p, axes));
	} while (accept(p, ','));
	return expect(p, ')', "')'");
}

/* 50257+47/tp */
static enum st_status
take_factor(struct parser *p, struct st_type *type, int join)
{
	struct st_loc loc = p->token.loc;
	struct st_factor *factor;
	int64_t size, pad = 0;

	ST_TRY(take_int(p, &size));
	if (join ? st_type_join_factor(type, size)
		 : st_type_add_extent(type, size))
		return st_error(p->diag, ST_EINPUT, loc,
				"a type has at most %d factors",
				ST_MAX_FACTORS);
	factor = &type->f[type->factors - 1];
	if (accept(p, '+')) {
		ST_TRY(take_int(p, &pad));
		if (pad < 1 || pad > INT32_MAX)
			return st_error(p->diag, ST_EINPUT, loc,
					"padding must be at least 1");
		factor->pad = (int32_t)pad;
	}
	while (accept(p, '/'))
		ST_TRY(add_axis(p, &factor->axes));
	return ST_OK;
}

static enum st_status
take_partial(struct parser *p, struct st_type *type)
{
	ST_TRY(expect(p, '<', "'<'"));
	if (at_word(p, "max"))
		type->reduction = ST_MAX;
	else if (!at_word(p, "sum"))
		return expected(p, "sum or max");
	next(p);
	ST_TRY(expect(p, '>', "'>'"));
	return take_axes(p, &type->partial);
}

static enum st_status
take_type(struct parser *p, struct st_type *type)
{
	struct st_loc loc = p->token.loc;
	const char *fault;
	int dtype, join = 0;

	*type = st_type_scalar(ST_F32);
	if (at_word(p, "async")) {
		type->is_async = 1;
		next(p);
	}
	dtype = p->token.kind == ST_TOKEN_WORD
			? st_dtype_find(p->token.text, p->token.length)
			: -1;
	if (dtype < 0)
		return expected(p, "a type");
	type->dtype = (uint8_t)dtype;
	next(p);
	ST_TRY(expect(p, '[', "'['"));
	while (!at_punct(p, ']')) {
		if (type->factors) {
			join = accept(p, '*');
			if (!join)
				ST_TRY(expect(p, ',', "',', '*' or ']'"));
		}
		ST_TRY(take_factor(p, type, join));
	}
	next(p);
	if (at_word(p, "flat")) {
		next(p);
		ST_TRY(take_axes(p, &type->flat));
	}
	if (at_word(p, "partial")) {
		next(p);
		ST_TRY(take_partial(p, type));
	}
	fault = st_type_fault(type, &p->module->mesh);
	if (fault)
		return st_error(p->diag, ST_EINPUT, loc, "%s", fault);
	return ST_OK;
}

/* An optional "@offset" after a type. */
static enum st_status
take_place(struct parser *p, int64_t *place)
{
	struct st_loc loc;

	*place = -1;
	if (!at_punct(p, '@'))
		return ST_OK;
	next(p);
	loc = p->token.loc;
	ST_TRY(take_int(p, place));
	if (*place < 0)
		return st_error(p->diag, ST_EINPUT, loc,
				"an offset is not negative");
	return ST_OK;
}

static enum st_status
put_place(struct parser *p, uint32_t value, int64_t place)
{
	struct st_module *m = p->module;

	if (place < 0)
		return ST_OK;
	m->placements.at = st_arena_grow(
		p->arena, m->placements.at, m->placements.count,
		&m->placements.capacity, m->placements.count + 1,
		sizeof(*m->placements.at));
	if (!m->placements.at)
		return st_error_memory(p->diag);
	m->values.at[value].arena_at = (uint32_t)m->placements.count;
	m->placements.at[m->placements.count++] = place;
	return ST_OK;
}

static enum st_status
take_attr_value(struct parser *p, struct st_attr *attr)
{
	uint8_t axes = 0;

	switch (st_key_kind(attr->key)) {
	case ST_ATTR_INT: return take_int(p, &attr->i);
	case ST_ATTR_FLOAT: return take_float(p, &attr->f);
	case ST_ATTR_STRING: return take_string(p, &attr->s);
	case ST_ATTR_AXES: break;
	}
	do {
		ST_TRY(add_axis(p, &axes));
	} while (accept(p, '+'));
	attr->i = axes;
	return ST_OK;
}

/* What one node line holds before it becomes a node. */
struct line {
	struct st_new_node node;
	uint32_t names[ST_MAX_RESULTS];
	struct st_loc name_locs[ST_MAX_RESULTS];
	int name_count;
	struct st_type types[ST_MAX_RESULTS];
	int64_t places[ST_MAX_RESULTS];
	uint32_t operands[ST_MAX_OPERANDS];
	struct st_attr attrs[ST_KEY_COUNT];
};

static enum st_status
take_operand(struct parser *p, struct line *line)
{
	uint32_t value = st_module_lookup(p->module, intern(p));

	if (value == ST_NONE)
		return st_error(p->diag, ST_EINPUT, p->token.loc,
				"'%%%.*s' is not defined before this line",
				(int)p->token.length, p->token.text);
	if (line->node.operand_count == ST_MAX_OPERANDS)
		return st_error(p->diag, ST_EINPUT, p->token.loc,
				"more than %d operands", ST_MAX_OPERANDS);
	line->operands[line->node.operand_count++] = value;
	next(p);
	return ST_OK;
}

static enum st_status
take_attr(struct parser *p, struct line *line)
{
	struct st_attr *attr = &line->attrs[line->node.attr_count];
	int found = st_key_find(p->token.text, p->token.length);
	enum st_key key = (enum st_key)found;

	if (found < 0 || st_op_key_place(line->node.op, key) < 0)
		return st_error(p->diag, ST_EINPUT, p->token.loc,
				"%s has no attribute '%.*s'",
				st_ops[line->node.op].name,
				(int)p->token.length, p->token.text);
	for (size_t i = 0; i < line->node.attr_count; i++)
		if (line->attrs[i].key == key)
			return st_error(p->diag, ST_EINPUT, p->token.loc,
					"'%s' is given twice",
					st_key_name(key));
	attr->key = (uint16_t)key;
	next(p);
	ST_TRY(expect(p, '=', "'='"));
	ST_TRY(take_attr_value(p, attr));
	line->node.attr_count++;
	return ST_OK;
}

static enum st_status
take_arguments(struct parser *p, struct line *line)
{
	while (!at_punct(p, ':')) {
		if (p->token.kind == ST_TOKEN_VALUE) {
			if (line->node.attr_count)
				return expected(p, "an attribute");
			ST_TRY(take_operand(p, line));
		} else if (p->token.kind == ST_TOKEN_WORD) {
			ST_TRY(take_attr(p, line));
		} else {
			return expected(p, "an operand, an attribute or ':'");
		}
		if (!accept(p, ','))
			break;
		if (at_punct(p, ':'))
			return expected(p, "an operand or an attribute");
	}
	return expect(p, ':', "':'");
}

static enum st_status
take_region(struct parser *p, enum st_region *region)
{
	*region = ST_FORWARD;
	if (!accept(p, '!'))
		return ST_OK;
	for (enum st_region r = ST_BACKWARD; r <= ST_OPTIMIZER; r++)
		if (at_word(p, st_region_name(r))) {
			*region = r;
			next(p);
			return ST_OK;
		}
	return expected(p, "backward or optimizer");
}

static enum st_status
take_on(struct parser *p, uint32_t *on)
{
	if (!at_word(p, "on"))
		return ST_OK;
	next(p);
	if (p->token.kind != ST_TOKEN_WORD)
		return expected(p, "a communicator");
	*on = st_module_find_communicator(p->module, intern(p));
	if (*on == 0)
		return st_error(p->diag, ST_EINPUT, p->token.loc,
				"no communicator is named '%.*s'",
				(int)p->token.length, p->token.text);
	next(p);
	return ST_OK;
}

static enum st_status
take_names(struct parser *p, struct line *line)
{
	do {
		if (p->token.kind != ST_TOKEN_VALUE)
			return expected(p, "a value");
		if (line->name_count == ST_MAX_RESULTS)
			return st_error(p->diag, ST_EINPUT, p->token.loc,
					"more than %d results",
					ST_MAX_RESULTS);
		line->name_locs[line->name_count] = p->token.loc;
		line->names[line->name_count++] = intern(p);
		next(p);
	} while (accept(p, ','));
	return expect(p, '=', "'='");
}

static enum st_status
check_names(struct parser *p, const struct line *line)
{
	for (int i = 0; i < line->name_count; i++) {
		int twice = !st_module_name_is_free(p->module,
						    line->names[i]);

		for (int j = 0; j < i; j++)
			twice |= line->names[j] == line->names[i];
		if (twice)
			return st_error(p->diag, ST_EINPUT,
					line->name_locs[i],
					"'%%%s' is defined twice",
					st_names_text(p->names,
						      line->names[i]));
	}
	return ST_OK;
}

static enum st_status
take_op(struct parser *p, struct line *line)
{
	static const char suffix[] = ".start";
	size_t tail = sizeof(suffix) - 1, length = p->token.length;
	enum st_op op;
	int found;

	if (p->token.kind != ST_TOKEN_WORD)
		return expected(p, "the name of an op");
	line->node.start = length > tail &&
			   memcmp(p->token.text + length - tail, suffix,
				  tail) == 0;
	found = st_op_find(p->token.text,
			   line->node.start ? length - tail : length);
	op = (enum st_op)found;
	if (found < 0)
		return unknown(p, "op", op_name, ST_OP_COUNT);
	line->node.op = op;
	line->node.loc = st_module_loc(p->module, p->token.loc);
	if (line->name_count != st_op_results(op))
		return st_error(p->diag, ST_EINPUT, p->token.loc,
				"%s has %d result%s, %d named",
				st_ops[op].name, st_op_results(op),
				st_op_results(op) == 1 ? "" : "s",
				line->name_count);
	next(p);
	return ST_OK;
}

static enum st_status
take_node(struct parser *p)
{
	struct line line;
	uint32_t node, first;

	memset(&line, 0, sizeof(line));
	ST_TRY(take_names(p, &line));
	ST_TRY(take_op(p, &line));
	ST_TRY(take_arguments(p, &line));
	for (int i = 0; i < line.name_count; i++) {
		if (i)
			ST_TRY(expect(p, ',', "',' and the next type"));
		ST_TRY(take_type(p, &line.types[i]));
		ST_TRY(take_place(p, &line.places[i]));
	}
	ST_TRY(take_region(p, &line.node.region));
	ST_TRY(take_on(p, &line.node.on));
	ST_TRY(check_names(p, &line));
	line.node.operands = line.operands;
	line.node.attrs = line.attrs;
	line.node.types = line.types;
	line.node.names = line.names;
	node = st_module_add_node(p->module, &line.node);
	if (node == ST_NONE)
		return st_error_memory(p->diag);
	first = p->module->nodes.at[node].first_result;
	for (int i = 0; i < line.name_count; i++)
		ST_TRY(put_place(p, first + (uint32_t)i, line.places[i]));
	return ST_OK;
}

static enum st_status
take_ret(struct parser *p)
{
	struct st_loc loc;
	uint32_t value, target, state;

	next(p);
	if (p->token.kind != ST_TOKEN_VALUE)
		return expected(p, "a value");
	value = st_module_lookup(p->module, intern(p));
	if (value == ST_NONE)
		return st_error(p->diag, ST_EINPUT, p->token.loc,
				"'%%%.*s' is not defined before this line",
				(int)p->token.length, p->token.text);
	next(p);
	if (at_word(p, "as")) {
		next(p);
		if (p->token.kind != ST_TOKEN_WORD)
			return expected(p, "a name");
		st_module_add_output(p->module, value, intern(p), ST_NONE);
		next(p);
		return ST_OK;
	}
	ST_TRY(expect(p, '>', "'->' or 'as'"));
	loc = p->token.loc;
	if (p->token.kind != ST_TOKEN_VALUE)
		return expected(p, "a state");
	target = st_module_lookup(p->module, intern(p));
	state = target == ST_NONE ? ST_NONE
				  : st_module_find_state(p->module, target);
	if (state == ST_NONE)
		return st_error(p->diag, ST_EINPUT, loc,
				"'%%%.*s' is not a state",
				(int)p->token.length, p->token.text);
	st_module_add_output(p->module, value, 0, state);
	next(p);
	return ST_OK;
}

static enum st_status
take_input(struct parser *p)
{
	struct st_loc loc = p->token.loc;
	struct st_type type;
	uint32_t name, value;
	int64_t place;

	if (p->token.kind != ST_TOKEN_VALUE)
		return expected(p, "an input");
	name = intern(p);
	next(p);
	ST_TRY(expect(p, ':', "':'"));
	ST_TRY(take_type(p, &type));
	ST_TRY(take_place(p, &place));
	if (!st_module_name_is_free(p->module, name))
		return st_error(p->diag, ST_EINPUT, loc,
				"'%%%s' is defined twice",
				st_names_text(p->names, name));
	value = st_module_add_input(p->module, name, &type);
	if (value == ST_NONE)
		return st_error_memory(p->diag);
	return put_place(p, value, place);
}

static enum st_status
take_entry(struct parser *p)
{
	next(p);
	if (p->token.kind != ST_TOKEN_ENTRY)
		return expected(p, "'@' and the entry's name");
	if (p->module->entries.count == MOST_ENTRIES)
		return st_error(p->diag, ST_EINPUT, p->token.loc,
				"more than %d entries", MOST_ENTRIES);
	for (size_t i = 0; i < p->module->entries.count; i++)
		if (p->module->entries.at[i].name == intern(p))
			return st_error(p->diag, ST_EINPUT, p->token.loc,
					"'@%.*s' is defined twice",
					(int)p->token.length, p->token.text);
	st_module_begin_entry(p->module, intern(p),
			      st_module_loc(p->module, p->token.loc));
	next(p);
	ST_TRY(expect(p, '(', "'('"));
	while (!at_punct(p, ')')) {
		ST_TRY(take_input(p));
		if (!accept(p, ','))
			break;
	}
	ST_TRY(expect(p, ')', "',' or ')'"));
	ST_TRY(expect(p, '{', "'{'"));
	while (p->token.kind == ST_TOKEN_VALUE)
		ST_TRY(take_node(p));
	while (at_word(p, "ret"))
		ST_TRY(take_ret(p));
	ST_TRY(expect(p, '}', "a node, 'ret' or '}'"));
	st_module_end_entry(p->module);
	return ST_OK;
}

static enum st_status
take_state(struct parser *p)
{
	struct st_loc loc;
	struct st_type type;
	uint32_t name, value;
	int64_t place;
	enum st_role role = 0;

	next(p);
	while (role < ST_ROLE_COUNT && !at_word(p, st_role_name(role)))
		role++;
	if (role == ST_ROLE_COUNT)
		return expected(p, "the role of a state");
	next(p);
	loc = p->token.loc;
	if (p->token.kind != ST_TOKEN_VALUE)
		return expected(p, "a value");
	name = intern(p);
	next(p);
	ST_TRY(expect(p, ':', "':'"));
	ST_TRY(take_type(p, &type));
	ST_TRY(take_place(p, &place));
	if (!st_module_name_is_free(p->module, name))
		return st_error(p->diag, ST_EINPUT, loc,
				"'%%%s' is defined twice",
				st_names_text(p->names, name));
	value = st_module_add_state(p->module, name, &type, role,
				    st_module_loc(p->module, loc));
	if (value == ST_NONE)
		return st_error_memory(p->diag);
	return put_place(p, value, place);
}

static enum st_status
take_option(struct parser *p)
{
	struct st_option_value *value;
	enum st_option option;
	uint32_t text;
	int found;

	next(p);
	found = p->token.kind == ST_TOKEN_WORD
			? st_option_find(p->token.text, p->token.length)
			: -1;
	option = (enum st_option)found;
	if (found < 0)
		return p->token.kind == ST_TOKEN_WORD
			       ? unknown(p, "option", option_name,
					 ST_OPTION_COUNT)
			       : expected(p, "the name of an option");
	if (p->module->options_set >> option & 1)
		return st_error(p->diag, ST_EINPUT, p->token.loc,
				"option '%s' is given twice",
				st_option_name(option));
	next(p);
	ST_TRY(expect(p, '=', "'='"));
	value = &p->module->options[option];
	p->module->options_set |= (uint64_t)1 << option;
	switch (st_option_kind(option)) {
	case ST_ATTR_FLOAT: return take_float(p, &value->f);
	case ST_ATTR_STRING:
		ST_TRY(take_string(p, &text));
		value->s = st_names_text(p->names, text);
		return ST_OK;
	default: return take_int(p, &value->i);
	}
}

static enum st_status
take_mesh(struct parser *p)
{
	struct st_mesh *mesh = &p->module->mesh;

	if (mesh->count)
		return expected(p, "one mesh line only");
	next(p);
	do {
		struct st_loc loc = p->token.loc;

		if (p->token.kind != ST_TOKEN_WORD)
			return expected(p, "a mesh axis");
		if (mesh->count == ST_MAX_AXES)
			return st_error(p->diag, ST_EINPUT, loc,
					"a mesh has at most %d axes",
					ST_MAX_AXES);
		for (uint32_t i = 0; i < mesh->count; i++)
			if (mesh->name[i] == intern(p))
				return st_error(p->diag, ST_EINPUT, loc,
						"the axis is named twice");
		mesh->name[mesh->count] = intern(p);
		next(p);
		ST_TRY(expect(p, '=', "'='"));
		loc = p->token.loc;
		ST_TRY(take_int(p, &mesh->size[mesh->count]));
		if (mesh->size[mesh->count] < 1 ||
		    mesh->size[mesh->count] > 1 << 20)
			return st_error(p->diag, ST_EINPUT, loc,
					"an axis has 1 to %d ranks", 1 << 20);
		mesh->count++;
		if (st_mesh_ranks(mesh) > 1 << 24)
			return st_error(p->diag, ST_EINPUT, loc,
					"a mesh has at most %d ranks",
					1 << 24);
	} while (accept(p, ','));
	return ST_OK;
}

static enum st_status
take_header(struct parser *p)
{
	int64_t version;

	/* '-' is no part of a word, so the first line is looked at whole. */
	static const char magic[] = "stretto-ir ";
	const char *text = p->lexer.at;
	size_t length = (size_t)(p->lexer.end - text);

	if (length < sizeof(magic) ||
	    memcmp(text, magic, sizeof(magic) - 1) != 0)
		return st_error(p->diag, ST_EINPUT, p->token.loc,
				"not IR text: the first line must be "
				"\"stretto-ir 1\"");
	p->lexer.at += sizeof(magic) - 1;
	next(p);
	if (p->token.kind != ST_TOKEN_NUMBER || p->token.length != 1 ||
	    p->token.text[0] != '1')
		return st_error(p->diag, ST_EINPUT, p->token.loc,
				"this version of the IR text is not known, "
				"want 1");
	ST_TRY(take_int(p, &version));
	if (!at_word(p, "form"))
		return expected(p, "'form'");
	next(p);
	if (at_word(p, "ranked"))
		p->module->form = ST_RANKED;
	else if (!at_word(p, "logical"))
		return expected(p, "logical or ranked");
	next(p);
	return ST_OK;
}

static enum st_status
take_arena(struct parser *p)
{
	struct st_loc loc;

	if (p->module->arena_bytes)
		return expected(p, "one arena line only");
	next(p);
	loc = p->token.loc;
	ST_TRY(take_int(p, &p->module->arena_bytes));
	if (p->module->arena_bytes < 1)
		return st_error(p->diag, ST_EINPUT, loc,
				"an arena has at least 1 byte");
	return ST_OK;
}

static enum st_status
take_communicator(struct parser *p)
{
	struct st_loc loc;
	uint32_t name;
	uint8_t axes = 0;

	next(p);
	loc = p->token.loc;
	if (p->token.kind != ST_TOKEN_WORD)
		return expected(p, "the name of a communicator");
	name = intern(p);
	if (st_module_find_communicator(p->module, name))
		return st_error(p->diag, ST_EINPUT, loc,
				"communicator '%.*s' is declared twice",
				(int)p->token.length, p->token.text);
	next(p);
	ST_TRY(expect(p, '=', "'='"));
	do {
		ST_TRY(add_axis(p, &axes));
	} while (accept(p, '+'));
	st_module_add_communicator(p->module, name, axes,
				   st_module_loc(p->module, loc));
	return ST_OK;
}

static enum st_status
take_module(struct parser *p)
{
	p->token.loc = (struct st_loc){p->lexer.source, p->lexer.line, 1, 1,
				       0};
	ST_TRY(take_header(p));
	while (!at_word(p, "state") && !at_word(p, "entry") &&
	       p->token.kind != ST_TOKEN_END) {
		if (at_word(p, "mesh"))
			ST_TRY(take_mesh(p));
		else if (at_word(p, "option"))
			ST_TRY(take_option(p));
		else if (at_word(p, "arena"))
			ST_TRY(take_arena(p));
		else if (at_word(p, "communicator"))
			ST_TRY(take_communicator(p));
		else
			return expected(p, "mesh, option, state or entry");
	}
	while (at_word(p, "state"))
		ST_TRY(take_state(p));
	while (at_word(p, "entry"))
		ST_TRY(take_entry(p));
	if (p->token.kind != ST_TOKEN_END)
		return expected(p, "'entry'");
	if (p->arena->failed)
		return st_error_memory(p->diag);
	return ST_OK;
}

enum st_status
st_parse(struct st_arena *arena, struct st_diag *diag, struct st_names *names,
	 uint32_t source, struct st_module **module)
{
	enum st_status status;
	struct parser p;

	memset(&p, 0, sizeof(p));
	p.arena = arena;
	p.diag = diag;
	p.names = names;
	p.module = st_module_create(arena, diag, names);
	if (!p.module || !diag->sources[source].text)
		return st_error_memory(diag);
	st_lexer_init(&p.lexer, diag, source);
	status = take_module(&p);
	/* Without memory names are lost, and what was reported is not so. */
	if (arena->failed)
		return st_error_memory(diag);
	*module = p.module;
	return status;
}
