/* Factor mappings: reading a rule, binding sizes, inferring types. */

#include "ir/rule.h"

#include <ctype.h>
#include <string.h>

/* A letter owns a run of slots, one for each of its factors. */
struct letter {
	uint8_t first, count, joined, bound;
};

struct binder {
	const struct st_module *module;
	const struct st_node_view *node;
	struct st_mapping *mapping;
	struct letter letters[128];
};

const char *
st_view_string(const struct st_module *module,
	       const struct st_node_view *node, enum st_key key)
{
	for (size_t i = 0; i < node->attr_count; i++)
		if (node->attrs[i].key == key)
			return st_names_text(module->names, node->attrs[i].s);
	return "";
}

int64_t
st_view_int(const struct st_node_view *node, enum st_key key)
{
	for (size_t i = 0; i < node->attr_count; i++)
		if (node->attrs[i].key == key)
			return node->attrs[i].i;
	return 0;
}

double
st_view_float(const struct st_node_view *node, enum st_key key)
{
	for (size_t i = 0; i < node->attr_count; i++)
		if (node->attrs[i].key == key)
			return node->attrs[i].f;
	return 0.0;
}

static enum st_status
fail(const struct binder *b, const char *what)
{
	return st_error(b->module->diag, ST_EINPUT, b->node->loc, "%s: %s",
			st_ops[b->node->op].name, what);
}

static enum st_status
fail_size(const struct binder *b, const char *role, int index, char letter,
	  int64_t got, int64_t want)
{
	return st_error(b->module->diag, ST_EINPUT, b->node->loc,
			"%s: %s %d: extent '%c' is %lld, want %lld",
			st_ops[b->node->op].name, role, index + 1, letter,
			(long long)got, (long long)want);
}

/* Binds one letter to factors [first, end) of a type. */
static enum st_status
bind(struct binder *b, char c, const struct st_type *type, int first, int end,
     uint8_t *slots, const char *role, int index)
{
	struct letter *letter = &b->letters[(unsigned char)c];
	struct st_mapping *m = b->mapping;
	int count = end - first;

	if (!letter->bound) {
		if (m->slots + count > ST_MAX_SLOTS)
			return fail(b, "too many factors");
		letter->bound = 1;
		letter->first = (uint8_t)m->slots;
		letter->count = (uint8_t)count;
		for (int i = 0; i < count; i++) {
			struct st_slot *slot = &m->slot[m->slots++];

			slot->size = type->f[first + i].size;
			slot->fixed = isupper((unsigned char)c) != 0;
			slot->bound = role[0] == 'o';
		}
	}
	if (letter->count != count)
		return st_error(b->module->diag, ST_EINPUT, b->node->loc,
				"%s: %s %d: extent '%c' has %d factors, "
				"want %d",
				st_ops[b->node->op].name, role, index + 1, c,
				count, letter->count);
	for (int i = 0; i < count; i++) {
		int slot = letter->first + i;

		if (m->slot[slot].size != type->f[first + i].size)
			return fail_size(b, role, index, c,
					 type->f[first + i].size,
					 m->slot[slot].size);
		slots[first + i] = (uint8_t)slot;
	}
	return ST_OK;
}

static enum st_status
fail_rank(const struct binder *b, const char *role, int index, int rank,
	  const char *item)
{
	const char *end = item + strcspn(item, ",-");

	return st_error(b->module->diag, ST_EINPUT, b->node->loc,
			"%s: %s %d has %d extent%s, want \"%.*s\"",
			st_ops[b->node->op].name, role, index + 1, rank,
			rank == 1 ? "" : "s", (int)(end - item), item);
}

/* Binds one item of a rule ("tb(kGD)") to a type; returns its end. */
static enum st_status
bind_item(struct binder *b, const char **item, const struct st_type *type,
	  uint8_t *slots, const char *role, int index)
{
	const char *at = *item;
	int extent = 0, rank = st_type_rank(type);

	for (; *at && *at != ',' && *at != '-' && *at != '^'; at++) {
		int first = st_type_first(type, extent);
		int end = st_type_end(type, extent);

		if (extent >= rank)
			return fail_rank(b, role, index, rank, *item);
		if (*at != '(') {
			ST_TRY(bind(b, *at, type, first, end, slots, role,
				    index));
		} else {
			for (at++; *at != ')'; at++, first++) {
				if (first >= end)
					return fail(b, "an extent has too few "
						       "factors");
				ST_TRY(bind(b, *at, type, first, first + 1,
					    slots, role, index));
			}
			if (first != end)
				return fail(b, "an extent has too many "
					       "factors");
		}
		extent++;
	}
	if (extent != rank)
		return fail_rank(b, role, index, rank, *item);
	*item = at;
	return ST_OK;
}

