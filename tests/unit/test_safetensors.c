/* Files written and read back, sharded models, and the folder of bad files,
 * each with the message it must give. */

#include "runtime/safetensors.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture {
	struct st_arena arena;
	struct st_diag diag;
	struct st_safetensors file;
	char folder[64];
};

static void
begin(struct fixture *f)
{
	st_arena_init(&f->arena, NULL);
	st_diag_init(&f->diag, &f->arena);
	memset(&f->file, 0, sizeof(f->file));
	strcpy(f->folder, "/tmp/st-safetensors-XXXXXX");
	cr_assert(mkdtemp(f->folder));
}

static const char *
in_folder(struct fixture *f, const char *name)
{
	return st_arena_printf(&f->arena, "%s/%s", f->folder, name);
}

/* How many files the folder holds; removes them if asked to. */
static int
count_files(const struct fixture *f, bool empty)
{
	DIR *dir = opendir(f->folder);
	struct dirent *entry;
	int count = 0;

	cr_assert(dir);
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.') {
			count++;
			if (empty)
				unlinkat(dirfd(dir), entry->d_name, 0);
		}
	closedir(dir);
	return count;
}

static void
finish(struct fixture *f)
{
	st_safetensors_close(&f->file);
	count_files(f, true);
	rmdir(f->folder);
	st_arena_finish(&f->arena);
}

static void
put_file(const char *path, const void *data, size_t length)
{
	FILE *file = fopen(path, "wb");

	cr_assert(file, "%s", path);
	cr_assert_eq(fwrite(data, 1, length, file), length);
	cr_assert_eq(fclose(file), 0);
}

static char *
get_file(struct fixture *f, const char *path, size_t *length)
{
	FILE *file = fopen(path, "rb");
	char *data = st_arena_alloc(&f->arena, 1 << 16);

	cr_assert(file, "%s", path);
	*length = fread(data, 1, 1 << 16, file);
	fclose(file);
	return data;
}

/* The message of an index or header, after the path that begins it. */
static const char *
message(struct fixture *f, size_t index, const char *path)
{
	const char *text = st_diag_render(&f->diag, index);

	cr_assert_eq(strncmp(text, path, strlen(path)), 0, "%s", text);
	return text + strlen(path);
}

static void
write_sample(struct fixture *f, const char *path)
{
	static const int64_t matrix[] = {2, 3}, none[] = {4, 0};
	static const float w[] = {1, -2, 3.5f, 0, 1e-30f, 7};
	static const double s = 0.25;
	static const unsigned char b[] = {9};
	struct st_safetensors_writer w_;
	struct st_diag *d = &f->diag;
	int64_t one = 1;

	st_safetensors_writer_init(&w_, &f->arena);
	cr_assert_eq(st_safetensors_note(&w_, d, "format", "pt"), ST_OK);
	cr_assert_eq(st_safetensors_note(&w_, d, "step \"7\"", "\xc3\xa9\n"),
		     ST_OK);
	cr_assert_eq(
		st_safetensors_declare(&w_, d, "w", ST_FILE_F32, 2, matrix),
		ST_OK);
	cr_assert_eq(
		st_safetensors_declare(&w_, d, "scalar", ST_FILE_F64, 0, NULL),
		ST_OK);
	cr_assert_eq(
		st_safetensors_declare(&w_, d, "empty", ST_FILE_BF16, 2, none),
		ST_OK);
	cr_assert_eq(
		st_safetensors_declare(&w_, d, "a.b", ST_FILE_BOOL, 1, &one),
		ST_OK);
	cr_assert_eq(st_safetensors_create(&w_, d, path), ST_OK);
	/* Pieces in any order. */
	cr_assert_eq(st_safetensors_write(&w_, d, 3, 0, b, 1), ST_OK);
	cr_assert_eq(st_safetensors_write(&w_, d, 0, 8, w + 2, 16), ST_OK);
	cr_assert_eq(st_safetensors_write(&w_, d, 1, 0, &s, 8), ST_OK);
	cr_assert_eq(st_safetensors_write(&w_, d, 0, 0, w, 8), ST_OK);
	cr_assert_neq(access(path, F_OK), 0, "visible before commit");
	cr_assert_eq(st_safetensors_commit(&w_, d), ST_OK);
}

