/* Streaming JSON writer. */

#include "runtime/json.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/utf8.h"

static void
emit(struct st_json_writer *writer, const char *text, size_t length)
{
	if (!writer->failed && writer->put(writer->user, text, length) != 0)
		writer->failed = true;
}

static void
begin_value(struct st_json_writer *writer)
{
	if (writer->need_comma && !writer->after_key)
		emit(writer, ",", 1);
	writer->after_key = false;
	writer->need_comma = writer->depth > 0;
}

int
st_json_put_buffer(void *user, const char *text, size_t length)
{
	struct st_buffer *buffer = user;

	st_buffer_add(buffer, text, length);
	return buffer->arena->failed;
}

void
st_json_writer_init(struct st_json_writer *writer, st_json_put *put, void *user)
{
	memset(writer, 0, sizeof(*writer));
	writer->put = put;
	writer->user = user;
}

static void
begin_level(struct st_json_writer *writer, const char *bracket)
{
	begin_value(writer);
	emit(writer, bracket, 1);
	writer->depth++;
	writer->need_comma = false;
}

static void
end_level(struct st_json_writer *writer, const char *bracket)
{
	assert(writer->depth > 0 && !writer->after_key);
	emit(writer, bracket, 1);
	writer->depth--;
	writer->need_comma = writer->depth > 0;
}

void
st_json_begin_object(struct st_json_writer *writer)
{
	begin_level(writer, "{");
}

void
st_json_end_object(struct st_json_writer *writer)
{
	end_level(writer, "}");
}

void
st_json_begin_array(struct st_json_writer *writer)
{
	begin_level(writer, "[");
}

void
st_json_end_array(struct st_json_writer *writer)
{
	end_level(writer, "]");
}

/* Writes the byte or sequence at text, which is not plain; returns how many
 * bytes that were. */
static size_t
emit_special(struct st_json_writer *writer, const char *text, size_t size)
{
	static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
	size_t length = st_utf8_length(text, size);
	const char *found = *text ? strchr(from, *text) : NULL;
	char escape[8];

	if (length == 0) {
		emit(writer, "\xef\xbf\xbd", 3);
		return 1;
	}
	if (length > 1) {
		emit(writer, text, length);
	} else if (found) {
		escape[0] = '\\';
		escape[1] = to[found - from];
		emit(writer, escape, 2);
	} else {
		snprintf(escape, sizeof(escape), "\\u%04x",
			 (unsigned)(unsigned char)*text);
		emit(writer, escape, 6);
	}
	return length;
}

void
st_json_string_n(struct st_json_writer *writer, const char *string,
		 size_t length)
{
	size_t plain = 0, at = 0;

	begin_value(writer);
	emit(writer, "\"", 1);
	while (at < length) {
		unsigned char c = (unsigned char)string[at];

		if (c >= ' ' && c < 127 && c != '"' && c != '\\') {
			at++;
			continue;
		}
		emit(writer, string + plain, at - plain);
		at += emit_special(writer, string + at, length - at);
		plain = at;
	}
	emit(writer, string + plain, at - plain);
	emit(writer, "\"", 1);
}

void
st_json_string(struct st_json_writer *writer, const char *string)
{
	st_json_string_n(writer, string, strlen(string));
}

void
st_json_key(struct st_json_writer *writer, const char *key)
{
	assert(writer->depth > 0 && !writer->after_key);
	st_json_string(writer, key);
	emit(writer, ":", 1);
	writer->after_key = true;
}

void
st_json_integer(struct st_json_writer *writer, int64_t value)
{
	char text[24];
	int length = snprintf(text, sizeof(text), "%lld", (long long)value);

	begin_value(writer);
	emit(writer, text, (size_t)length);
}

/*
 * Any decimal of up to 15 digits survives a normal double, so 15 digits
 * without trailing zeros are the shortest if they read back at all.
 * Subnormals have fewer, so there the search begins at one digit.
 */
static int
print_shortest(char *text, size_t size, double value)
{
	int length = 0;

	for (int digits = fabs(value) < DBL_MIN ? 1 : 15; digits <= 17;
	     digits++) {
		length = snprintf(text, size, "%.*g", digits, value);
		if (memcmp(&(double){strtod(text, NULL)}, &value,
			   sizeof(value)) == 0)
			break;
	}
	return length;
}

void
st_json_number(struct st_json_writer *writer, double value)
{
	char text[48];
	int length, used = 0;

	if (!isfinite(value)) {
		st_json_null(writer);
		return;
	}
	length = print_shortest(text, sizeof(text), value);
	/* Whatever else printf wrote is the decimal point of the locale. */
	for (int i = 0; i < length; i++) {
		if (strchr("0123456789+-e", text[i]))
			text[used++] = text[i];
		else if (used == 0 || text[used - 1] != '.')
			text[used++] = '.';
	}
	begin_value(writer);
	emit(writer, text, (size_t)used);
}

void
st_json_boolean(struct st_json_writer *writer, bool value)
{
	begin_value(writer);
	emit(writer, value ? "true" : "false", value ? 4 : 5);
}

void
st_json_null(struct st_json_writer *writer)
{
	begin_value(writer);
	emit(writer, "null", 4);
}

void
st_json_newline(struct st_json_writer *writer)
{
	emit(writer, "\n", 1);
}

enum st_status
st_json_writer_finish(struct st_json_writer *writer)
{
	assert(writer->depth == 0 && !writer->after_key);
	return writer->failed ? ST_EDEVICE : ST_OK;
}
