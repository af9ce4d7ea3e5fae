#ifndef ST_DATASET_H
#define ST_DATASET_H

/*
 * Token streams on disk, and which tokens a batch holds.
 *
 * Two sources: any file as bytes (a token is a byte), and .bin files of
 * token ids: little-endian uint16 without a header, or with a header of 256
 * int32 that begins with 20240520 (uint16 ids) or 20240801 (uint32 ids).
 * The last part of the stream is held out for evaluation.
 *
 * Which tokens a row holds depends on the row's global number alone, never
 * on who asks: every layout of ranks sees the same batches, and a global
 * batch of 8 is the two global batches of 4 behind one another.
 */

#include <stddef.h>
#include <stdint.h>

#include "ir/diag.h"
#include "runtime/mapfile.h"

enum st_dataset_format {
	ST_DATASET_AUTO, /* by the name's ending, then by the header */
	ST_DATASET_BYTES,
	ST_DATASET_TOKENS,
};

enum st_dataset_split { ST_SPLIT_TRAIN, ST_SPLIT_HELD_OUT };

struct st_dataset_options {
	enum st_dataset_format format;
	double holdout;     /* fraction in [0, 1) that is held out */
	uint64_t seed;      /* of the training order */
	int64_t vocabulary; /* ids from here on are errors; 0: what fits */
};

/* 5 % held out, seed 0, format by name. */
struct st_dataset_options st_dataset_defaults(void);

struct st_dataset {
	struct st_mapfile file;
	uint64_t data_begin;   /* of the first token, in the file */
	unsigned width;        /* bytes of a token: 1, 2 or 4 */
	int64_t tokens, train; /* all; those before the held-out part */
	/* As opened; format and vocabulary are never 0 here. */
	struct st_dataset_options options;
};

/* rows [row0, row0 + rows) of batch `step` of global_rows rows. */
struct st_batch {
	enum st_dataset_split split;
	int64_t step, global_rows, row0, rows, seq_len;
};

/* Maps the file; its name is kept in diag. */
enum st_status st_dataset_open(struct st_dataset *dataset, struct st_diag *diag,
			       const char *path,
			       const struct st_dataset_options *options);

/* Accepts zeroes, and a second call. */
void st_dataset_close(struct st_dataset *dataset);

/*
 * Fills tokens and targets, each [rows x seq_len]; the target of a position
 * is the token after it.  Training rows begin at uniformly drawn places.
 * Held-out rows are consecutive windows: row i of batch n is window
 * n * global_rows + i, which must be below st_dataset_windows.  May be called
 * by several threads at once, each with a diag of its own.
 */
enum st_status st_dataset_batch(const struct st_dataset *dataset,
				struct st_diag *diag,
				const struct st_batch *batch, int32_t *tokens,
				int32_t *targets);

/* How many windows of seq_len + 1 tokens, overlapping in one token, a split
 * holds; 0 if it is too short for one. */
int64_t st_dataset_windows(const struct st_dataset *dataset,
			   enum st_dataset_split split, int64_t seq_len);

/* Entropies in nats of the held-out bytes under their own counts: of a byte
 * alone, and of a byte given the one before it (never above the former).
 * A model that beats the second has learnt more than pairs.  Bytes only. */
struct st_entropy {
	double unigram, bigram;
};
enum st_status st_dataset_entropy(const struct st_dataset *dataset,
				  struct st_diag *diag,
				  struct st_entropy *entropy);

#endif