Test(safetensors, round_trip)
{
	static const float w[] = {1, -2, 3.5f, 0, 1e-30f, 7};
	const struct st_tensor_entry *tensor;
	struct fixture f;
	const char *path;
	double s = 0;

	begin(&f);
	path = in_folder(&f, "x.safetensors");
	write_sample(&f, path);
	cr_expect_eq(count_files(&f, false), 1);
	cr_assert_eq(st_safetensors_open(&f.file, &f.diag, path), ST_OK);
	cr_assert_eq(f.file.count, 4);
	cr_expect_str_eq(f.file.tensors[0].name, "w");
	cr_expect_str_eq(f.file.tensors[3].name, "a.b");
	tensor = st_safetensors_find(&f.file, "w");
	cr_assert(tensor);
	cr_expect_eq(tensor->dtype, ST_FILE_F32);
	cr_assert_eq(tensor->rank, 2);
	cr_expect_eq(tensor->extent[0], 2);
	cr_expect_eq(tensor->extent[1], 3);
	cr_expect_eq(tensor->bytes, 24);
	cr_expect_eq((uintptr_t)tensor->data % 8, 0);
	cr_expect_eq(memcmp(tensor->data, w, 24), 0);
	tensor = st_safetensors_find(&f.file, "scalar");
	cr_assert(tensor && tensor->rank == 0 && tensor->bytes == 8);
	cr_expect_eq(st_safetensors_read(&f.file, &f.diag, tensor, 0, &s, 8),
		     ST_OK);
	cr_expect_eq(s, 0.25);
	cr_expect_eq(st_safetensors_read(&f.file, &f.diag, tensor, 1, &s, 8),
		     ST_EUSAGE);
	tensor = st_safetensors_find(&f.file, "empty");
	cr_assert(tensor && tensor->bytes == 0);
	cr_expect_null(tensor->data);
	tensor = st_safetensors_find(&f.file, "a.b");
	cr_assert(tensor);
	cr_expect_eq(*(const unsigned char *)tensor->data, 9);
	cr_expect_null(st_safetensors_find(&f.file, "a"));
	cr_expect_null(st_safetensors_find(&f.file, ""));
	cr_expect_null(st_safetensors_find(&f.file, "zz"));
	cr_expect_str_eq(st_safetensors_metadata(&f.file, "step \"7\""),
			 "\xc3\xa9\n");
	cr_expect_null(st_safetensors_metadata(&f.file, "x"));
	finish(&f);
}

Test(safetensors, same_bytes_twice)
{
	struct fixture f;
	size_t one, two;
	char *a, *b;

	begin(&f);
	write_sample(&f, in_folder(&f, "1.safetensors"));
	write_sample(&f, in_folder(&f, "2.safetensors"));
	a = get_file(&f, in_folder(&f, "1.safetensors"), &one);
	b = get_file(&f, in_folder(&f, "2.safetensors"), &two);
	cr_assert_eq(one, two);
	cr_expect_eq(memcmp(a, b, one), 0);
	cr_expect_eq((8 + (unsigned char)a[0] + 256 * (unsigned char)a[1]) % 8,
		     0);
	finish(&f);
}

Test(safetensors, no_tensors)
{
	struct st_safetensors_writer w;
	struct fixture f;
	const char *path;

	begin(&f);
	path = in_folder(&f, "x.safetensors");
	st_safetensors_writer_init(&w, &f.arena);
	cr_assert_eq(st_safetensors_create(&w, &f.diag, path), ST_OK);
	cr_assert_eq(st_safetensors_commit(&w, &f.diag), ST_OK);
	cr_assert_eq(st_safetensors_open(&f.file, &f.diag, path), ST_OK);
	cr_expect_eq(f.file.count, 0);
	cr_expect_null(st_safetensors_find(&f.file, "x"));
	finish(&f);
}

