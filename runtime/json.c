/* Strict JSON reader: one token a call, no tree. */

#include "runtime/json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/utf8.h"

enum { LONGEST_NUMBER = 127 };

/* What the reader waits for. */
enum {
	WANT_VALUE,
	WANT_VALUE_OR_END, /* after [ */
	WANT_KEY,          /* after a comma in an object */
	WANT_KEY_OR_END,   /* after { */
	WANT_COMMA_OR_END,
	WANT_NOTHING,
};

struct st_json_key {
	const char *string;
	size_t length;
	uint64_t hash;
};

static struct st_loc
loc_at(const struct st_json_reader *reader, size_t at)
{
	struct st_loc loc = st_no_loc();

	loc.source = reader->source;
	loc.offset = reader->base + at;
	return loc;
}

__attribute__((format(printf, 3, 4))) static bool
fail(struct st_json_reader *reader, size_t at, const char *format, ...)
{
	char text[200];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	reader->status = st_error(reader->diag, ST_EINPUT, loc_at(reader, at),
				  "%s", text);
	return false;
}

static bool
fail_memory(struct st_json_reader *reader)
{
	reader->status = st_error_memory(reader->diag);
	return false;
}

/* "expected ',' or '}', found 'x'" at the reader's place. */
static bool
fail_expected(struct st_json_reader *reader, const char *expected)
{
	unsigned char c;

	if (reader->at == reader->size)
		return fail(reader, reader->at,
			    "expected %s, found end of text", expected);
	c = (unsigned char)reader->text[reader->at];
	if (c <= ' ' || c >= 127)
		return fail(reader, reader->at,
			    "expected %s, found byte 0x%02x", expected, c);
	return fail(reader, reader->at, "expected %s, found '%c'", expected, c);
}

static int
peek(const struct st_json_reader *reader)
{
	return reader->at < reader->size
		       ? (unsigned char)reader->text[reader->at]
		       : -1;
}

static void
skip_space(struct st_json_reader *reader)
{
	int c = peek(reader);

	while (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
		reader->at++;
		c = peek(reader);
	}
}

/* The four digits behind \u at the reader's place, or -1. */
static int32_t
read_hex(const struct st_json_reader *reader)
{
	int32_t code = 0;

	if (reader->size - reader->at < 6 || reader->text[reader->at] != '\\' ||
	    reader->text[reader->at + 1] != 'u')
		return -1;
	for (size_t i = 2; i < 6; i++) {
		char c = reader->text[reader->at + i];
		int digit = c >= '0' && c <= '9'   ? c - '0'
			    : c >= 'a' && c <= 'f' ? c - 'a' + 10
			    : c >= 'A' && c <= 'F' ? c - 'A' + 10
						   : -1;

		if (digit < 0)
			return -1;
		code = code * 16 + digit;
	}
	return code;
}

static bool
read_unicode(struct st_json_reader *reader, char *out, size_t *length)
{
	size_t begin = reader->at;
	int32_t low, code = read_hex(reader);

	if (code < 0)
		return fail(reader, begin,
			    "expected four hex digits after \\u");
	reader->at += 6;
	if (code >= 0xdc00 && code <= 0xdfff)
		return fail(reader, begin, "lone low surrogate");
	if (code >= 0xd800 && code <= 0xdbff) {
		low = read_hex(reader);
		if (low < 0xdc00 || low > 0xdfff)
			return fail(reader, begin, "lone high surrogate");
		reader->at += 6;
		code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
	}
	*length += st_utf8_put(out + *length, (uint32_t)code);
	return true;
}

static bool
read_escape(struct st_json_reader *reader, char *out, size_t *length)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *found;
	char c;

	if (reader->at + 1 == reader->size)
		return fail(reader, reader->at, "escape cut short");
	c = reader->text[reader->at + 1];
	if (c == 'u')
		return read_unicode(reader, out, length);
	found = c ? strchr(from, c) : NULL;
	if (!found)
		return fail(reader, reader->at, "unknown escape");
	out[(*length)++] = to[found - from];
	reader->at += 2;
	return true;
}

/* Finds the closing quote; true in *escaped if a backslash lies before. */
static bool
scan_string(struct st_json_reader *reader, size_t *end, bool *escaped)
{
	size_t at = reader->at, length;

	*escaped = false;
	while (at < reader->size && reader->text[at] != '"') {
		unsigned char c = (unsigned char)reader->text[at];

		if (c < ' ')
			return fail(reader, at, "control character in string");
		length = st_utf8_length(reader->text + at, reader->size - at);
		if (!length)
			return fail(reader, at, "string is not UTF-8");
		if (c == '\\') {
			*escaped = true;
			/* The byte behind it may be a quote. */
			length = 2;
			if (at + 1 < reader->size &&
			    (unsigned char)reader->text[at + 1] >= 0x80)
				length = 1;
		}
		at += length;
	}
	if (at >= reader->size)
		return fail(reader, reader->begin, "string without an end");
	*end = at;
	return true;
}

