/* Where batches come from: formats, splits, and one global order. */

#include "runtime/dataset.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT = 1000, SEQ = 8 };

struct fixture {
	struct st_arena arena;
	struct st_diag diag;
	struct st_dataset set;
	struct st_dataset_options options;
	char path[64];
};

static void
begin(struct fixture *f, const char *ending, const void *data, size_t length)
{
	int descriptor;

	st_arena_init(&f->arena, NULL);
	st_diag_init(&f->diag, &f->arena);
	f->options = st_dataset_defaults();
	snprintf(f->path, sizeof(f->path), "/tmp/st-data-XXXXXX%s", ending);
	descriptor = mkstemps(f->path, (int)strlen(ending));
	cr_assert(descriptor >= 0);
	cr_assert_eq(write(descriptor, data, length), (ssize_t)length);
	close(descriptor);
	memset(&f->set, 0, sizeof(f->set));
}

static void
finish(struct fixture *f)
{
	st_dataset_close(&f->set);
	unlink(f->path);
	st_arena_finish(&f->arena);
}

static enum st_status
open_set(struct fixture *f)
{
	return st_dataset_open(&f->set, &f->diag, f->path, &f->options);
}

static void
expect_error(struct fixture *f, unsigned long long offset, const char *text)
{
	const char *want = st_arena_printf(&f->arena, "%s:%llu: error: %s\n",
					   f->path, offset, text);

	cr_assert_eq(f->diag.count, 1);
	cr_expect_str_eq(st_diag_render(&f->diag, 0), want);
	f->diag.count = 0;
}

/* Every pair of neighbours differs, so a position can be told from a row. */
static void
fill_text(unsigned char *text)
{
	for (int i = 0; i < TEXT; i++)
		text[i] = (unsigned char)(i % 2 ? i / 256 : i % 256);
}

static void
expect_row(const unsigned char *text, const int32_t *tokens,
	   const int32_t *targets, int64_t at)
{
	for (int64_t i = 0; i < SEQ; i++) {
		cr_assert_eq(tokens[i], text[at + i]);
		cr_assert_eq(targets[i], text[at + i + 1]);
	}
}

static int64_t
find_row(const unsigned char *text, const int32_t *tokens)
{
	for (int64_t at = 0; at + SEQ < TEXT; at++) {
		int64_t i = 0;

		while (i < SEQ && tokens[i] == text[at + i])
			i++;
		if (i == SEQ)
			return at;
	}
	return -1;
}

Test(dataset, held_out_windows)
{
	unsigned char text[TEXT];
	int32_t tokens[4 * SEQ], targets[4 * SEQ];
	struct st_batch batch = {ST_SPLIT_HELD_OUT, 0, 4, 0, 4, SEQ};
	struct fixture f;

	fill_text(text);
	begin(&f, ".txt", text, TEXT);
	f.options.holdout = 0.1;
	cr_assert_eq(open_set(&f), ST_OK);
	cr_expect_eq(f.set.tokens, 1000);
	cr_expect_eq(f.set.train, 900);
	cr_expect_eq(f.set.options.vocabulary, 256);
	/* 100 tokens: 12 windows of 8 and a target for the last. */
	cr_expect_eq(st_dataset_windows(&f.set, ST_SPLIT_HELD_OUT, SEQ), 12);
	cr_expect_eq(st_dataset_windows(&f.set, ST_SPLIT_HELD_OUT, 99), 1);
	cr_expect_eq(st_dataset_windows(&f.set, ST_SPLIT_HELD_OUT, 100), 0);
	for (batch.step = 0; batch.step < 3; batch.step++) {
		cr_assert_eq(st_dataset_batch(&f.set, &f.diag, &batch, tokens,
					      targets),
			     ST_OK);
		for (int64_t i = 0; i < 4; i++)
			expect_row(text, tokens + i * SEQ, targets + i * SEQ,
				   900 + (batch.step * 4 + i) * SEQ);
	}
	cr_expect_eq(st_dataset_batch(&f.set, &f.diag, &batch, tokens, targets),
		     ST_EUSAGE);
	expect_error(&f, 0,
		     "window 12 of the held-out part was asked for, it has "
		     "12");
	finish(&f);
}

