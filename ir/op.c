/* The op table and the names of keys and options. */

#include "ir/op.h"

#include <string.h>

const struct st_op_info st_ops[ST_OP_COUNT] = {
#define OP(name, class, rule, linear, keys, inplace, dtypes, cost)     \
	[ST_OP_##name] = {#name, ST_##class, rule,   ST_LINEAR_##linear, \
			  keys,  inplace,    dtypes, ST_COST_##cost},
#include "ir/ops.def"
};

static const struct {
	const char *name;
	enum st_attr_kind kind;
} keys[ST_KEY_COUNT] = {
#define X(name, kind) {#name, ST_ATTR_##kind},
	ST_KEYS(X)
#undef X
}, options[ST_OPTION_COUNT] = {
#define X(name, kind, value) {#name, ST_ATTR_##kind},
	ST_OPTIONS(X)
#undef X
};

static int
is_word(const char *name, const char *text, size_t length)
{
	return strlen(name) == length && memcmp(name, text, length) == 0;
}

int
st_op_find(const char *name, size_t length)
{
	for (int op = 0; op < ST_OP_COUNT; op++)
		if (is_word(st_ops[op].name, name, length))
			return op;
	return -1;
}

int
st_op_results(enum st_op op)
{
	return (int)strlen(st_ops[op].dtypes);
}

const char *
st_key_name(enum st_key key)
{
	return keys[key].name;
}

enum st_attr_kind
st_key_kind(enum st_key key)
{
	return keys[key].kind;
}

int
st_key_find(const char *name, size_t length)
{
	for (int key = 0; key < ST_KEY_COUNT; key++)
		if (is_word(keys[key].name, name, length))
			return key;
	return -1;
}

/* Position of the key in the op's list, or NULL. */
static const char *
find_key(enum st_op op, enum st_key key)
{
	const char *at = st_ops[op].keys;

	while (*at) {
		size_t length = strcspn(at, ",|");

		if (is_word(keys[key].name, at, length))
			return at;
		at += length;
		at += *at != '\0';
	}
	return NULL;
}

int
st_op_key_place(enum st_op op, enum st_key key)
{
	const char *at = find_key(op, key);

	return at ? (int)(at - st_ops[op].keys) : -1;
}

int
st_op_needs(enum st_op op, enum st_key key)
{
	const char *at = find_key(op, key);
	const char *bar = strchr(st_ops[op].keys, '|');

	return at && (!bar || at < bar);
}

const char *
st_option_name(enum st_option option)
{
	return options[option].name;
}

enum st_attr_kind
st_option_kind(enum st_option option)
{
	return options[option].kind;
}

int
st_option_find(const char *name, size_t length)
{
	for (int option = 0; option < ST_OPTION_COUNT; option++)
		if (is_word(options[option].name, name, length))
			return option;
	return -1;
}

#define AS_INT(value) {(value), 0, ""}
#define AS_FLOAT(value) {0, (value), ""}
#define AS_STRING(value) {0, 0, (value)}

void
st_option_defaults(struct st_option_value values[ST_OPTION_COUNT])
{
	static const struct st_option_value defaults[ST_OPTION_COUNT] = {
#define X(name, kind, value) AS_##kind(value),
		ST_OPTIONS(X)
#undef X
	};

	memcpy(values, defaults, sizeof(defaults));
}