static bool
read_string(struct st_json_reader *reader)
{
	bool escaped;
	size_t end = 0, length = 0;
	char *out;

	reader->at++;
	if (!scan_string(reader, &end, &escaped))
		return false;
	reader->string = reader->text + reader->at;
	reader->length = end - reader->at;
	if (escaped) {
		/* Decoding never makes a string longer. */
		out = st_arena_alloc(reader->diag->arena, reader->length);
		if (!out)
			return fail_memory(reader);
		while (reader->at < end) {
			if (reader->text[reader->at] != '\\')
				out[length++] = reader->text[reader->at++];
			else if (!read_escape(reader, out, &length))
				return false;
		}
		reader->string = out;
		reader->length = length;
	}
	reader->at = end + 1;
	return true;
}

/* The address makes it hard to prepare a file whose keys all collide. */
static uint64_t
hash_key(const struct st_json_reader *reader)
{
	uint64_t hash = (uint64_t)(uintptr_t)reader ^ reader->depth;

	for (size_t i = 0; i < reader->length; i++) {
		hash ^= (unsigned char)reader->string[i];
		hash *= 0x9e3779b97f4a7c15u;
		hash ^= hash >> 29;
	}
	return hash;
}

/* The slot of keys[index], or the free slot where it belongs. */
static size_t
find_slot(const struct st_json_reader *reader, size_t index)
{
	size_t mask = reader->slot_count - 1;
	size_t at = (size_t)reader->keys[index].hash & mask;

	while (reader->slots[at] && reader->slots[at] != index + 1)
		at = (at + 1) & mask;
	return at;
}

static bool
grow_slots(struct st_json_reader *reader)
{
	size_t count = reader->slot_count ? reader->slot_count * 2 : 64;
	uint32_t *slots =
		st_arena_array(reader->diag->arena, count, sizeof(*slots));

	if (!slots)
		return fail_memory(reader);
	reader->slots = slots;
	reader->slot_count = count;
	/* In order of age, as pop_keys requires. */
	for (size_t i = 0; i < reader->key_count; i++)
		slots[find_slot(reader, i)] = (uint32_t)i + 1;
	return true;
}

static bool
is_duplicate(const struct st_json_reader *reader, uint64_t hash)
{
	size_t mask = reader->slot_count - 1;

	for (size_t at = (size_t)hash & mask; reader->slots[at];
	     at = (at + 1) & mask) {
		size_t index = reader->slots[at] - 1;
		const struct st_json_key *key = &reader->keys[index];

		if (index >= reader->first_key[reader->depth] &&
		    key->hash == hash && key->length == reader->length &&
		    memcmp(key->string, reader->string, key->length) == 0)
			return true;
	}
	return false;
}

static bool
add_key(struct st_json_reader *reader)
{
	size_t index = reader->key_count;
	uint64_t hash = hash_key(reader);
	struct st_json_key *keys;

	if (index >= UINT32_MAX / 4)
		return fail(reader, reader->begin, "too many keys");
	if (index * 2 >= reader->slot_count && !grow_slots(reader))
		return false;
	if (is_duplicate(reader, hash))
		return fail(reader, reader->begin, "key '%s' appears twice",
			    st_json_show(reader->diag->arena, reader->string,
					 reader->length));
	keys = st_arena_grow(reader->diag->arena, reader->keys, index,
			     &reader->key_capacity, index + 1, sizeof(*keys));
	if (!keys)
		return fail_memory(reader);
	reader->keys = keys;
	keys[index].string = reader->string;
	keys[index].length = reader->length;
	keys[index].hash = hash;
	reader->slots[find_slot(reader, index)] = (uint32_t)index + 1;
	reader->key_count++;
	return true;
}

/* Youngest first: no older key was ever placed behind a younger one, so
 * freeing a slot breaks no search. */
static void
pop_keys(struct st_json_reader *reader)
{
	while (reader->key_count > reader->first_key[reader->depth]) {
		size_t slot = find_slot(reader, reader->key_count - 1);

		reader->slots[slot] = 0;
		reader->key_count--;
	}
}

static bool
is_digit(int c)
{
	return c >= '0' && c <= '9';
}

