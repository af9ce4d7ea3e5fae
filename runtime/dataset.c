/* Token files, batches of them, and how predictable they are. */

#include "runtime/dataset.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* The headers of token files with one: 256 int32, magic, version, count.
 * A file without a header cannot begin like this by chance: the first two
 * ids would be above 55000, beyond the vocabularies that use uint16. */
enum {
	HEADER_BYTES = 1024,
	MAGIC_U16 = 20240520,
	VERSION_U16 = 1,
	MAGIC_U32 = 20240801,
	VERSION_U32 = 7,
};

struct st_dataset_options
st_dataset_defaults(void)
{
	return (struct st_dataset_options){ST_DATASET_AUTO, 0.05, 0, 0};
}

static struct st_loc
loc_at(const struct st_dataset *dataset, uint64_t offset)
{
	return st_mapfile_loc(&dataset->file, offset);
}

static uint64_t
load(const unsigned char *from, unsigned width)
{
	uint64_t value = 0;

	for (unsigned i = width; i > 0; i--)
		value = value << 8 | from[i - 1];
	return value;
}

static enum st_status
check_header(struct st_dataset *dataset, struct st_diag *diag, uint64_t version)
{
	const unsigned char *data = dataset->file.data;
	uint64_t size = dataset->file.size, count;

	if (size < HEADER_BYTES)
		return st_error(diag, ST_EINPUT, loc_at(dataset, size),
				"file ends inside its header of %d bytes",
				HEADER_BYTES);
	if (load(data + 4, 4) != version)
		return st_error(diag, ST_EINPUT, loc_at(dataset, 4),
				"token file has version %llu, want %llu",
				(unsigned long long)load(data + 4, 4),
				(unsigned long long)version);
	count = load(data + 8, 4);
	if (size - HEADER_BYTES != count * dataset->width)
		return st_error(diag, ST_EINPUT, loc_at(dataset, 8),
				"header says %llu tokens of %u bytes, the "
				"file has %llu bytes behind it",
				(unsigned long long)count, dataset->width,
				(unsigned long long)size - HEADER_BYTES);
	dataset->data_begin = HEADER_BYTES;
	return ST_OK;
}

/* Sets width and data_begin. */
static enum st_status
find_format(struct st_dataset *dataset, struct st_diag *diag)
{
	const struct st_mapfile *file = &dataset->file;
	uint64_t magic = file->size >= 4 ? load(file->data, 4) : 0;

	if (dataset->options.format == ST_DATASET_BYTES) {
		dataset->width = 1;
		return ST_OK;
	}
	dataset->width = magic == MAGIC_U32 ? 4 : 2;
	if (magic == MAGIC_U16)
		return check_header(dataset, diag, VERSION_U16);
	if (magic == MAGIC_U32)
		return check_header(dataset, diag, VERSION_U32);
	if (file->size % 2 == 0)
		return ST_OK;
	return st_error(diag, ST_EINPUT, loc_at(dataset, file->size),
			"file of 16-bit tokens has an odd number of bytes");
}

static bool
ends_in(const char *text, const char *ending)
{
	size_t length = strlen(text), wanted = strlen(ending);

	return length >= wanted && strcmp(text + length - wanted, ending) == 0;
}

static enum st_status
check_options(const struct st_dataset_options *options, struct st_diag *diag)
{
	if (!(options->holdout >= 0 && options->holdout < 1))
		return st_error(diag, ST_EUSAGE, st_no_loc(),
				"held-out fraction is %g, want 0 to below 1",
				options->holdout);
	if (options->vocabulary < 0 ||
	    options->vocabulary > (int64_t)INT32_MAX + 1)
		return st_error(diag, ST_EUSAGE, st_no_loc(),
				"vocabulary of %lld does not fit int32",
				(long long)options->vocabulary);
	return ST_OK;
}

static enum st_status
set_up(struct st_dataset *dataset, struct st_diag *diag)
{
	static const int64_t largest[] = {0, 1 << 8, 1 << 16, 0,
					  (int64_t)INT32_MAX + 1};
	uint64_t held_out;

	ST_TRY(find_format(dataset, diag));
	dataset->tokens = (int64_t)((dataset->file.size - dataset->data_begin) /
				    dataset->width);
	if (dataset->tokens < 2)
		return st_error(diag, ST_EINPUT,
				loc_at(dataset, dataset->file.size),
				"file ends after %lld of at least 2 tokens",
				(long long)dataset->tokens);
	if (dataset->options.vocabulary == 0)
		dataset->options.vocabulary = largest[dataset->width];
	held_out =
		(uint64_t)(dataset->options.holdout * (double)dataset->tokens);
	dataset->train = dataset->tokens - (int64_t)held_out;
	return ST_OK;
}

