/* Messages and their rendering. */

#include "ir/diag.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST_QUOTE = 160 };

void
st_diag_init(struct st_diag *diag, struct st_arena *arena)
{
	memset(diag, 0, sizeof(*diag));
	diag->arena = arena;
}

uint32_t
st_diag_add_source(struct st_diag *diag, const char *name, const char *text,
		   size_t length)
{
	size_t want = diag->source_count ? diag->source_count + 1 : 2;
	struct st_source *sources = st_arena_grow(
		diag->arena, diag->sources, diag->source_count,
		&diag->source_capacity, want, sizeof(*sources));
	struct st_source *source;

	if (!sources)
		return 0;
	diag->sources = sources;
	source = &sources[want - 1];
	source->name = st_arena_strndup(diag->arena, name, strlen(name));
	source->text = text ? st_arena_strndup(diag->arena, text, length)
			    : NULL;
	source->length = length;
	if (!source->name || (text && !source->text))
		return 0;
	diag->source_count = want;
	return (uint32_t)(want - 1);
}

int
st_diag_share_sources(struct st_diag *diag, const struct st_diag *from)
{
	if (from->source_count == 0)
		return 1;
	diag->sources = st_arena_grow(diag->arena, NULL, 0,
				      &diag->source_capacity,
				      from->source_count,
				      sizeof(*diag->sources));
	if (!diag->sources)
		return 0;
	memcpy(diag->sources, from->sources,
	       from->source_count * sizeof(*diag->sources));
	diag->source_count = from->source_count;
	return 1;
}

/* Control characters would let a hostile file write to the terminal. */
static void
make_printable(char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c < ' ' || c == 127)
			text[i] = ' ';
	}
}

static void
add(struct st_diag *diag, struct st_message message, const char *format,
    va_list args)
{
	struct st_message *messages = st_arena_grow(
		diag->arena, diag->messages, diag->count, &diag->capacity,
		diag->count + 1, sizeof(*messages));
	va_list again;
	char *text;
	int length;

	if (!messages) {
		diag->full = 1;
		return;
	}
	diag->messages = messages;
	va_copy(again, args);
	length = vsnprintf(NULL, 0, format, again);
	va_end(again);
	text = st_arena_alloc(diag->arena, (size_t)length + 1);
	if (text) {
		vsnprintf(text, (size_t)length + 1, format, args);
		make_printable(text, (size_t)length);
	}
	message.text = text ? text : "out of memory";
	messages[diag->count++] = message;
}

enum st_status
st_error(struct st_diag *diag, enum st_status status, struct st_loc loc,
	 const char *format, ...)
{
	struct st_message message = {ST_ERROR, status, loc, NULL};
	va_list args;

	va_start(args, format);
	add(diag, message, format, args);
	va_end(args);
	diag->errors++;
	return status;
}

void
st_warn(struct st_diag *diag, struct st_loc loc, const char *format, ...)
{
	struct st_message message = {ST_WARNING, ST_OK, loc, NULL};
	va_list args;

	va_start(args, format);
	add(diag, message, format, args);
	va_end(args);
}

void
st_note(struct st_diag *diag, struct st_loc loc, const char *format, ...)
{
	struct st_message message = {ST_NOTE, ST_OK, loc, NULL};
	va_list args;

	va_start(args, format);
	add(diag, message, format, args);
	va_end(args);
}

enum st_status
st_error_memory(struct st_diag *diag)
{
	return st_error(diag, ST_EDEVICE, st_no_loc(), "out of memory");
}

/* Start and length of the 1-based line, or NULL. */
static const char *
find_line(const struct st_source *source, uint32_t line, size_t *length)
{
	const char *at = source->text;
	const char *end = at + source->length;
	const char *stop;

	while (line > 1) {
		at = memchr(at, '\n', (size_t)(end - at));
		if (!at)
			return NULL;
		at++;
		line--;
	}
	stop = memchr(at, '\n', (size_t)(end - at));
	*length = (size_t)((stop ? stop : end) - at);
	return at;
}

static const char *
render_quote(struct st_diag *diag, const struct st_loc *loc)
{
	const struct st_source *source = &diag->sources[loc->source];
	size_t length, column = loc->column ? loc->column - 1 : 0;
	size_t start = 0, under = loc->length ? loc->length : 1;
	const char *line = find_line(source, loc->line, &length);
	char *quote, *caret;

	if (!line)
		return "";
	if (column > length)
		column = length;
	if (column > LONGEST_QUOTE / 2)
		start = column - LONGEST_QUOTE / 2;
	length -= start;
	column -= start;
	if (length > LONGEST_QUOTE)
		length = LONGEST_QUOTE;
	if (column + under > length)
		under = column < length ? length - column : 1;
	quote = st_arena_strndup(diag->arena, line + start, length);
	caret = st_arena_alloc(diag->arena, column + under + 1);
	if (!quote || !caret)
		return "";
	make_printable(quote, length);
	memset(caret, ' ', column);
	memset(caret + column, '~', under);
	caret[column] = '^';
	return st_arena_printf(diag->arena, "  %s\n  %s\n", quote, caret);
}

const char *
st_diag_render(struct st_diag *diag, size_t index)
{
	static const char *const words[] = {"error", "warning", "note"};
	const struct st_message *message = &diag->messages[index];
	const char *word = words[message->severity];
	const struct st_loc *loc = &message->loc;
	const struct st_source *source;
	const char *quote, *text;

	if (loc->source == 0 || loc->source >= diag->source_count) {
		text = st_arena_printf(diag->arena, "stretto: %s: %s\n", word,
				       message->text);
		return text ? text : "stretto: error: out of memory\n";
	}
	source = &diag->sources[loc->source];
	if (loc->line == 0) {
		text = st_arena_printf(diag->arena, "%s:%llu: %s: %s\n",
				       source->name,
				       (unsigned long long)loc->offset, word,
				       message->text);
		return text ? text : "stretto: error: out of memory\n";
	}
	quote = source->text ? render_quote(diag, loc) : "";
	text = st_arena_printf(diag->arena, "%s:%u:%u: %s: %s\n%s",
			       source->name, loc->line,
			       loc->column ? loc->column : 1, word,
			       message->text, quote ? quote : "");
	return text ? text : "stretto: error: out of memory\n";
}

const char *
st_status_text(enum st_status status)
{
	switch (status) {
#define X(name, code, text) case ST_##name: return text;
		ST_STATUSES(X)
#undef X
	}
	return "unknown status";
}