static bool
skip_digits(struct st_json_reader *reader)
{
	if (!is_digit(peek(reader)))
		return fail_expected(reader, "a digit");
	while (is_digit(peek(reader)))
		reader->at++;
	return true;
}

/* JSON's grammar of a number, which is narrower than strtod's. */
static bool
scan_number(struct st_json_reader *reader)
{
	reader->whole = true;
	if (peek(reader) == '-')
		reader->at++;
	if (peek(reader) == '0') {
		reader->at++;
		if (is_digit(peek(reader)))
			return fail(reader, reader->begin,
				    "number begins with a zero");
	} else if (!skip_digits(reader)) {
		return false;
	}
	if (peek(reader) == '.') {
		reader->whole = false;
		reader->at++;
		if (!skip_digits(reader))
			return false;
	}
	if (peek(reader) == 'e' || peek(reader) == 'E') {
		reader->whole = false;
		reader->at++;
		if (peek(reader) == '+' || peek(reader) == '-')
			reader->at++;
		return skip_digits(reader);
	}
	return true;
}

static void
read_integer(struct st_json_reader *reader, const char *text, size_t length)
{
	bool negative = text[0] == '-';
	int64_t value = 0;

	for (size_t i = negative; i < length; i++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_sub_overflow(value, text[i] - '0', &value))
			reader->whole = false;
	if (!negative && __builtin_sub_overflow(0, value, &value))
		reader->whole = false;
	reader->integer = reader->whole ? value : 0;
}

/* strtod expects the decimal point of the locale, which is not ours to
 * change: ask printf what it is. */
static double
to_double(const char *text, size_t length)
{
	char copy[LONGEST_NUMBER + 16], probe[16];
	size_t used = 0, point;

	snprintf(probe, sizeof(probe), "%.1f", 0.5);
	point = strlen(probe) - 2;
	for (size_t i = 0; i < length; i++) {
		if (text[i] != '.') {
			copy[used++] = text[i];
		} else if (point < 8) {
			memcpy(copy + used, probe + 1, point);
			used += point;
		}
	}
	copy[used] = '\0';
	return strtod(copy, NULL);
}

static bool
read_number(struct st_json_reader *reader)
{
	const char *text = reader->text + reader->begin;
	size_t length;

	if (!scan_number(reader))
		return false;
	length = reader->at - reader->begin;
	if (length > LONGEST_NUMBER)
		return fail(reader, reader->begin,
			    "number has %zu characters, at most %d are read",
			    length, LONGEST_NUMBER);
	reader->number = to_double(text, length);
	if (!isfinite(reader->number))
		return fail(reader, reader->begin,
			    "number is outside the range of a double");
	if (reader->whole)
		read_integer(reader, text, length);
	return true;
}

static bool
read_word(struct st_json_reader *reader, const char *word)
{
	size_t length = strlen(word);

	if (reader->size - reader->at < length ||
	    memcmp(reader->text + reader->at, word, length) != 0)
		return fail_expected(reader, "a value");
	reader->at += length;
	return true;
}

static enum st_json_token
end_value(struct st_json_reader *reader, bool good, enum st_json_token token)
{
	if (!good)
		return ST_JSON_ERROR;
	reader->state = reader->depth ? WANT_COMMA_OR_END : WANT_NOTHING;
	return token;
}

static enum st_json_token
begin_container(struct st_json_reader *reader, bool object)
{
	if (reader->depth == ST_JSON_DEPTH) {
		fail(reader, reader->at, "nested more than %d levels deep",
		     ST_JSON_DEPTH);
		return ST_JSON_ERROR;
	}
	reader->at++;
	reader->depth++;
	reader->object[reader->depth] = object;
	reader->first_key[reader->depth] = reader->key_count;
	reader->state = object ? WANT_KEY_OR_END : WANT_VALUE_OR_END;
	return object ? ST_JSON_OBJECT : ST_JSON_ARRAY;
}

static enum st_json_token
end_container(struct st_json_reader *reader)
{
	bool object = reader->object[reader->depth];

	pop_keys(reader);
	reader->at++;
	reader->depth--;
	return end_value(reader, true,
			 object ? ST_JSON_OBJECT_END : ST_JSON_ARRAY_END);
}