/* An older file stays as it was until the new one is complete. */
Test(safetensors, incomplete)
{
	struct st_safetensors_writer w;
	int64_t extent = 3;
	struct fixture f;
	const char *path;
	size_t length;

	begin(&f);
	path = in_folder(&f, "x.safetensors");
	put_file(path, "old", 3);
	st_safetensors_writer_init(&w, &f.arena);
	cr_assert_eq(st_safetensors_declare(&w, &f.diag, "a", ST_FILE_U8, 1,
					    &extent),
		     ST_OK);
	cr_assert_eq(st_safetensors_create(&w, &f.diag, path), ST_OK);
	cr_expect_eq(st_safetensors_write(&w, &f.diag, 0, 2, "xy", 2),
		     ST_EUSAGE);
	cr_expect_eq(st_safetensors_write(&w, &f.diag, 0, 1, "xy", 2), ST_OK);
	cr_expect_eq(count_files(&f, false), 2);
	cr_expect_eq(st_safetensors_commit(&w, &f.diag), ST_EUSAGE);
	cr_assert_eq(f.diag.count, 2);
	cr_expect_str_eq(f.diag.messages[0].text,
			 "tensor 'a' has 3 bytes, 2 were to be written from 2 "
			 "on");
	cr_expect_str_eq(f.diag.messages[1].text,
			 "tensor 'a': 2 of 3 bytes were written");
	cr_expect_eq(count_files(&f, false), 1);
	cr_expect_eq(memcmp(get_file(&f, path, &length), "old", 3), 0);
	finish(&f);
}

Test(safetensors, declarations)
{
	int64_t negative = -1, large[] = {INT64_MAX, 2}, half = INT64_MAX;
	struct st_safetensors_writer w;
	struct fixture f;
	struct st_diag *d = &f.diag;

	begin(&f);
	st_safetensors_writer_init(&w, &f.arena);
	cr_expect_eq(
		st_safetensors_declare(&w, d, "n", ST_FILE_U8, 1, &negative),
		ST_EUSAGE);
	cr_expect_eq(st_safetensors_declare(&w, d, "n", ST_FILE_U8, 2, large),
		     ST_EUSAGE);
	cr_expect_eq(st_safetensors_declare(&w, d, "\xff", ST_FILE_U8, 0, NULL),
		     ST_EUSAGE);
	cr_expect_eq(st_safetensors_declare(&w, d, "__metadata__", ST_FILE_U8,
					    0, NULL),
		     ST_EUSAGE);
	cr_expect_eq(st_safetensors_declare(&w, d, "a", ST_FILE_U8, 1, &half),
		     ST_OK);
	cr_expect_eq(st_safetensors_declare(&w, d, "b", ST_FILE_U8, 0, NULL),
		     ST_EUSAGE, "the sum overflows");
	st_safetensors_writer_init(&w, &f.arena);
	cr_expect_eq(st_safetensors_declare(&w, d, "a", ST_FILE_U8, 0, NULL),
		     ST_OK);
	cr_expect_eq(st_safetensors_declare(&w, d, "a", ST_FILE_U8, 0, NULL),
		     ST_OK);
	cr_expect_eq(st_safetensors_create(&w, d, in_folder(&f, "x")),
		     ST_EUSAGE);
	cr_expect_eq(count_files(&f, false), 0);
	cr_expect_eq(st_safetensors_note(&w, d, "k", "1"), ST_OK);
	cr_expect_eq(st_safetensors_note(&w, d, "k", "2"), ST_EUSAGE);
	finish(&f);
}

/* What the system refuses is reported and leaves nothing behind. */
Test(safetensors, no_room)
{
	struct rlimit old, small = {4096, 4096};
	struct st_safetensors_writer w;
	int64_t extent = 10000;
	struct fixture f;

	begin(&f);
	cr_assert_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
	small.rlim_max = old.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	st_safetensors_writer_init(&w, &f.arena);
	cr_assert_eq(st_safetensors_declare(&w, &f.diag, "a", ST_FILE_U8, 1,
					    &extent),
		     ST_OK);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	cr_expect_eq(st_safetensors_create(&w, &f.diag, in_folder(&f, "x")),
		     ST_EDEVICE);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
	cr_expect_eq(f.diag.count, 1);
	cr_expect_eq(count_files(&f, false), 0);
	cr_expect_eq(
		st_safetensors_create(&w, &f.diag, in_folder(&f, "no/such/x")),
		ST_EINPUT);
	st_safetensors_abort(&w);
	finish(&f);
}

