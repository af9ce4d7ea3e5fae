#ifndef ST_ARENA_H
#define ST_ARENA_H

/*
 * Memory that dies together.
 *
 * One arena owns everything of one compilation: graph, names, diagnostics.
 * Passes use a second one as scratch.  Nothing is freed singly; arrays that
 * grow leave their old copy behind until the arena ends, so a pointer into
 * an array is valid only until the next push to that array.  References
 * between nodes are therefore 32-bit indices, never pointers.
 *
 * The system allocator is a parameter, so that tests can count requests and
 * fail the n-th one.
 */

#include <stddef.h>
#include <stdint.h>

struct st_allocator {
	/* Returns NULL on failure; size is never 0. */
	void *(*alloc)(void *user, size_t size);
	void (*release)(void *user, void *block);
	void *user;
};

struct st_arena_block;

struct st_arena {
	struct st_allocator allocator;
	struct st_arena_block *head; /* the block that is being filled */
	size_t used;                 /* bytes handed out */
	size_t reserved;             /* bytes taken from the allocator */
	int failed;                  /* sticky: a request was refused */
};

/* allocator may be NULL for malloc and free.  Allocates nothing yet. */
void st_arena_init(struct st_arena *arena,
		   const struct st_allocator *allocator);

/* Releases every block; the arena may be used again.  Accepts zeroes. */
void st_arena_finish(struct st_arena *arena);

/* Zeroed, aligned to 16 bytes.  NULL when memory is exhausted; the arena
 * then stays `failed`, so a caller may check once at the end. */
void *st_arena_alloc(struct st_arena *arena, size_t size);

/* size * count with the overflow check. */
void *st_arena_array(struct st_arena *arena, size_t count, size_t size);

/* A NUL-terminated copy of length bytes. */
char *st_arena_strndup(struct st_arena *arena, const char *text, size_t length);

/* printf into the arena; NULL when memory is exhausted. */
char *st_arena_printf(struct st_arena *arena, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Growing arrays.  `grow` returns an array that holds at least want
 * elements, copying count old ones; *capacity is updated.  NULL when memory
 * is exhausted (the old array is still valid).
 */
void *st_arena_grow(struct st_arena *arena, void *old, size_t count,
		    size_t *capacity, size_t want, size_t size);

#endif