static enum st_json_token
read_value(struct st_json_reader *reader)
{
	int c = peek(reader);

	if (c == '{' || c == '[')
		return begin_container(reader, c == '{');
	if (c == '"')
		return end_value(reader, read_string(reader), ST_JSON_STRING);
	if (c == '-' || is_digit(c))
		return end_value(reader, read_number(reader), ST_JSON_NUMBER);
	if (c == 't')
		return end_value(reader, read_word(reader, "true"),
				 ST_JSON_TRUE);
	if (c == 'f')
		return end_value(reader, read_word(reader, "false"),
				 ST_JSON_FALSE);
	if (c == 'n')
		return end_value(reader, read_word(reader, "null"),
				 ST_JSON_NULL);
	fail_expected(reader, "a value");
	return ST_JSON_ERROR;
}

static enum st_json_token
read_key(struct st_json_reader *reader)
{
	if (peek(reader) != '"') {
		fail_expected(reader, "a key in quotes");
		return ST_JSON_ERROR;
	}
	if (!read_string(reader) || !add_key(reader))
		return ST_JSON_ERROR;
	skip_space(reader);
	if (peek(reader) != ':') {
		fail_expected(reader, "':'");
		return ST_JSON_ERROR;
	}
	reader->at++;
	reader->state = WANT_VALUE;
	return ST_JSON_KEY;
}

static enum st_json_token
read_comma(struct st_json_reader *reader)
{
	bool object = reader->object[reader->depth];

	if (peek(reader) == (object ? '}' : ']'))
		return end_container(reader);
	if (peek(reader) != ',') {
		fail_expected(reader, object ? "',' or '}'" : "',' or ']'");
		return ST_JSON_ERROR;
	}
	reader->at++;
	skip_space(reader);
	reader->begin = reader->at;
	return object ? read_key(reader) : read_value(reader);
}

static enum st_json_token
read_token(struct st_json_reader *reader)
{
	skip_space(reader);
	reader->begin = reader->at;
	switch (reader->state) {
	case WANT_VALUE: return read_value(reader);
	case WANT_VALUE_OR_END:
		return peek(reader) == ']' ? end_container(reader)
					   : read_value(reader);
	case WANT_KEY_OR_END:
		return peek(reader) == '}' ? end_container(reader)
					   : read_key(reader);
	case WANT_COMMA_OR_END: return read_comma(reader);
	default:
		if (reader->at == reader->size)
			return ST_JSON_END;
		fail_expected(reader, "end of text");
		return ST_JSON_ERROR;
	}
}

void
st_json_reader_init(struct st_json_reader *reader, struct st_diag *diag,
		    uint32_t source, uint64_t base, const char *text,
		    size_t size)
{
	memset(reader, 0, sizeof(*reader));
	reader->diag = diag;
	reader->source = source;
	reader->base = base;
	reader->text = text;
	reader->size = size;
	reader->state = WANT_VALUE;
}

enum st_json_token
st_json_next(struct st_json_reader *reader)
{
	reader->token =
		reader->status == ST_OK ? read_token(reader) : ST_JSON_ERROR;
	return reader->token;
}

enum st_status
st_json_expect(struct st_json_reader *reader, enum st_json_token token,
	       const char *what)
{
	enum st_json_token found = st_json_next(reader);

	if (found == ST_JSON_ERROR || found == token)
		return reader->status;
	fail(reader, reader->begin, "%s: expected %s, found %s", what,
	     st_json_token_name(token), st_json_token_name(found));
	return reader->status;
}

enum st_status
st_json_skip(struct st_json_reader *reader)
{
	unsigned depth = reader->depth;

	do
		if (st_json_next(reader) == ST_JSON_ERROR)
			return reader->status;
	while (reader->depth > depth);
	return ST_OK;
}

bool
st_json_is(const struct st_json_reader *reader, const char *text)
{
	return reader->length == strlen(text) &&
	       memcmp(reader->string, text, reader->length) == 0;
}

struct st_loc
st_json_loc(const struct st_json_reader *reader)
{
	return loc_at(reader, reader->begin);
}

const char *
st_json_token_name(enum st_json_token token)
{
	static const char *const names[] = {
#define X(name, text) text,
		ST_JSON_TOKENS(X)
#undef X
	};

	return names[token];
}

const char *
st_json_show(struct st_arena *arena, const char *string, size_t length)
{
	enum { LONGEST = 72 };
	bool cut = length > LONGEST;
	char *copy;

	if (cut) {
		length = LONGEST;
		while (length && ((unsigned char)string[length] & 0xc0) == 0x80)
			length--;
	}
	copy = st_arena_alloc(arena, length + 4);
	if (!copy)
		return "?";
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)string[i];

		copy[i] = c < ' ' || c == 127 ? '?' : string[i];
	}
	if (cut)
		memcpy(copy + length, "...", 4);
	return copy;
}