enum st_status
st_dataset_open(struct st_dataset *dataset, struct st_diag *diag,
		const char *path, const struct st_dataset_options *options)
{
	enum st_status status;

	memset(dataset, 0, sizeof(*dataset));
	ST_TRY(check_options(options, diag));
	dataset->options = *options;
	if (options->format == ST_DATASET_AUTO)
		dataset->options.format = ends_in(path, ".bin")
						  ? ST_DATASET_TOKENS
						  : ST_DATASET_BYTES;
	ST_TRY(st_mapfile_open(&dataset->file, diag, path));
	status = set_up(dataset, diag);
	if (status != ST_OK)
		st_dataset_close(dataset);
	return status;
}

void
st_dataset_close(struct st_dataset *dataset)
{
	if (dataset->width)
		st_mapfile_close(&dataset->file);
	memset(dataset, 0, sizeof(*dataset));
}

/* First token and number of tokens of a split. */
static int64_t
split_begin(const struct st_dataset *dataset, enum st_dataset_split split)
{
	return split == ST_SPLIT_TRAIN ? 0 : dataset->train;
}

static int64_t
split_size(const struct st_dataset *dataset, enum st_dataset_split split)
{
	return split == ST_SPLIT_TRAIN ? dataset->train
				       : dataset->tokens - dataset->train;
}

int64_t
st_dataset_windows(const struct st_dataset *dataset,
		   enum st_dataset_split split, int64_t seq_len)
{
	int64_t size = split_size(dataset, split);

	assert(seq_len > 0);
	return size > 0 ? (size - 1) / seq_len : 0;
}

static uint64_t
mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* Uniform in [0, bound), drawn from (seed, sample) alone. */
static int64_t
draw(uint64_t seed, uint64_t sample, int64_t bound)
{
	uint64_t bits = mix(mix(seed) ^ mix(sample));

	return (int64_t)((unsigned __int128)bits * (uint64_t)bound >> 64);
}

static enum st_status
report_short(const struct st_dataset *dataset, struct st_diag *diag,
	     const struct st_batch *batch)
{
	uint64_t begin = (uint64_t)split_begin(dataset, batch->split);

	return st_error(
		diag, ST_EINPUT,
		loc_at(dataset, dataset->data_begin + begin * dataset->width),
		"the %s part has %lld tokens, a row of %lld needs "
		"one more than it is long",
		batch->split == ST_SPLIT_TRAIN ? "training" : "held-out",
		(long long)split_size(dataset, batch->split),
		(long long)batch->seq_len);
}

/* Where the row of global number `sample` begins. */
static enum st_status
find_row(const struct st_dataset *dataset, struct st_diag *diag,
	 const struct st_batch *batch, int64_t sample, int64_t *begin)
{
	int64_t windows =
		st_dataset_windows(dataset, batch->split, batch->seq_len);

	if (windows == 0)
		return report_short(dataset, diag, batch);
	*begin = split_begin(dataset, batch->split);
	if (batch->split == ST_SPLIT_TRAIN)
		*begin += draw(dataset->options.seed, (uint64_t)sample,
			       split_size(dataset, batch->split) -
				       batch->seq_len);
	else if (sample < windows)
		*begin += sample * batch->seq_len;
	else
		return st_error(diag, ST_EUSAGE, loc_at(dataset, 0),
				"window %lld of the held-out part was asked "
				"for, it has %lld",
				(long long)sample, (long long)windows);
	return ST_OK;
}