Test(safetensors, paths)
{
	struct fixture f;
	const char *path;

	begin(&f);
	path = in_folder(&f, "none");
	cr_expect_eq(st_safetensors_open(&f.file, &f.diag, path), ST_EINPUT);
	cr_expect_eq(st_safetensors_open(&f.file, &f.diag, f.folder),
		     ST_EINPUT);
	cr_expect_eq(st_safetensors_open(&f.file, &f.diag, "/dev/null"),
		     ST_EINPUT);
	path = in_folder(&f, "fifo");
	cr_assert_eq(mkfifo(path, 0600), 0);
	cr_expect_eq(st_safetensors_open(&f.file, &f.diag, path), ST_EINPUT);
	cr_assert_eq(f.diag.count, 4);
	cr_expect_str_eq(f.diag.messages[1].text,
			 st_arena_printf(&f.arena,
					 "%s: holds neither model.safetensors "
					 "nor model.safetensors.index.json",
					 f.folder));
	cr_expect_str_eq(f.diag.messages[2].text,
			 "/dev/null: not a regular file");
	write_sample(&f, in_folder(&f, "model.safetensors"));
	cr_expect_eq(st_safetensors_open(&f.file, &f.diag, f.folder), ST_OK);
	finish(&f);
}

/* A file that shrinks after it was opened: read(2) notices. */
Test(safetensors, shrinks)
{
	const struct st_tensor_entry *tensor;
	struct fixture f;
	const char *path;
	float w[6];

	begin(&f);
	path = in_folder(&f, "x.safetensors");
	write_sample(&f, path);
	cr_assert_eq(st_safetensors_open(&f.file, &f.diag, path), ST_OK);
	tensor = st_safetensors_find(&f.file, "w");
	cr_assert_eq(truncate(path, (off_t)tensor->offset + 10), 0);
	cr_expect_eq(st_safetensors_read(&f.file, &f.diag, tensor, 0, w, 24),
		     ST_EINPUT);
	cr_assert_eq(f.diag.count, 1);
	cr_expect_eq(f.diag.messages[0].loc.offset, tensor->offset + 10);
	finish(&f);
}

/* One shard with tensors of one byte each, named by the letters of names. */
static void
write_shard(struct fixture *f, const char *name, const char *names)
{
	struct st_safetensors_writer w;

	st_safetensors_writer_init(&w, &f->arena);
	for (const char *c = names; *c; c++)
		cr_assert_eq(st_safetensors_declare(&w, &f->diag,
						    (char[]){*c, '\0'},
						    ST_FILE_U8, 0, NULL),
			     ST_OK);
	cr_assert_eq(st_safetensors_create(&w, &f->diag, in_folder(f, name)),
		     ST_OK);
	for (size_t i = 0; names[i]; i++)
		cr_assert_eq(
			st_safetensors_write(&w, &f->diag, i, 0, names + i, 1),
			ST_OK);
	cr_assert_eq(st_safetensors_commit(&w, &f->diag), ST_OK);
}

Test(safetensors, shards)
{
	static const char index[] =
		"{\"metadata\":{\"total_size\":4},\"weight_map\":"
		"{\"a\":\"2.st\",\"b\":\"1.st\",\"c\":\"2.st\"}}\n";
	const struct st_tensor_entry *tensor;
	struct fixture f;

	begin(&f);
	write_shard(&f, "1.st", "bx");
	write_shard(&f, "2.st", "ca");
	put_file(in_folder(&f, "model.safetensors.index.json"), index,
		 sizeof(index) - 1);
	cr_assert_eq(st_safetensors_open(&f.file, &f.diag, f.folder), ST_OK);
	cr_expect_eq(f.file.count, 3);
	for (const char *c = "abc"; *c; c++) {
		tensor = st_safetensors_find(&f.file, (char[]){*c, '\0'});
		cr_assert(tensor);
		cr_expect_eq(*(const char *)tensor->data, *c);
	}
	cr_expect_null(st_safetensors_find(&f.file, "x"));
	cr_assert_eq(f.diag.count, 1);
	cr_expect_eq(f.diag.messages[0].severity, ST_WARNING);
	cr_expect_str_eq(f.diag.messages[0].text,
			 "tensor 'x' and 0 more that weight_map does not "
			 "place here are left out");
	finish(&f);
}

