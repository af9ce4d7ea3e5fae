/* Operands and results for one launch of each op. */

#include "test_kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double
launch_draw(struct launch *l)
{
	l->state = l->state * 6364136223846793005u + 1442695040888963407u;
	return (double)(int64_t)l->state * 0x1p-63;
}

static struct buffer *
add_buffer(struct launch *l, int64_t count)
{
	struct buffer *buffer = &l->buffers[l->k.pointers++];
	size_t n = (size_t)(count > 0 ? count : 1);

	buffer->count = count;
	buffer->wide = malloc(n * sizeof(double));
	buffer->narrow = malloc(n * sizeof(float));
	return buffer;
}

static void
set(struct buffer *buffer, int64_t i, double value)
{
	buffer->narrow[i] = (float)value;
	buffer->wide[i] = (double)buffer->narrow[i];
}

/* An operand with values in center + [-spread, spread). */
static struct buffer *
operand(struct launch *l, int64_t count, double center, double spread)
{
	struct buffer *buffer = add_buffer(l, count);

	for (int64_t i = 0; i < count; i++)
		set(buffer, i, center + spread * launch_draw(l));
	return buffer;
}

static struct buffer *
result(struct launch *l, int64_t count)
{
	struct buffer *buffer = add_buffer(l, count);

	buffer->result = 1;
	for (int64_t i = 0; i < count; i++)
		set(buffer, i, (double)NAN);
	return buffer;
}

static struct buffer *
ids(struct launch *l, int64_t count, int64_t total)
{
	struct buffer *buffer = &l->buffers[l->k.pointers++];

	buffer->count = count;
	buffer->ids = malloc((size_t)count * sizeof(int32_t));
	for (int64_t i = 0; i < count; i++)
		buffer->ids[i] = (int32_t)((double)total *
					   (0.5 + 0.5 * launch_draw(l)));
	return buffer;
}

void
launch_finish(struct launch *l)
{
	for (int i = 0; i < MAX_BUFFERS; i++) {
		free(l->buffers[i].ids);
		free(l->buffers[i].wide);
		free(l->buffers[i].narrow);
	}
	memset(l, 0, sizeof(*l));
}

static int
run(struct launch *l, st_kernel_fn *fn, int32_t dtype)
{
	for (int i = 0; i < l->k.pointers; i++) {
		struct buffer *buffer = &l->buffers[i];

		l->ptr[i] = dtype == ST_F64 ? (void *)buffer->wide
					    : buffer->narrow;
		if (buffer->ids)
			l->ptr[i] = buffer->ids;
	}
	if (l->moves)
		l->k.slice.size =
			(int64_t)st_dtype_size((enum st_dtype)dtype);
	if (l->casts)
		l->k.cast.from = l->k.cast.to = dtype;
	l->k.ptr = l->ptr;
	l->k.dtype = dtype;
	return fn(&l->k);
}

int
launch_wide(struct launch *l, st_kernel_fn *fn)
{
	return run(l, fn, ST_F64);
}

int
launch_narrow(struct launch *l, st_kernel_fn *fn)
{
	return run(l, fn, ST_F32);
}

void
launch_clear(struct launch *l)
{
	for (int i = 0; i < l->k.pointers; i++)
		for (int64_t j = 0; j < l->buffers[i].count; j++)
			if (l->buffers[i].result && !l->buffers[i].ids)
				set(&l->buffers[i], j, (double)NAN);
}

double
launch_error(const struct launch *l, int i)
{
	const struct buffer *buffer = &l->buffers[i];
	double error = 0, size = 0;

	for (int64_t j = 0; j < buffer->count; j++) {
		double want = buffer->wide[j];
		double got = (double)buffer->narrow[j];

		if (isnan(want) && isnan(got))
			continue;
		if (want == got)
			size += isfinite(want) ? want * want : 0;
		else if (isfinite(want) && isfinite(got)) {
			error += (got - want) * (got - want);
			size += want * want;
		} else
			return INFINITY;
	}
	return size > 0 ? sqrt(error / size) : sqrt(error);
}

/* The results of a forward op become operands of its gradient: run it in
 * double and take what a float keeps. */
static void
settle(struct launch *l, st_kernel_fn *forward)
{
	launch_wide(l, forward);
	for (int i = 0; i < l->k.pointers; i++) {
		struct buffer *buffer = &l->buffers[i];

		for (int64_t j = 0; buffer->result && j < buffer->count; j++)
			set(buffer, j, buffer->wide[j]);
		buffer->result = 0;
	}
}

