/* Block-chained arena: a bump pointer, blocks that double up to a cap. */

#include "ir/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	ALIGN = 16,
	FIRST_BLOCK = 1 << 14,
	LARGEST_BLOCK = 1 << 24,
};

struct st_arena_block {
	struct st_arena_block *next;
	size_t size; /* payload bytes */
	size_t used;
	size_t pad; /* keeps the payload aligned to 16 */
};

static void *
system_alloc(void *user, size_t size)
{
	(void)user;
	return malloc(size);
}

static void
system_release(void *user, void *block)
{
	(void)user;
	free(block);
}

void
st_arena_init(struct st_arena *arena, const struct st_allocator *allocator)
{
	memset(arena, 0, sizeof(*arena));
	if (allocator)
		arena->allocator = *allocator;
}

void
st_arena_finish(struct st_arena *arena)
{
	struct st_arena_block *block = arena->head;
	struct st_allocator allocator = arena->allocator;

	while (block) {
		struct st_arena_block *next = block->next;

		if (allocator.release)
			allocator.release(allocator.user, block);
		else
			system_release(NULL, block);
		block = next;
	}
	st_arena_init(arena, &allocator);
}

static struct st_arena_block *
add_block(struct st_arena *arena, size_t least)
{
	size_t size = arena->head ? arena->head->size * 2 : FIRST_BLOCK;
	struct st_arena_block *block;

	if (size > LARGEST_BLOCK)
		size = LARGEST_BLOCK;
	if (size < least)
		size = least;
	if (size > SIZE_MAX - sizeof(*block))
		return NULL;
	if (arena->allocator.alloc)
		block = arena->allocator.alloc(arena->allocator.user,
					       size + sizeof(*block));
	else
		block = system_alloc(NULL, size + sizeof(*block));
	if (!block)
		return NULL;
	block->next = arena->head;
	block->size = size;
	block->used = 0;
	arena->head = block;
	arena->reserved += size;
	return block;
}

void *
st_arena_alloc(struct st_arena *arena, size_t size)
{
	struct st_arena_block *block = arena->head;
	char *result;

	if (size > SIZE_MAX - ALIGN) {
		arena->failed = 1;
		return NULL;
	}
	size = (size + ALIGN - 1) / ALIGN * ALIGN;
	if (size == 0)
		size = ALIGN;
	if (!block || block->size - block->used < size)
		block = add_block(arena, size);
	if (!block) {
		arena->failed = 1;
		return NULL;
	}
	result = (char *)(block + 1) + block->used;
	block->used += size;
	arena->used += size;
	return memset(result, 0, size);
}

void *
st_arena_array(struct st_arena *arena, size_t count, size_t size)
{
	if (size && count > SIZE_MAX / size) {
		arena->failed = 1;
		return NULL;
	}
	return st_arena_alloc(arena, count * size);
}

char *
st_arena_strndup(struct st_arena *arena, const char *text, size_t length)
{
	char *copy = st_arena_alloc(arena, length + 1);

	if (copy)
		memcpy(copy, text, length);
	return copy;
}

char *
st_arena_printf(struct st_arena *arena, const char *format, ...)
{
	va_list args;
	char *text;
	int length;

	va_start(args, format);
	length = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (length < 0)
		return NULL;
	text = st_arena_alloc(arena, (size_t)length + 1);
	if (!text)
		return NULL;
	va_start(args, format);
	vsnprintf(text, (size_t)length + 1, format, args);
	va_end(args);
	return text;
}

void *
st_arena_grow(struct st_arena *arena, void *old, size_t count,
	      size_t *capacity, size_t want, size_t size)
{
	size_t larger = *capacity ? *capacity * 2 : 16;
	void *fresh;

	if (want <= *capacity)
		return old;
	if (larger < want)
		larger = want;
	fresh = st_arena_array(arena, larger, size);
	if (!fresh)
		return NULL;
	if (count)
		memcpy(fresh, old, count * size);
	*capacity = larger;
	return fresh;
}
