/* Growing text, interned strings, nearest word. */

#include "ir/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
st_buffer_init(struct st_buffer *buffer, struct st_arena *arena)
{
	memset(buffer, 0, sizeof(*buffer));
	buffer->arena = arena;
	buffer->text = "";
}

void
st_buffer_add(struct st_buffer *buffer, const char *text, size_t length)
{
	char *grown = buffer->text;

	/* What is outgrown stays in the arena, so text may lie in it. */
	if (buffer->length + length >= buffer->capacity)
		grown = st_arena_grow(buffer->arena, buffer->text,
				      buffer->length, &buffer->capacity,
				      buffer->length + length + 1, 1);
	if (!grown)
		return;
	buffer->text = grown;
	memcpy(grown + buffer->length, text, length);
	buffer->length += length;
	grown[buffer->length] = '\0';
}

void
st_buffer_puts(struct st_buffer *buffer, const char *text)
{
	st_buffer_add(buffer, text, strlen(text));
}

void
st_buffer_printf(struct st_buffer *buffer, const char *format, ...)
{
	char stack[256];
	va_list args;
	char *text = stack;
	int length;

	va_start(args, format);
	length = vsnprintf(stack, sizeof(stack), format, args);
	va_end(args);
	if (length < 0)
		return;
	if ((size_t)length >= sizeof(stack)) {
		text = st_arena_alloc(buffer->arena, (size_t)length + 1);
		if (!text)
			return;
		va_start(args, format);
		vsnprintf(text, (size_t)length + 1, format, args);
		va_end(args);
	}
	st_buffer_add(buffer, text, (size_t)length);
}

void
st_buffer_double(struct st_buffer *buffer, double value)
{
	char text[40];

	for (int digits = 1; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (isnan(value) || strtod(text, NULL) == value)
			break;
	}
	if (!strpbrk(text, ".enia"))
		strncat(text, ".0", sizeof(text) - strlen(text) - 1);
	st_buffer_puts(buffer, text);
}

enum { FIRST_SLOTS = 1024 };

static uint64_t
hash(const char *text, size_t length)
{
	uint64_t h = 14695981039346656037u;

	for (size_t i = 0; i < length; i++)
		h = (h ^ (unsigned char)text[i]) * 1099511628211u;
	return h ^ h >> 29;
}

int
st_names_init(struct st_names *names, struct st_arena *arena)
{
	memset(names, 0, sizeof(*names));
	names->arena = arena;
	names->slots = st_arena_array(arena, FIRST_SLOTS, sizeof(uint32_t));
	names->slot_count = FIRST_SLOTS;
	if (!names->slots)
		return -1;
	st_names_add(names, "", 0);
	return names->count == 1 ? 0 : -1;
}

/* The slot that holds text or the free one where it belongs. */
static uint32_t *
find_slot(const struct st_names *names, const char *text, size_t length)
{
	size_t mask = names->slot_count - 1;
	size_t at = hash(text, length) & mask;

	while (names->slots[at]) {
		uint32_t number = names->slots[at] - 1;

		if (names->lengths[number] == length &&
		    memcmp(names->texts[number], text, length) == 0)
			break;
		at = (at + 1) & mask;
	}
	return &names->slots[at];
}

static int
rehash(struct st_names *names)
{
	size_t larger = names->slot_count * 2;
	uint32_t *slots = st_arena_array(names->arena, larger, sizeof(*slots));

	if (!slots)
		return -1;
	names->slots = slots;
	names->slot_count = larger;
	for (size_t i = 0; i < names->count; i++)
		*find_slot(names, names->texts[i], names->lengths[i]) =
			(uint32_t)i + 1;
	return 0;
}

uint32_t
st_names_add(struct st_names *names, const char *text, size_t length)
{
	uint32_t *slot = find_slot(names, text, length);
	size_t capacity = names->capacity;
	const char **texts;
	uint32_t *lengths;
	char *copy;

	if (*slot)
		return *slot - 1;
	if (names->count * 2 > names->slot_count) {
		if (rehash(names))
			return 0;
		slot = find_slot(names, text, length);
	}
	lengths = st_arena_grow(names->arena, names->lengths, names->count,
				&capacity, names->count + 1, sizeof(*lengths));
	texts = st_arena_grow(names->arena, names->texts, names->count,
			      &names->capacity, names->count + 1,
			      sizeof(*texts));
	copy = st_arena_strndup(names->arena, text, length);
	if (!lengths || !texts || !copy)
		return 0;
	names->lengths = lengths;
	names->texts = texts;
	texts[names->count] = copy;
	lengths[names->count] = (uint32_t)length;
	names->count++;
	*slot = (uint32_t)names->count;
	return (uint32_t)names->count - 1;
}

uint32_t
st_names_find(const struct st_names *names, const char *text, size_t length)
{
	return *find_slot(names, text, length) - 1;
}

enum { LONGEST_WORD = 64, FARTHEST = 2 };

static size_t
distance(const char *a, const char *b)
{
	size_t row[LONGEST_WORD + 1], n = strlen(a), m = strlen(b);

	if (n > LONGEST_WORD || m > LONGEST_WORD)
		return LONGEST_WORD;
	for (size_t j = 0; j <= m; j++)
		row[j] = j;
	for (size_t i = 1; i <= n; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= m; j++) {
			size_t best = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[m];
}

const char *
st_nearest(const char *word, const char *const *list)
{
	const char *best = NULL;
	size_t least = FARTHEST + 1;

	for (; *list; list++) {
		size_t d = distance(word, *list);

		if (d < least && d < strlen(word)) {
			least = d;
			best = *list;
		}
	}
	return best;
}