/* Removes buffer i; those behind it move up. */
static void
drop(struct launch *l, int i)
{
	free(l->buffers[i].wide);
	free(l->buffers[i].narrow);
	memmove(l->buffers + i, l->buffers + i + 1,
		(size_t)(MAX_BUFFERS - 1 - i) * sizeof(*l->buffers));
	memset(l->buffers + MAX_BUFFERS - 1, 0, sizeof(*l->buffers));
	l->k.pointers--;
}

/* m n k trans_a trans_b accumulate padding */
void
build_matmul(struct launch *l, const int64_t *d)
{
	struct st_matmul_args *g = &l->k.matmul;
	struct buffer *c;

	g->m = d[0];
	g->n = d[1];
	g->k = d[2];
	g->trans_a = (int32_t)d[3];
	g->trans_b = (int32_t)d[4];
	g->accumulate = (int32_t)d[5];
	g->lda = (d[3] ? d[0] : d[2]) + d[6];
	g->ldb = (d[4] ? d[2] : d[1]) + d[6];
	g->ldc = d[1] + d[6];
	operand(l, (d[3] ? d[2] : d[0]) * g->lda, 0, 1);
	operand(l, (d[4] ? d[1] : d[2]) * g->ldb, 0, 1);
	c = d[5] ? operand(l, g->m * g->ldc, 0, 1)
		 : result(l, g->m * g->ldc);
	c->result = 1;
}

/* p q r sp sq sr, elements of b (or y) */
static void
broadcast(struct launch *l, const int64_t *d)
{
	struct st_broadcast_args s = {d[0], d[1], d[2], d[3], d[4], d[5], d[6]};

	l->k.broadcast = s;
}

void
build_add(struct launch *l, const int64_t *d)
{
	broadcast(l, d);
	operand(l, d[0] * d[1] * d[2], 0, 1);
	operand(l, d[6], 0, 1);
	result(l, d[0] * d[1] * d[2]);
}

void
build_reduce_sum(struct launch *l, const int64_t *d)
{
	broadcast(l, d);
	operand(l, d[0] * d[1] * d[2], 0, 1);
	result(l, d[6]);
}

/* count, operands or kind or keep */
static void
elementwise(struct launch *l, const int64_t *d, int operands, int results,
	    double spread)
{
	l->k.elementwise.count = d[0];
	l->k.elementwise.factor = 0.37;
	l->k.elementwise.kind = (int32_t)d[1];
	l->k.elementwise.keep = (int32_t)d[1];
	l->k.elementwise.operands = operands;
	for (int i = 0; i < operands; i++)
		operand(l, d[0], 0, spread);
	for (int i = 0; i < results; i++)
		result(l, d[0]);
}

void
build_sum(struct launch *l, const int64_t *d)
{
	elementwise(l, d, (int)d[1], 1, 1);
}

void
build_scale(struct launch *l, const int64_t *d)
{
	elementwise(l, d, 1, 1, 1);
}

void
build_fill(struct launch *l, const int64_t *d)
{
	elementwise(l, d, 0, 1, 1);
	l->k.elementwise.factor = 0.375; /* a float holds it */
}

void
build_copy(struct launch *l, const int64_t *d)
{
	elementwise(l, d, 1, 1, 1);
}

void
build_only(struct launch *l, const int64_t *d)
{
	elementwise(l, d, 1, 1, 1);
}

void
build_activation(struct launch *l, const int64_t *d)
{
	elementwise(l, d, 1, 1, 8);
}

void
build_activation_grad(struct launch *l, const int64_t *d)
{
	elementwise(l, d, 2, 1, 6);
}

void
build_swiglu(struct launch *l, const int64_t *d)
{
	elementwise(l, d, 2, 1, 6);
}

void
build_swiglu_grad(struct launch *l, const int64_t *d)
{
	elementwise(l, d, 3, 2, 6);
}

/* count; from and to follow the side that is run */
void
build_cast(struct launch *l, const int64_t *d)
{
	l->k.cast.count = d[0];
	l->casts = 1;
	operand(l, d[0], 0, 1);
	result(l, d[0]);
}

