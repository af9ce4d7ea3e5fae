#ifndef ST_JSON_H
#define ST_JSON_H

/*
 * JSON without a tree: a strict pull reader and a streaming writer.
 *
 * The reader walks one text that is wholly in memory and returns a token a
 * call.  It refuses what RFC 8259 refuses (leading zeros, trailing commas,
 * control characters, lone surrogates, bytes that are not UTF-8) and also
 * what would make two readers disagree: duplicate keys of one object,
 * numbers outside the range of a double, more than ST_JSON_DEPTH levels.
 * The first error is final: every later call returns ST_JSON_ERROR.
 *
 * The writer puts text into a callback, so that a trace of a million events
 * needs no memory.  It adds commas, quotes and escapes; what it cannot check
 * for its caller is that keys of one object differ.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ir/diag.h"
#include "ir/text.h"

enum { ST_JSON_DEPTH = 64 };

/* X(name, how a message calls it) */
#define ST_JSON_TOKENS(X)              \
	X(END, "end of text")          \
	X(ERROR, "error")              \
	X(NULL, "null")                \
	X(FALSE, "false")              \
	X(TRUE, "true")                \
	X(NUMBER, "number")            \
	X(STRING, "string")            \
	X(KEY, "key")                  \
	X(OBJECT, "object")            \
	X(OBJECT_END, "end of object") \
	X(ARRAY, "array")              \
	X(ARRAY_END, "end of array")

enum st_json_token {
#define X(name, text) ST_JSON_##name,
	ST_JSON_TOKENS(X)
#undef X
};

struct st_json_key;

struct st_json_reader {
	/* What the last token was. */
	enum st_json_token token;
	const char *string; /* STRING and KEY: decoded, not NUL-terminated, */
	size_t length;      /* lives as long as the text and the arena */
	double number;      /* NUMBER */
	int64_t integer;    /* NUMBER, if `whole` */
	bool whole;         /* no fraction, no exponent, fits int64 */
	enum st_status status;

	/* The rest is the reader's own. */
	struct st_diag *diag;
	const char *text;
	size_t size, at, begin; /* begin: of the last token */
	uint64_t base;
	uint32_t source;
	unsigned depth;
	int state;
	bool object[ST_JSON_DEPTH + 1];      /* else array, by depth */
	size_t first_key[ST_JSON_DEPTH + 1]; /* of the object, in keys */
	struct st_json_key *keys;            /* of the objects that are open */
	size_t key_count, key_capacity;
	uint32_t *slots; /* hash table of 1 + index in keys; 0: free */
	size_t slot_count;
};

/* Reads size bytes of text, which must outlive the reader.  Messages carry
 * `source` and base + the offset in text; decoded strings and the keys seen
 * are kept in diag's arena. */
void st_json_reader_init(struct st_json_reader *reader, struct st_diag *diag,
			 uint32_t source, uint64_t base, const char *text,
			 size_t size);

/* The next token; after END again END, after an error again ERROR with the
 * message in diag.  A KEY is always followed by its value's first token. */
enum st_json_token st_json_next(struct st_json_reader *reader);

/* Takes the next token and fails with "<what>: expected string, found number"
 * if it is another one. */
enum st_status st_json_expect(struct st_json_reader *reader,
			      enum st_json_token token, const char *what);

/* Passes over the next value, whatever it holds.  Call after a KEY, or where
 * an array's element or the whole text begins. */
enum st_status st_json_skip(struct st_json_reader *reader);

/* Is the string or key of the last token equal to text? */
bool st_json_is(const struct st_json_reader *reader, const char *text);

/* Where the last token begins. */
struct st_loc st_json_loc(const struct st_json_reader *reader);

const char *st_json_token_name(enum st_json_token token);

/* A string from a file as messages show it: control characters as '?', long
 * ones cut.  In arena; never NULL. */
const char *st_json_show(struct st_arena *arena, const char *string,
			 size_t length);

/* Returns 0, or not 0 when it cannot take the text. */
typedef int st_json_put(void *user, const char *text, size_t length);

struct st_json_writer {
	st_json_put *put;
	void *user;
	unsigned depth;
	bool need_comma, after_key, failed;
};

/* A put function that appends to a struct st_buffer. */
int st_json_put_buffer(void *buffer, const char *text, size_t length);

void st_json_writer_init(struct st_json_writer *writer, st_json_put *put,
			 void *user);
void st_json_begin_object(struct st_json_writer *writer);
void st_json_end_object(struct st_json_writer *writer);
void st_json_begin_array(struct st_json_writer *writer);
void st_json_end_array(struct st_json_writer *writer);
void st_json_key(struct st_json_writer *writer, const char *key);

/* Bytes that are not UTF-8 become U+FFFD, so the output is always valid. */
void st_json_string(struct st_json_writer *writer, const char *string);
void st_json_string_n(struct st_json_writer *writer, const char *string,
		      size_t length);
void st_json_integer(struct st_json_writer *writer, int64_t value);

/* The shortest decimal that reads back as the same double, whatever the
 * locale; NaN and infinities, which JSON lacks, become null. */
void st_json_number(struct st_json_writer *writer, double value);
void st_json_boolean(struct st_json_writer *writer, bool value);
void st_json_null(struct st_json_writer *writer);

/* Ends a line between two top-level values (one object a line) or inside a
 * value; whitespace only. */
void st_json_newline(struct st_json_writer *writer);

/* Has everything been taken?  ST_EDEVICE if put refused once. */
enum st_status st_json_writer_finish(struct st_json_writer *writer);

#endif
