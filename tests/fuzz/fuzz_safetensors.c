/*
 * Any bytes as a safetensors file: the reader refuses them with a message or
 * hands out tensors that lie inside the file, do not overlap, and can be
 * found by name.
 */

#include "runtime/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
require(int truth, const char *what)
{
	if (!truth) {
		fprintf(stderr, "fuzz_safetensors: %s\n", what);
		abort();
	}
}

static void
check_tensors(const struct st_safetensors *file, struct st_diag *diag,
	      const uint8_t *data, size_t size)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < file->count; i++) {
		const struct st_tensor_entry *t = &file->tensors[i];
		uint8_t last;

		require(t->offset <= size && t->bytes <= size - t->offset,
			"a tensor lies outside the file");
		require(st_safetensors_find(file, t->name) == t,
			"a tensor is not found by its name");
		sum += t->bytes;
		if (t->bytes == 0)
			continue;
		require(memcmp(t->data, data + t->offset, t->bytes) == 0,
			"the map holds other bytes");
		require(st_safetensors_read(file, diag, t, t->bytes - 1, &last,
					    1) == ST_OK &&
				last == data[t->offset + t->bytes - 1],
			"read gives other bytes");
	}
	require(sum <= size, "tensors overlap");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[64];
	struct st_arena arena;
	struct st_diag diag;
	struct st_safetensors file;
	FILE *memory;

	snprintf(path, sizeof(path), "/dev/shm/st-fuzz-%ld", (long)getpid());
	memory = fopen(path, "wb");
	require(memory != NULL, "cannot create the input file");
	require(size == 0 || fwrite(data, size, 1, memory) == 1, "write");
	fclose(memory);
	st_arena_init(&arena, NULL);
	st_diag_init(&diag, &arena);
	if (st_safetensors_open(&file, &diag, path) == ST_OK)
		check_tensors(&file, &diag, data, size);
	else
		require(diag.errors == 1 && !diag.full,
			"refused without one message");
	for (size_t i = 0; i < diag.count; i++)
		require(st_diag_render(&diag, i)[0] != '\0', "no text");
	st_safetensors_close(&file);
	st_arena_finish(&arena);
	unlink(path);
	return 0;
}