Test(safetensors, bad_index)
{
	static const struct {
		const char *index, *message;
	} rows[] = {
		{"", ":0: error: expected a value, found end of text\n"},
		{"[]", ":0: error: index: expected object, found array\n"},
		{"{}", ":2: error: weight_map is missing\n"},
		{"{\"weight_map\":{}}", ":17: error: weight_map is empty\n"},
		{"{\"weight_map\":[]}",
		 ":14: error: weight_map: expected object, found array\n"},
		{"{\"weight_map\":{\"a\":1}}",
		 ":19: error: weight_map: expected string, found number\n"},
		{"{\"weight_map\":{\"a\":\"../1.st\"}}",
		 ":19: error: '../1.st' is not the name of a file beside the "
		 "index\n"},
		{"{\"weight_map\":{\"a\":\"/etc/passwd\"}}",
		 ":19: error: '/etc/passwd' is not the name of a file beside "
		 "the index\n"},
		{"{\"weight_map\":{\"a\":\"..\"}}",
		 ":19: error: '..' is not the name of a file beside the "
		 "index\n"},
		{"{\"weight_map\":{\"a\":\"\"}}",
		 ":19: error: '' is not the name of a file beside the "
		 "index\n"},
		{"{\"weight_map\":{\"a\":\"1.st\\u0000\"}}",
		 ":19: error: name of a shard contains a NUL\n"},
		{"{\"weight_map\":{\"a\":\"1.st\",\"a\":\"1.st\"}}",
		 ":26: error: key 'a' appears twice\n"},
		{"{\"weight_map\":{\"a\":\"1.st\",\"b\":\"1.st\"}}",
		 ":26: error: tensor 'b' is not in '1.st'\n"},
		{"{\"weight_map\":{\"a\":\"1.st\"}} x",
		 ":28: error: expected end of text, found 'x'\n"},
	};
	struct fixture f;
	const char *path;

	begin(&f);
	path = in_folder(&f, "model.safetensors.index.json");
	write_shard(&f, "1.st", "a");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		put_file(path, rows[i].index, strlen(rows[i].index));
		f.diag.count = 0;
		cr_expect_eq(st_safetensors_open(&f.file, &f.diag, path),
			     ST_EINPUT, "%s", rows[i].index);
		cr_assert_eq(f.diag.count, 1, "%s", rows[i].index);
		cr_expect_str_eq(message(&f, 0, path), rows[i].message);
	}
	finish(&f);
}

Test(safetensors, missing_shard)
{
	static const char index[] = "{\"weight_map\":{\"a\":\"9.st\"}}";
	struct fixture f;
	const char *path;

	begin(&f);
	path = in_folder(&f, "x.index.json");
	put_file(path, index, sizeof(index) - 1);
	cr_expect_eq(st_safetensors_open(&f.file, &f.diag, path), ST_EINPUT);
	cr_assert_eq(f.diag.count, 2);
	cr_expect_str_eq(f.diag.messages[0].text,
			 st_arena_printf(&f.arena,
					 "%s/9.st: cannot open: No such file "
					 "or directory",
					 f.folder));
	cr_expect_str_eq(message(&f, 1, path), ":19: note: named here\n");
	finish(&f);
}