static enum st_status
fill_row(const struct st_dataset *dataset, struct st_diag *diag, int64_t begin,
	 int64_t seq_len, int32_t *tokens, int32_t *targets)
{
	uint64_t offset =
		dataset->data_begin + (uint64_t)begin * dataset->width;
	uint64_t vocabulary = (uint64_t)dataset->options.vocabulary;
	unsigned char chunk[4096];
	int64_t most = (int64_t)(sizeof(chunk) / dataset->width);

	for (int64_t i = 0; i <= seq_len; i++) {
		int64_t n = seq_len + 1 - i < most ? seq_len + 1 - i : most;
		uint64_t id;

		/* By read, not from the map: the file may shrink meanwhile. */
		if (i % most == 0)
			ST_TRY(st_mapfile_read(&dataset->file, diag, offset,
					       chunk,
					       (size_t)n * dataset->width));
		id = load(chunk + i % most * dataset->width, dataset->width);

		if (id >= vocabulary)
			return st_error(diag, ST_EINPUT,
					loc_at(dataset, offset),
					"token %llu is outside the vocabulary "
					"of %llu",
					(unsigned long long)id,
					(unsigned long long)vocabulary);
		if (i < seq_len)
			tokens[i] = (int32_t)id;
		if (i > 0)
			targets[i - 1] = (int32_t)id;
		offset += dataset->width;
	}
	return ST_OK;
}

enum st_status
st_dataset_batch(const struct st_dataset *dataset, struct st_diag *diag,
		 const struct st_batch *batch, int32_t *tokens,
		 int32_t *targets)
{
	assert(batch->step >= 0 && batch->seq_len > 0);
	assert(batch->row0 >= 0 &&
	       batch->row0 + batch->rows <= batch->global_rows);
	for (int64_t i = 0; i < batch->rows; i++) {
		int64_t sample =
			batch->step * batch->global_rows + batch->row0 + i;
		int64_t begin = 0;

		ST_TRY(find_row(dataset, diag, batch, sample, &begin));
		ST_TRY(fill_row(dataset, diag, begin, batch->seq_len,
				tokens + i * batch->seq_len,
				targets + i * batch->seq_len));
	}
	return ST_OK;
}

/* -sum of c/n log(c/n) = log n - sum of c log c / n. */
static double
entropy_of(const uint64_t *counts, size_t kinds, uint64_t total)
{
	double sum = 0;

	for (size_t i = 0; i < kinds; i++)
		if (counts[i])
			sum += (double)counts[i] * log((double)counts[i]);
	return log((double)total) - sum / (double)total;
}

/* How often each byte comes first and second in a pair, and each pair. */
struct counts {
	uint64_t first[256], second[256], pairs[1 << 16];
};

/* By read as well: of the map of a file that shrank a load is a signal. */
static enum st_status
count_pairs(const struct st_dataset *dataset, struct st_diag *diag,
	    struct counts *counts)
{
	unsigned char chunk[4096];
	int64_t at = dataset->train;
	int before = -1;

	while (at < dataset->tokens) {
		int64_t n = dataset->tokens - at;

		if (n > (int64_t)sizeof(chunk))
			n = (int64_t)sizeof(chunk);
		ST_TRY(st_mapfile_read(&dataset->file, diag, (uint64_t)at,
				       chunk, (size_t)n));
		for (int64_t i = 0; i < n; i++) {
			if (before >= 0) {
				counts->first[before]++;
				counts->second[chunk[i]]++;
				counts->pairs[before << 8 | chunk[i]]++;
			}
			before = chunk[i];
		}
		at += n;
	}
	return ST_OK;
}

enum st_status
st_dataset_entropy(const struct st_dataset *dataset, struct st_diag *diag,
		   struct st_entropy *entropy)
{
	int64_t size = split_size(dataset, ST_SPLIT_HELD_OUT);
	struct counts *counts;

	if (dataset->width != 1)
		return st_error(diag, ST_EUSAGE, loc_at(dataset, 0),
				"entropy is counted for bytes, this file "
				"holds tokens of %u bytes",
				dataset->width);
	if (size < 2)
		return st_error(diag, ST_EINPUT,
				loc_at(dataset, (uint64_t)dataset->train),
				"the held-out part has %lld tokens, want at "
				"least 2",
				(long long)size);
	counts = st_arena_alloc(diag->arena, sizeof(*counts));
	if (!counts)
		return st_error_memory(diag);
	ST_TRY(count_pairs(dataset, diag, counts));
	/* All three over the same size - 1 pairs, so that knowing the byte
	 * before can never seem to hurt. */
	entropy->unigram = entropy_of(counts->second, 256, (uint64_t)size - 1);
	entropy->bigram =
		entropy_of(counts->pairs, 1 << 16, (uint64_t)size - 1) -
		entropy_of(counts->first, 256, (uint64_t)size - 1);
	return ST_OK;
}
