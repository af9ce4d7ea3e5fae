#ifndef ST_TEXT_H
#define ST_TEXT_H

/*
 * Two small containers for text: a buffer that grows, and a table that
 * gives equal strings equal numbers.
 */

#include <stddef.h>
#include <stdint.h>

#include "ir/arena.h"

struct st_buffer {
	struct st_arena *arena;
	char *text; /* always NUL-terminated once anything was added */
	size_t length, capacity;
};

void st_buffer_init(struct st_buffer *buffer, struct st_arena *arena);
/* text may lie in the buffer itself. */
void st_buffer_add(struct st_buffer *buffer, const char *text, size_t length);
void st_buffer_puts(struct st_buffer *buffer, const char *text);
void st_buffer_printf(struct st_buffer *buffer, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Shortest decimal form that reads back as the same double; always holds a
 * '.', an exponent or "inf"/"nan", so that it reads back as a float. */
void st_buffer_double(struct st_buffer *buffer, double value);

/* Interned strings.  Number 0 is the empty string. */
struct st_names {
	struct st_arena *arena;
	const char **texts;
	uint32_t *lengths;
	size_t count, capacity;
	uint32_t *slots; /* open addressing; 0 = free, else number + 1 */
	size_t slot_count;
};

/* Returns 0, or -1 when memory is exhausted. */
int st_names_init(struct st_names *names, struct st_arena *arena);

/* The number of text; 0 when memory is exhausted (arena->failed is set). */
uint32_t st_names_add(struct st_names *names, const char *text, size_t length);

/* The number of text, or UINT32_MAX if it was never added. */
uint32_t st_names_find(const struct st_names *names, const char *text,
		       size_t length);

static inline const char *
st_names_text(const struct st_names *names, uint32_t number)
{
	return names->texts[number];
}

/*
 * The entry of a NULL-terminated list that is nearest to word by edit
 * distance, for "did you mean"; NULL if none is within two edits.
 */
const char *st_nearest(const char *word, const char *const *list);

#endif