/* "=": every factor its own slot, the same in all whole-tensor items. */
static enum st_status
bind_whole(struct binder *b, const struct st_type *type, uint8_t *slots,
	   const char *role, int index)
{
	struct letter *letter = &b->letters['='];
	int end = type->factors;

	if (letter->bound && letter->joined != type->joined)
		return st_error(b->module->diag, ST_EINPUT, b->node->loc,
				"%s: %s %d has other extents than operand 1",
				st_ops[b->node->op].name, role, index + 1);
	letter->joined = type->joined;
	return bind(b, '=', type, 0, end, slots, role, index);
}

static enum st_status
bind_operands(struct binder *b, const char **rule)
{
	const struct st_node_view *node = b->node;
	const char *at = *rule;
	int i = 0;

	while (*at != '-') {
		const struct st_type *type;

		if (i == (int)node->operand_count)
			return fail(b, "too few operands");
		type = st_value_type(b->module, node->operands[i]);
		if (*at == '=') {
			b->mapping->flat_operands[i] = 1;
			ST_TRY(bind_whole(b, type, b->mapping->operand[i],
					  "operand", i));
			i++;
			at++;
			if (*at == '.') { /* "=...": once more, if any */
				if (i < (int)node->operand_count)
					at--;
				else
					at += 3;
				continue;
			}
		} else if (*at == '.') {
			if (type->factors)
				return fail_rank(b, "operand", i,
						 st_type_rank(type), "scalar");
			i++;
			at++;
		} else {
			ST_TRY(bind_item(b, &at, type, b->mapping->operand[i],
					 "operand", i));
			i++;
		}
		at += *at == ',';
	}
	if (i != (int)node->operand_count)
		return fail(b, "too many operands");
	b->mapping->operands = i;
	*rule = at;
	return ST_OK;
}

/* Appends the factors of a letter to a type, as an extent or joined. */
static int
emit(struct binder *b, char c, struct st_type *type, uint8_t *slots, int join)
{
	struct letter *letter = &b->letters[(unsigned char)c];

	for (int i = 0; i < letter->count; i++) {
		int slot = letter->first + i;
		int64_t size = b->mapping->slot[slot].size;
		int joined = i ? (c == '=' ? letter->joined >> i & 1 : 1)
			       : join;

		if (type->factors == ST_MAX_FACTORS)
			return -1;
		slots[type->factors] = (uint8_t)slot;
		if (joined)
			st_type_join_factor(type, size);
		else
			st_type_add_extent(type, size);
	}
	return 0;
}

/* Every letter of the item is known from the operands. */
static int
is_known(const struct binder *b, const char *item)
{
	for (; *item && *item != ',' && *item != '^'; item++)
		if (*item != '(' && *item != ')' && *item != '.' &&
		    !b->letters[(unsigned char)*item].bound)
			return 0;
	return 1;
}

static enum st_status
emit_item(struct binder *b, const char **item, int index)
{
	struct st_type *type = &b->mapping->result_type[index];
	uint8_t *slots = b->mapping->result[index];
	const char *at = *item;
	int inside = 0, join = 0;

	*type = st_type_scalar(ST_F32);
	for (; *at && *at != ',' && *at != '^'; at++) {
		if (*at == '(' || *at == ')') {
			inside = *at == '(';
			join = 0;
			continue;
		}
		if (*at == '.')
			continue;
		if (*at == '=')
			b->mapping->flat_results |= (uint8_t)(1u << index);
		if (emit(b, *at, type, slots, join))
			return fail(b, "the result has too many factors");
		join = inside;
	}
	*item = at;
	return ST_OK;
}