/* Whoever asks, however the batch is cut, a sample is the same row. */
Test(dataset, global_order)
{
	unsigned char text[TEXT];
	int32_t whole[8 * SEQ], targets[8 * SEQ], part[8 * SEQ], next[8 * SEQ];
	struct fixture f;

	fill_text(text);
	begin(&f, "", text, TEXT);
	f.options.seed = 42;
	cr_assert_eq(open_set(&f), ST_OK);
	for (int64_t step = 0; step < 20; step++) {
		struct st_batch all = {ST_SPLIT_TRAIN, step, 8, 0, 8, SEQ};

		cr_assert_eq(
			st_dataset_batch(&f.set, &f.diag, &all, whole, targets),
			ST_OK);
		for (int64_t ranks = 2; ranks <= 8; ranks *= 2) {
			int64_t rows = 8 / ranks;

			for (int64_t r = 0; r < ranks; r++) {
				struct st_batch mine = {
					ST_SPLIT_TRAIN, step, 8,
					r * rows,       rows, SEQ};

				cr_assert_eq(
					st_dataset_batch(&f.set, &f.diag, &mine,
							 part + r * rows * SEQ,
							 next + r * rows * SEQ),
					ST_OK);
			}
			cr_expect_eq(memcmp(whole, part, sizeof(whole)), 0);
			cr_expect_eq(memcmp(targets, next, sizeof(next)), 0);
		}
		for (int64_t half = 0; half < 2; half++) {
			struct st_batch small = {
				ST_SPLIT_TRAIN, 2 * step + half, 4, 0, 4, SEQ};

			cr_assert_eq(st_dataset_batch(&f.set, &f.diag, &small,
						      part + half * 4 * SEQ,
						      next + half * 4 * SEQ),
				     ST_OK);
		}
		cr_expect_eq(memcmp(whole, part, sizeof(whole)), 0);
	}
	finish(&f);
}

/* Training starts cover the whole training part and nothing beyond; another
 * seed gives another order. */
Test(dataset, training_starts)
{
	enum { DRAWS = 8000, STARTS = 40 };
	unsigned char text[TEXT];
	int32_t tokens[SEQ], targets[SEQ], other[SEQ];
	struct st_batch batch = {ST_SPLIT_TRAIN, 0, 1, 0, 1, SEQ};
	int seen[STARTS] = {0}, same = 0;
	double chi = 0;
	struct fixture f;

	fill_text(text);
	begin(&f, "", text, TEXT);
	/* 48 tokens to train on: 40 starts. */
	f.options.holdout = 0.952;
	f.options.seed = 7;
	cr_assert_eq(open_set(&f), ST_OK);
	cr_assert_eq(f.set.train, 48);
	for (batch.step = 0; batch.step < DRAWS; batch.step++) {
		int64_t at;

		cr_assert_eq(st_dataset_batch(&f.set, &f.diag, &batch, tokens,
					      targets),
			     ST_OK);
		at = find_row(text, tokens);
		cr_assert(at >= 0 && at < STARTS, "start %lld", (long long)at);
		expect_row(text, tokens, targets, at);
		seen[at]++;
		f.set.options.seed = 8;
		cr_assert_eq(st_dataset_batch(&f.set, &f.diag, &batch, other,
					      targets),
			     ST_OK);
		f.set.options.seed = 7;
		same += memcmp(tokens, other, sizeof(tokens)) == 0;
	}
	for (int i = 0; i < STARTS; i++) {
		double expected = (double)DRAWS / STARTS;

		cr_expect_gt(seen[i], 0);
		chi += (seen[i] - expected) * (seen[i] - expected) / expected;
	}
	/* 39 degrees of freedom: above 79 once in 10000 fair generators. */
	cr_expect_lt(chi, 79);
	/* By chance 200 of 8000; 5 standard deviations are 70. */
	cr_expect_lt(same, 270);
	finish(&f);
}

static void
put(unsigned char *at, uint32_t value, int width)
{
	for (int i = 0; i < width; i++)
		at[i] = (unsigned char)(value >> 8 * i);
}

