/* Prints or copies a safetensors file, for test_safetensors.py. */

#include "runtime/safetensors.h"

#include <stdio.h>
#include <string.h>

static void
print(const struct st_safetensors *file)
{
	for (size_t i = 0; i < file->count; i++) {
		const struct st_tensor_entry *t = &file->tensors[i];
		const unsigned char *data = t->data;

		printf("%s %s ", t->name, st_file_dtype_name(t->dtype));
		for (uint32_t j = 0; j < t->rank; j++)
			printf("%s%lld", j ? "," : "", (long long)t->extent[j]);
		putchar(' ');
		for (uint64_t j = 0; j < t->bytes; j++)
			printf("%02x", data[j]);
		putchar('\n');
	}
}

static enum st_status
copy(const struct st_safetensors *file, struct st_diag *diag, const char *to)
{
	struct st_safetensors_writer writer;

	st_safetensors_writer_init(&writer, diag->arena);
	for (size_t i = 0; i < file->metadata_count; i++)
		ST_TRY(st_safetensors_note(&writer, diag, file->metadata[i].key,
					   file->metadata[i].value));
	for (size_t i = 0; i < file->count; i++) {
		const struct st_tensor_entry *t = &file->tensors[i];

		ST_TRY(st_safetensors_declare(&writer, diag, t->name, t->dtype,
					      t->rank, t->extent));
	}
	ST_TRY(st_safetensors_create(&writer, diag, to));
	for (size_t i = 0; i < file->count; i++)
		ST_TRY(st_safetensors_write(&writer, diag, i, 0,
					    file->tensors[i].data,
					    file->tensors[i].bytes));
	return st_safetensors_commit(&writer, diag);
}

int
main(int argc, char **argv)
{
	struct st_safetensors file = {0};
	struct st_arena arena;
	struct st_diag diag;
	enum st_status status = ST_EUSAGE;

	st_arena_init(&arena, NULL);
	st_diag_init(&diag, &arena);
	if (argc >= 3)
		status = st_safetensors_open(&file, &diag, argv[2]);
	if (status == ST_OK && strcmp(argv[1], "cat") == 0)
		print(&file);
	else if (status == ST_OK && argc == 4)
		status = copy(&file, &diag, argv[3]);
	for (size_t i = 0; i < diag.count; i++)
		fputs(st_diag_render(&diag, i), stderr);
	st_safetensors_close(&file);
	st_arena_finish(&arena);
	return (int)status;
}