/* rows c */
static void
norm(struct launch *l, const int64_t *d, int bias)
{
	l->k.norm.rows = d[0];
	l->k.norm.c = d[1];
	l->k.norm.epsilon = 1e-5;
	operand(l, d[0] * d[1], 0.5, 2);
	operand(l, d[1], 1, 0.5);
	if (bias)
		operand(l, d[1], 0, 1);
	result(l, d[0] * d[1]);
	if (bias)
		result(l, d[0]);
	result(l, d[0]);
}

void
build_layernorm(struct launch *l, const int64_t *d)
{
	norm(l, d, 1);
}

void
build_rmsnorm(struct launch *l, const int64_t *d)
{
	norm(l, d, 0);
}

void
build_layernorm_grad(struct launch *l, const int64_t *d)
{
	norm(l, d, 1);
	settle(l, st_ref_layernorm);
	drop(l, 3);
	drop(l, 2);
	operand(l, d[0] * d[1], 0, 1);
	result(l, d[0] * d[1]);
	result(l, d[1]);
	result(l, d[1]);
}

void
build_rmsnorm_grad(struct launch *l, const int64_t *d)
{
	norm(l, d, 0);
	settle(l, st_ref_rmsnorm);
	drop(l, 2);
	operand(l, d[0] * d[1], 0, 1);
	result(l, d[0] * d[1]);
	result(l, d[1]);
}

/* t b heads d start inverse */
void
build_rope(struct launch *l, const int64_t *d)
{
	struct st_rope_args a = {d[0], d[1], d[2], d[3], d[4], 10000,
				 (int32_t)d[5]};

	l->k.rope = a;
	operand(l, d[0] * d[1] * d[2] * d[3], 0, 1);
	result(l, d[0] * d[1] * d[2] * d[3]);
}

/* t b kv_heads group d padding-of-rows */
static struct st_attention_args
attention(const int64_t *d)
{
	struct st_attention_args a = {.t = d[0], .b = d[1], .kv_heads = d[2],
				      .group = d[3], .d = d[4]};

	a.ldq = d[2] * d[3] * d[4] + d[5];
	a.ldk = d[2] * d[4] + d[5];
	a.ldv = d[2] * d[4] + d[5];
	a.ldo = d[2] * d[3] * d[4] + d[5];
	a.scale = 1 / sqrt((double)d[4]);
	return a;
}

static struct st_attention_args
attention_qkv(const int64_t *d)
{
	struct st_attention_args a = attention(d);

	a.ldq = a.ldk = a.ldv = d[2] * (d[3] + 2) * d[4] + d[5];
	return a;
}

void
build_attention(struct launch *l, const int64_t *d)
{
	struct st_attention_args a = attention(d);
	int64_t rows = d[0] * d[1];

	l->k.attention = a;
	operand(l, rows * a.ldq, 0, 3);
	operand(l, rows * a.ldk, 0, 3);
	operand(l, rows * a.ldv, 0, 1);
	result(l, rows * a.ldo);
	result(l, rows * d[2] * d[3]);
}

void
build_attention_grad(struct launch *l, const int64_t *d)
{
	struct st_attention_args a = attention(d);
	int64_t rows = d[0] * d[1];

	build_attention(l, d);
	settle(l, st_ref_attention);
	operand(l, rows * a.ldo, 0, 1);
	result(l, rows * a.ldq);
	result(l, rows * a.ldk);
	result(l, rows * a.ldv);
}

void
build_attention_qkv(struct launch *l, const int64_t *d)
{
	struct st_attention_args a = attention_qkv(d);
	int64_t rows = d[0] * d[1];

	l->k.attention = a;
	operand(l, rows * a.ldq, 0, 2);
	result(l, rows * a.ldo);
	result(l, rows * d[2] * d[3]);
}

void
build_attention_qkv_grad(struct launch *l, const int64_t *d)
{
	struct st_attention_args a = attention_qkv(d);
	int64_t rows = d[0] * d[1];

	build_attention_qkv(l, d);
	settle(l, st_ref_attention_qkv);
	operand(l, rows * a.ldo, 0, 1);
	result(l, rows * a.ldq);
}

/* t b v c start valid total */
static void
vocab(struct launch *l, const int64_t *d)
{
	struct st_vocab_args a = {d[0], d[1], d[2], d[3],
				  d[4], d[5], d[6], 0.125};

	l->k.vocab = a;
}

void
build_embedding(struct launch *l, const int64_t *d)
{
	vocab(l, d);
	ids(l, d[0] * d[1], d[6]);
	operand(l, d[2] * d[3], 0, 1);
	result(l, d[0] * d[1] * d[3]);
}