/* 20 tokens 1000 + 37 i behind a header. */
static size_t
make_tokens(unsigned char *out, uint32_t magic, uint32_t version, int width)
{
	memset(out, 0, 1024);
	put(out, magic, 4);
	put(out + 4, version, 4);
	put(out + 8, 20, 4);
	for (uint32_t i = 0; i < 20; i++)
		put(out + 1024 + (int)i * width, 1000 + 37 * i, width);
	return 1024 + 20 * (size_t)width;
}

static void
expect_tokens(struct fixture *f)
{
	struct st_batch batch = {ST_SPLIT_HELD_OUT, 0, 1, 0, 1, SEQ};
	int32_t tokens[SEQ], targets[SEQ];

	f->options.holdout = 0.5;
	cr_assert_eq(open_set(f), ST_OK);
	cr_expect_eq(f->set.tokens, 20);
	cr_assert_eq(
		st_dataset_batch(&f->set, &f->diag, &batch, tokens, targets),
		ST_OK);
	for (int i = 0; i < SEQ; i++) {
		cr_expect_eq(tokens[i], 1000 + 37 * (10 + i));
		cr_expect_eq(targets[i], 1000 + 37 * (11 + i));
	}
}

Test(dataset, token_files)
{
	unsigned char data[2048];
	struct fixture f;
	size_t length;

	length = make_tokens(data, 20240520, 1, 2);
	begin(&f, ".bin", data, length);
	expect_tokens(&f);
	cr_expect_eq(f.set.options.vocabulary, 65536);
	finish(&f);
	begin(&f, ".bin", data + 1024, length - 1024);
	expect_tokens(&f);
	finish(&f);
	length = make_tokens(data, 20240801, 7, 4);
	begin(&f, ".bin", data, length);
	expect_tokens(&f);
	cr_expect_eq(f.set.options.vocabulary, (int64_t)INT32_MAX + 1);
	finish(&f);
	/* The same file as bytes, on request. */
	begin(&f, ".bin", data, length);
	f.options.format = ST_DATASET_BYTES;
	cr_expect_eq(open_set(&f), ST_OK);
	cr_expect_eq(f.set.tokens, (int64_t)length);
	finish(&f);
}

Test(dataset, bad_files)
{
	unsigned char data[2048];
	struct fixture f;
	size_t length;

	begin(&f, ".bin", "abc", 3);
	cr_expect_eq(open_set(&f), ST_EINPUT);
	expect_error(&f, 3, "file of 16-bit tokens has an odd number of bytes");
	finish(&f);
	begin(&f, ".txt", "", 0);
	cr_expect_eq(open_set(&f), ST_EINPUT);
	expect_error(&f, 0, "file ends after 0 of at least 2 tokens");
	finish(&f);
	begin(&f, ".bin", "ab", 2);
	cr_expect_eq(open_set(&f), ST_EINPUT);
	expect_error(&f, 2, "file ends after 1 of at least 2 tokens");
	finish(&f);
	length = make_tokens(data, 20240520, 2, 2);
	begin(&f, ".bin", data, length);
	cr_expect_eq(open_set(&f), ST_EINPUT);
	expect_error(&f, 4, "token file has version 2, want 1");
	finish(&f);
	make_tokens(data, 20240801, 7, 4);
	begin(&f, ".bin", data, 1000);
	cr_expect_eq(open_set(&f), ST_EINPUT);
	expect_error(&f, 1000, "file ends inside its header of 1024 bytes");
	finish(&f);
	length = make_tokens(data, 20240801, 7, 4);
	begin(&f, ".bin", data, length - 1);
	cr_expect_eq(open_set(&f), ST_EINPUT);
	expect_error(&f, 8,
		     "header says 20 tokens of 4 bytes, the file has 79 bytes "
		     "behind it");
	finish(&f);
	begin(&f, ".txt", "abcdef", 6);
	f.options.holdout = NAN;
	cr_expect_eq(open_set(&f), ST_EUSAGE);
	finish(&f);
}