static enum st_status
bind_results(struct binder *b, const char *at)
{
	int i = 0;

	for (at += 2; *at || i < st_op_results(b->node->op); i++) {
		if (!is_known(b, at)) {
			const char *again = at;

			if (!b->node->stated)
				return fail(b, "the result type must be "
					       "stated");
			ST_TRY(bind_item(b, &again, &b->node->stated[i],
					 b->mapping->result[i], "result", i));
		}
		ST_TRY(emit_item(b, &at, i));
		if (*at == '^') {
			b->mapping->maximum |= (uint8_t)(1u << i);
			at++;
		}
		at += *at == ',';
	}
	b->mapping->results = i;
	return ST_OK;
}

static enum st_status
result_dtype(struct binder *b, int i, uint8_t *dtype)
{
	const struct st_node_view *node = b->node;
	char c = st_ops[node->op].dtypes[i];
	uint8_t first = ST_F32;

	if (node->operand_count)
		first = st_value_type(b->module, node->operands[0])->dtype;
	if (c == '?')
		*dtype = node->stated ? node->stated[i].dtype : first;
	else if (c == 'a')
		*dtype = first == ST_F64 ? ST_F64 : ST_F32;
	else if (c == 'i')
		*dtype = ST_I32;
	else
		*dtype = st_value_type(b->module, node->operands[c - '0'])
				 ->dtype;
	return ST_OK;
}

/* `dims` of a node must be an einsum of single letters. */
static enum st_status
check_dims(struct binder *b, const char *dims)
{
	const char *arrow = strstr(dims, "->");
	size_t operands = 1;

	if (!arrow || strlen(dims) > 64)
		return fail(b, "dims: want a mapping such as "
			       "\"tbk,ok->tbo\"");
	for (const char *at = dims, *item = dims; *at; at++) {
		if (at == arrow) {
			at++;
			item = at + 1;
			continue;
		}
		if (*at == ',')
			item = at + 1;
		else if (memchr(item, *at, (size_t)(at - item)))
			return fail(b, "dims: a letter stands twice in one "
				       "item");
		if (*at == ',' && at < arrow)
			operands++;
		else if (!islower((unsigned char)*at))
			return fail(b, "dims: want lower-case letters");
	}
	if (operands != (b->node->op == ST_OP_reduce_sum ? 1 : 2))
		return fail(b, "dims: wrong number of operands");
	for (const char *at = arrow + 2; *at; at++)
		if (!memchr(dims, *at, (size_t)(arrow - dims)))
			return fail(b, "dims: a letter of the result is in "
				       "no operand");
	return ST_OK;
}

enum st_status
st_mapping_make(const struct st_module *module,
		const struct st_node_view *node, struct st_mapping *mapping)
{
	struct binder b = {.module = module, .node = node, .mapping = mapping};
	const char *rule = st_ops[node->op].rule;

	memset(mapping, 0, sizeof(*mapping));
	if (node->operand_count > ST_MAX_OPERANDS)
		return fail(&b, "too many operands");
	if (rule[0] == '@') {
		rule = st_view_string(module, node, ST_KEY_dims);
		ST_TRY(check_dims(&b, rule));
	}
	if (strchr(rule, '?')) {
		ST_TRY(st_shape_map(module, node, mapping));
	} else {
		ST_TRY(bind_operands(&b, &rule));
		ST_TRY(bind_results(&b, rule));
	}
	for (int i = 0; i < mapping->results; i++)
		ST_TRY(result_dtype(&b, i, &mapping->result_type[i].dtype));
	return ST_OK;
}

/* The cut that the operands give each slot, and partial sums passed on. */
struct spread {
	struct st_factor slot[ST_MAX_SLOTS];
	uint8_t known[ST_MAX_SLOTS];
	uint8_t flat, has_flat;
	uint8_t partial, reduction;
};

static enum st_status
note_cut(const struct binder *b, struct spread *s, int slot,
	 const struct st_factor *factor, int operand)
{
	if (factor->axes && b->mapping->slot[slot].fixed)
		return st_error(b->module->diag, ST_EINPUT, b->node->loc,
				"%s: operand %d is cut where it must be whole",
				st_ops[b->node->op].name, operand + 1);
	if (s->known[slot] && (s->slot[slot].axes != factor->axes ||
			       s->slot[slot].pad != factor->pad))
		return st_error(b->module->diag, ST_EINPUT, b->node->loc,
				"%s: operand %d is cut otherwise than the "
				"operands before it",
				st_ops[b->node->op].name, operand + 1);
	s->known[slot] = 1;
	s->slot[slot] = *factor;
	return ST_OK;
}