void
build_embedding_grad(struct launch *l, const int64_t *d)
{
	vocab(l, d);
	ids(l, d[0] * d[1], d[6]);
	operand(l, d[0] * d[1] * d[3], 0, 1);
	result(l, d[2] * d[3]);
}

void
build_xent_max(struct launch *l, const int64_t *d)
{
	vocab(l, d);
	operand(l, d[0] * d[1] * d[2], 0, 5);
	result(l, d[0] * d[1]);
}

/* The maximum is the one over all ranks: a little above the local one. */
void
build_xent_sum(struct launch *l, const int64_t *d)
{
	vocab(l, d);
	operand(l, d[0] * d[1] * d[2], 0, 5);
	ids(l, d[0] * d[1], d[6]);
	operand(l, d[0] * d[1], 5.25, 0.25);
	result(l, d[0] * d[1]);
	result(l, d[0] * d[1]);
}

void
build_xent_loss(struct launch *l, const int64_t *d)
{
	vocab(l, d);
	operand(l, d[0] * d[1], 5.25, 0.25);
	operand(l, d[0] * d[1], 30, 20);
	operand(l, d[0] * d[1], 0, 5);
	result(l, 1);
}

void
build_xent_grad(struct launch *l, const int64_t *d)
{
	build_xent_sum(l, d);
	settle(l, st_ref_xent_sum);
	drop(l, 4);
	result(l, d[0] * d[1] * d[2]);
}

/* count */
static void
optimizer(struct launch *l, const int64_t *d)
{
	struct st_optimizer_args a = {
		.count = d[0], .max_norm = 0.5, .rate = 1e-3, .floor = 1e-4,
		.warmup = 10, .total = 100, .beta1 = 0.9, .beta2 = 0.95,
		.epsilon = 1e-8, .decay = 0.1,
	};

	l->k.optimizer = a;
}

static void
step(struct launch *l, int32_t t)
{
	ids(l, 1, 1)->ids[0] = t;
}

void
build_sumsq(struct launch *l, const int64_t *d)
{
	optimizer(l, d);
	operand(l, d[0], 0, 1);
	result(l, 1);
}

void
build_clip(struct launch *l, const int64_t *d)
{
	optimizer(l, d);
	operand(l, 1, (double)d[1], 0);
	result(l, 1);
	result(l, 1);
}

void
build_step_count(struct launch *l, const int64_t *d)
{
	step(l, (int32_t)d[0]);
	step(l, 0);
}

/* -, t */
void
build_learning_rate(struct launch *l, const int64_t *d)
{
	optimizer(l, d);
	step(l, (int32_t)d[1]);
	result(l, 1);
}

/* count, t */
void
build_adamw(struct launch *l, const int64_t *d)
{
	optimizer(l, d);
	operand(l, d[0], 0, 1);
	operand(l, d[0], 0, 1);
	operand(l, d[0], 0, 0.1);
	operand(l, d[0], 0.02, 0.02);
	operand(l, 1, 0.5, 0);
	operand(l, 1, 0.01, 0);
	step(l, (int32_t)d[1]);
	result(l, d[0]);
	result(l, d[0]);
	result(l, d[0]);
}

/* rows columns: the local part [1, 1 + rows) x [0, columns) of a matrix of
 * `rows` x 1000; the last row is padding */
void
build_random(struct launch *l, const int64_t *d)
{
	struct st_random_args a = {
		.seed = 42, .stream = 0x5eed, .deviation = 0.02, .dims = 2,
		.extent = {d[0], d[1]}, .begin = {1, 0},
		.limit = {d[0], 1000}, .stride = {1000, 1},
		.count = d[0] * d[1],
	};

	l->k.random = a;
	result(l, a.count);
}

/* p q r at n */
static void
slice(struct launch *l, const int64_t *d)
{
	struct st_slice_args a = {d[0], d[1], d[2], d[3], d[4], 0};

	l->k.slice = a;
	l->moves = 1;
}

void
build_slice(struct launch *l, const int64_t *d)
{
	slice(l, d);
	operand(l, d[0] * d[1] * d[2], 0, 1);
	result(l, d[0] * d[4] * d[2]);
}

void
build_unslice(struct launch *l, const int64_t *d)
{
	slice(l, d);
	operand(l, d[0] * d[4] * d[2], 0, 1);
	result(l, d[0] * d[1] * d[2]);
}