Test(dataset, bad_batches)
{
	unsigned char data[2048];
	struct st_batch batch = {ST_SPLIT_HELD_OUT, 0, 1, 0, 1, SEQ};
	int32_t tokens[SEQ], targets[SEQ];
	struct fixture f;
	size_t length = make_tokens(data, 20240520, 1, 2);

	begin(&f, ".bin", data, length);
	f.options.holdout = 0.5;
	f.options.vocabulary = 1000 + 37 * 15; /* token 15 is the first out */
	cr_assert_eq(open_set(&f), ST_OK);
	cr_expect_eq(st_dataset_batch(&f.set, &f.diag, &batch, tokens, targets),
		     ST_EINPUT);
	expect_error(&f, 1024 + 15 * 2,
		     "token 1555 is outside the vocabulary of 1555");
	finish(&f);
	begin(&f, ".bin", data, length);
	f.options.holdout = 0.2;
	cr_assert_eq(open_set(&f), ST_OK);
	cr_expect_eq(st_dataset_batch(&f.set, &f.diag, &batch, tokens, targets),
		     ST_EINPUT);
	expect_error(&f, 1024 + 16 * 2,
		     "the held-out part has 4 tokens, a row of 8 needs one "
		     "more than it is long");
	finish(&f);
	begin(&f, ".txt", "abcdefgh", 8);
	f.options.holdout = 0;
	batch.split = ST_SPLIT_TRAIN;
	cr_assert_eq(open_set(&f), ST_OK);
	cr_expect_eq(st_dataset_batch(&f.set, &f.diag, &batch, tokens, targets),
		     ST_EINPUT);
	expect_error(&f, 0,
		     "the training part has 8 tokens, a row of 8 needs one "
		     "more than it is long");
	finish(&f);
}

/* Past its new end the map of a file that shrank is a signal, a read is an
 * error. */
Test(dataset, shrinks)
{
	static unsigned char text[1 << 16];
	struct st_batch batch = {ST_SPLIT_HELD_OUT, 0, 1, 0, 1, SEQ};
	int32_t tokens[SEQ], targets[SEQ];
	struct st_entropy entropy;
	struct fixture f;

	begin(&f, ".txt", text, sizeof(text));
	f.options.holdout = 0.5;
	cr_assert_eq(open_set(&f), ST_OK);
	cr_assert_eq(truncate(f.path, 10), 0);
	cr_expect_eq(st_dataset_batch(&f.set, &f.diag, &batch, tokens, targets),
		     ST_EINPUT);
	expect_error(&f, 1 << 15,
		     "file ends here, it was longer when it was opened");
	cr_expect_eq(st_dataset_entropy(&f.set, &f.diag, &entropy), ST_EINPUT);
	expect_error(&f, 1 << 15,
		     "file ends here, it was longer when it was opened");
	finish(&f);
}

Test(dataset, entropy)
{
	/* The held-out half: a b a b a b a b c.  Pairs: ab 4, ba 3, bc 1.
	 * Second of each: b 4, a 3, c 1.  After b: 3/4, 1/4; after a: sure. */
	static const char text[] = "xxxxxxxxxababababc";
	struct st_entropy entropy;
	struct fixture f;

	begin(&f, "", text, sizeof(text) - 1);
	f.options.holdout = 0.5;
	cr_assert_eq(open_set(&f), ST_OK);
	cr_assert_eq(f.set.train, 9);
	cr_assert_eq(st_dataset_entropy(&f.set, &f.diag, &entropy), ST_OK);
	cr_expect_lt(
		fabs(entropy.unigram -
		     (0.5 * log(2) + 0.375 * log(8.0 / 3) + 0.125 * log(8))),
		1e-14);
	cr_expect_lt(fabs(entropy.bigram -
			  0.5 * (0.75 * log(4.0 / 3) + 0.25 * log(4))),
		     1e-14);
	finish(&f);
	begin(&f, "", text, sizeof(text) - 1);
	cr_assert_eq(open_set(&f), ST_OK); /* 5 % of 18 is nothing */
	cr_expect_eq(st_dataset_entropy(&f.set, &f.diag, &entropy), ST_EINPUT);
	expect_error(&f, 18, "the held-out part has 0 tokens, want at least 2");
	finish(&f);
	begin(&f, ".bin", text, sizeof(text) - 1);
	cr_assert_eq(open_set(&f), ST_OK);
	cr_expect_eq(st_dataset_entropy(&f.set, &f.diag, &entropy), ST_EUSAGE);
	finish(&f);
}