static enum st_status
note_partial(const struct binder *b, struct spread *s,
	     const struct st_type *type, int operand)
{
	enum st_linear linear = st_ops[b->node->op].linear;

	if (linear == ST_LINEAR_JOINT && operand > 0 &&
	    type->partial != s->partial)
		return fail(b, "operands are partial over different axes");
	if (!type->partial)
		return ST_OK;
	if (linear == ST_LINEAR_NONE)
		return st_error(b->module->diag, ST_EINPUT, b->node->loc,
				"%s: operand %d is partial, and the op is not "
				"linear in it",
				st_ops[b->node->op].name, operand + 1);
	if (linear == ST_LINEAR_EACH && s->partial)
		return fail(b, "two operands are partial");
	if (type->reduction == ST_MAX)
		return fail(b, "a partial maximum must be reduced first");
	s->partial = type->partial;
	s->reduction = type->reduction;
	return ST_OK;
}

static enum st_status
note_operand(const struct binder *b, struct spread *s, int i)
{
	const struct st_type *type =
		st_value_type(b->module, b->node->operands[i]);

	if (type->flat && !b->mapping->flat_operands[i])
		return fail(b, "a flat operand must be gathered first");
	if (b->mapping->flat_operands[i]) {
		if (s->has_flat && type->flat != s->flat)
			return fail(b, "operands are flat over different "
				       "axes");
		s->flat = type->flat;
		s->has_flat = 1;
	}
	for (int f = 0; f < type->factors; f++)
		ST_TRY(note_cut(b, s, b->mapping->operand[i][f], &type->f[f],
				i));
	return note_partial(b, s, type, i);
}

/* Spreads a whole result as its slots say. */
static void
spread_result(const struct binder *b, const struct spread *s, int i,
	      struct st_type *type)
{
	const struct st_mapping *m = b->mapping;
	unsigned summed = 0;

	for (int slot = 0; slot < m->slots; slot++)
		summed |= s->slot[slot].axes;
	for (int f = 0; f < type->factors; f++) {
		const struct st_factor *cut = &s->slot[m->result[i][f]];

		type->f[f].axes = cut->axes;
		type->f[f].pad = cut->pad;
		summed &= (unsigned)~cut->axes;
	}
	if (m->flat_results >> i & 1)
		type->flat = s->flat;
	else
		summed |= s->flat;
	type->partial = (uint8_t)(summed | s->partial);
	type->reduction = m->maximum >> i & 1 ? ST_MAX : ST_SUM;
	if (!type->partial)
		type->reduction = ST_SUM;
}

/* Slots that only the stated result knows keep its cut. */
static void
take_stated_cuts(const struct binder *b, struct spread *s)
{
	const struct st_mapping *m = b->mapping;

	for (int i = 0; b->node->stated && i < m->results; i++)
		for (int f = 0; f < m->result_type[i].factors; f++) {
			int slot = m->result[i][f];

			if (s->known[slot] || m->slot[slot].fixed)
				continue;
			s->known[slot] = 1;
			s->slot[slot] = b->node->stated[i].f[f];
		}
	if (b->node->operand_count || !b->node->stated)
		return;
	s->flat = b->node->stated[0].flat;
	/* A sum of zeros is zero, so a zero may be stated partial. */
	if (b->node->op == ST_OP_fill &&
	    st_view_float(b->node, ST_KEY_factor) == 0.0)
		s->partial = b->node->stated[0].partial;
}

/* An axis cuts a node in one place.  Else a rank would hold, say, its rows of
 * one operand beside its columns of another: not a piece of any result. */
static enum st_status
check_axes(const struct binder *b, const struct spread *s)
{
	unsigned seen = s->flat;

	if (s->flat & s->partial)
		return fail(b, "operands are flat and partial over one axis");
	seen |= s->partial;
	for (int slot = 0; slot < b->mapping->slots; slot++) {
		if (s->slot[slot].axes & seen)
			return fail(b, "one axis spreads it in two places");
		seen |= s->slot[slot].axes;
	}
	return ST_OK;
}