/* A shard is checked as strictly as a single file. */
Test(safetensors, bad_shard)
{
	static const char index[] = "{\"weight_map\":{\"a\":\"1.st\"}}";
	struct fixture f;
	const char *path;

	begin(&f);
	path = in_folder(&f, "1.st");
	write_shard(&f, "1.st", "ab");
	cr_assert_eq(truncate(path, 100), 0);
	put_file(in_folder(&f, "x.index.json"), index, sizeof(index) - 1);
	cr_expect_eq(st_safetensors_open(&f.file, &f.diag,
					 in_folder(&f, "x.index.json")),
		     ST_EINPUT);
	cr_assert_eq(f.diag.count, 1);
	cr_expect_str_eq(message(&f, 0, path),
			 ":0: error: header of 104 bytes in a file of 100\n");
	finish(&f);
}

static void
check_bad_file(const char *folder, const char *name)
{
	size_t stem = strlen(name) - strlen(".safetensors"), length;
	const char *path, *want, *found;
	struct fixture f;

	begin(&f);
	path = st_arena_printf(&f.arena, "%s/%s", folder, name);
	want = get_file(&f,
			st_arena_printf(&f.arena, "%s/%.*s.err", folder,
					(int)stem, name),
			&length);
	cr_assert(length > 2 && want[0] == '%' && want[1] == 's', "%s", name);
	want = st_arena_printf(&f.arena, "%s%s", path, want + 2);
	cr_expect_eq(st_safetensors_open(&f.file, &f.diag, path), ST_EINPUT,
		     "%s", name);
	cr_assert_eq(f.diag.count, 1, "%s", name);
	found = st_diag_render(&f.diag, 0);
	cr_expect_str_eq(found, want, "%s", found);
	finish(&f);
}

Test(safetensors, bad_files)
{
	static const char folder[] = "tests/bad/safetensors";
	DIR *dir = opendir(folder);
	struct dirent *entry;
	int count = 0;

	cr_assert(dir, "run from the top of the source tree");
	while ((entry = readdir(dir))) {
		const char *ending = strstr(entry->d_name, ".safetensors");

		if (!ending || ending[strlen(".safetensors")])
			continue;
		check_bad_file(folder, entry->d_name);
		count++;
	}
	closedir(dir);
	cr_expect_geq(count, 45);
}

/* Every request for memory may fail, and none may be lost. */
struct failing {
	int left;
	int held;
};

static void *
failing_alloc(void *user, size_t size)
{
	struct failing *failing = user;

	if (failing->left-- <= 0)
		return NULL;
	failing->held++;
	return malloc(size);
}

static void
failing_release(void *user, void *block)
{
	struct failing *failing = user;

	failing->held--;
	free(block);
}

Test(safetensors, out_of_memory)
{
	struct failing failing;
	struct st_allocator allocator = {failing_alloc, failing_release,
					 &failing};
	enum st_status status = ST_EDEVICE;
	char name[] = "tensor with a long name to fill blocks 00000";
	struct st_safetensors_writer w;
	struct fixture f;
	const char *path;

	begin(&f);
	path = in_folder(&f, "x.safetensors");
	st_safetensors_writer_init(&w, &f.arena);
	for (int i = 0; i < 2000; i++) {
		snprintf(name + sizeof(name) - 6, 6, "%05d", i);
		cr_assert_eq(st_safetensors_declare(&w, &f.diag, name,
						    ST_FILE_U8, 0, NULL),
			     ST_OK);
	}
	cr_assert_eq(st_safetensors_create(&w, &f.diag, path), ST_OK);
	for (size_t i = 0; i < 2000; i++)
		cr_assert_eq(st_safetensors_write(&w, &f.diag, i, 0, "", 1),
			     ST_OK);
	cr_assert_eq(st_safetensors_commit(&w, &f.diag), ST_OK);
	for (int i = 0; status != ST_OK; i++) {
		struct st_arena arena;
		struct st_diag diag;

		cr_assert_lt(i, 100);
		failing = (struct failing){i, 0};
		st_arena_init(&arena, &allocator);
		st_diag_init(&diag, &arena);
		status = st_safetensors_open(&f.file, &diag, path);
		cr_expect(status == ST_OK || status == ST_EDEVICE);
		st_safetensors_close(&f.file);
		st_arena_finish(&arena);
		cr_expect_eq(failing.held, 0);
	}
	finish(&f);
}