/* Which operand of an op holds ids or counts, or -1; all others hold numbers
 * to compute with. */
static int
integer_operand(enum st_op op)
{
	switch (op) {
	case ST_OP_embedding:
	case ST_OP_embedding_grad:
	case ST_OP_step_count:
	case ST_OP_learning_rate: return 0;
	case ST_OP_xent_sum:
	case ST_OP_xent_grad: return 1;
	case ST_OP_adamw: return 6;
	default: return -1;
	}
}

static int
is_float(enum st_dtype dtype)
{
	return dtype == ST_F64 || dtype == ST_F32 || dtype == ST_BF16;
}

/* Computation is in floats; f64 does not mix with the shorter ones. */
static enum st_status
check_dtypes(const struct binder *b)
{
	const struct st_node_view *node = b->node;
	int doubles = 0, shorter = 0;

	if (st_ops[node->op].class != ST_COMPUTE || node->op == ST_OP_cast)
		return ST_OK;
	for (size_t i = 0; i < node->operand_count; i++) {
		enum st_dtype dtype =
			st_value_type(b->module, node->operands[i])->dtype;
		int integer = integer_operand(node->op) == (int)i;

		if (integer ? dtype != ST_I32 : !is_float(dtype))
			return st_error(b->module->diag, ST_EINPUT, node->loc,
					"%s: operand %zu is %s, want %s",
					st_ops[node->op].name, i + 1,
					st_dtype_name(dtype),
					integer ? "i32" : "floats");
		doubles |= dtype == ST_F64;
		shorter |= dtype == ST_F32 || dtype == ST_BF16;
	}
	if (doubles && shorter)
		return fail(b, "operands are f64 and shorter floats: a cast "
			       "must stand between");
	return ST_OK;
}

/* A bias would fill the padding of what it is added to. */
static enum st_status
check_padding(const struct binder *b)
{
	const struct st_mapping *m = b->mapping;
	const struct st_type *from;

	if (b->node->op != ST_OP_add)
		return ST_OK;
	from = st_value_type(b->module, b->node->operands[0]);
	for (int f = 0; f < from->factors; f++) {
		int found = from->f[f].pad == 0;

		for (int g = 0; g < ST_MAX_FACTORS; g++)
			found |= g < st_value_type(b->module,
						   b->node->operands[1])
					     ->factors &&
				 m->operand[1][g] == m->operand[0][f];
		if (!found)
			return fail(b, "operand 2 would fill the padding of "
				       "operand 1");
	}
	return ST_OK;
}

/* Only collectives start, and what they make is theirs until the wait. */
static enum st_status
check_async(const struct binder *b)
{
	const struct st_node_view *node = b->node;

	if (node->start && st_ops[node->op].class != ST_COMM)
		return fail(b, "only a collective has a start");
	for (size_t i = 0; i < node->operand_count; i++) {
		if (!st_value_type(b->module, node->operands[i])->is_async ||
		    node->start || node->op == ST_OP_wait)
			continue;
		return st_error(b->module->diag, ST_EINPUT, node->loc,
				"%s: operand %zu is still async: a wait must "
				"stand between",
				st_ops[node->op].name, i + 1);
	}
	return ST_OK;
}

enum st_status
st_infer(const struct st_module *module, const struct st_node_view *node,
	 struct st_type results[ST_MAX_RESULTS])
{
	struct st_mapping mapping;
	struct binder b = {.module = module, .node = node,
			   .mapping = &mapping};
	struct spread s;

	ST_TRY(check_async(&b));
	ST_TRY(check_dtypes(&b));
	if (st_shape_is_spread(node->op))
		return st_shape_spread(module, node, &results[0]);
	ST_TRY(st_mapping_make(module, node, &mapping));
	memset(&s, 0, sizeof(s));
	if (module->form == ST_RANKED) {
		for (int i = 0; i < mapping.operands; i++)
			ST_TRY(note_operand(&b, &s, i));
		take_stated_cuts(&b, &s);
		ST_TRY(check_axes(&b, &s));
		ST_TRY(check_padding(&b));
	}
	for (int i = 0; i < mapping.results; i++) {
		results[i] = mapping.result_type[i];
		if (module->form == ST_RANKED)
			spread_result(&b, &s, i, &results[i]);
	}
	return ST_OK;
}
