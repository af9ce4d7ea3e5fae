/* One function a row of ops.def: the record that its kernel reads. */

#include "runtime/bind.h"
#include "runtime/layout.h"

#include <string.h>

st_bind_fn *const st_binds[ST_OP_COUNT] = {
#define OP(name, ...) [ST_OP_##name] = st_bind_##name,
#include "ir/ops.def"
};

static const struct st_type *
operand(const struct st_bind *b, size_t i)
{
	return st_value_type(b->module, st_node_operand(b->module, b->node, i));
}

static const struct st_type *
result(const struct st_bind *b, uint32_t i)
{
	return st_value_type(b->module, b->node->first_result + i);
}

static int64_t
extent(const struct st_bind *b, const struct st_type *type, int i)
{
	return st_type_local_extent(type, i, &b->module->mesh);
}

static int64_t
elements(const struct st_bind *b, const struct st_type *type)
{
	return st_type_local_elements(type, &b->module->mesh);
}

static int64_t
factor(const struct st_bind *b, const struct st_type *type, int f)
{
	return st_type_local_factor(type, f, &b->module->mesh);
}

static enum st_status
fail(const struct st_bind *b, const char *what)
{
	return st_error(b->module->diag, ST_EINFEASIBLE,
			st_module_loc_at(b->module, b->node->loc), "%s: %s",
			st_ops[b->node->op].name, what);
}

/* The items of "ab,bc->ac": [0], [1] operands, [2] result. */
struct dims {
	char item[3][ST_MAX_FACTORS + 1];
};

static struct dims
read_dims(const struct st_bind *b)
{
	const char *at = st_node_string(b->module, b->node, ST_KEY_dims);
	struct dims dims;
	int item = 0;
	size_t n = 0;

	memset(&dims, 0, sizeof(dims));
	for (; *at; at++) {
		if (*at == ',' || *at == '>') {
			item = *at == '>' ? 2 : 1;
			n = 0;
		} else if (*at != '-' && n < ST_MAX_FACTORS) {
			dims.item[item][n++] = *at;
		}
	}
	return dims;
}

/* Product of the local extents of letters. */
static int64_t
size_of(const struct st_bind *b, const struct st_type *type, const char *item,
	const char *letters)
{
	int64_t n = 1;

	for (int i = 0; item[i]; i++)
		if (strchr(letters, item[i]))
			n *= extent(b, type, i);
	return n;
}

/* The letters of `item` that are in `in` and not in `out`, in order. */
static void
pick(char *to, const char *item, const char *in, const char *out)
{
	for (; *item; item++)
		if (strchr(in, *item) && !strchr(out, *item))
			*to++ = *item;
	*to = '\0';
}

/* 0: the item is first then second; 1: the other way round; -1: neither. */
static int
order(const char *item, const char *first, const char *second)
{
	size_t n = strlen(first), m = strlen(second);

	if (strlen(item) != n + m)
		return -1;
	if (strncmp(item, first, n) == 0 && strcmp(item + n, second) == 0)
		return 0;
	if (strncmp(item, second, m) == 0 && strcmp(item + m, first) == 0)
		return 1;
	return -1;
}

enum st_status
st_bind_matmul(const struct st_bind *b, struct st_kernel *k)
{
	struct dims d = read_dims(b);
	char m[ST_MAX_FACTORS + 1], n[ST_MAX_FACTORS + 1];
	char inner[ST_MAX_FACTORS + 1];
	int ta, tb;

	pick(m, d.item[0], d.item[2], d.item[1]);
	pick(n, d.item[1], d.item[2], d.item[0]);
	pick(inner, d.item[0], d.item[1], d.item[2]);
	ta = order(d.item[0], m, inner);
	tb = order(d.item[1], inner, n);
	if (ta < 0 || tb < 0 || order(d.item[2], m, n) != 0)
		return fail(b, "dims are no plain matrix product");
	k->matmul.m = size_of(b, operand(b, 0), d.item[0], m);
	k->matmul.n = size_of(b, operand(b, 1), d.item[1], n);
	k->matmul.k = size_of(b, operand(b, 0), d.item[0], inner);
	k->matmul.trans_a = ta;
	k->matmul.trans_b = tb;
	k->matmul.lda = ta ? k->matmul.m : k->matmul.k;
	k->matmul.ldb = tb ? k->matmul.k : k->matmul.n;
	k->matmul.ldc = k->matmul.n;
	return ST_OK;
}

/* Runs of letters of `whole` that are all in `part` or all not. */
static enum st_status
broadcast(const struct st_bind *b, const struct st_type *type,
	  const char *whole, const char *part, struct st_broadcast_args *args)
{
	int64_t size[3] = {1, 1, 1}, stride[3] = {0, 0, 0}, next = 1;
	int in[3] = {0, 0, 0}, run = -1;

	for (int i = 0; whole[i]; i++) {
		int inside = strchr(part, whole[i]) != NULL;

		if (run < 0 || in[run] != inside)
			run++;
		if (run > 2)
			return fail(b, "dims have too many gaps");
		in[run] = inside;
		size[run] *= extent(b, type, i);
	}
	for (int i = 2; i >= 0; i--)
		if (in[i]) {
			stride[i] = next;
			next *= size[i];
		}
	args->p = size[0];
	args->q = size[1];
	args->r = size[2];
	args->sp = stride[0];
	args->sq = stride[1];
	args->sr = stride[2];
	args->count = next;
	return ST_OK;
}

/* Is part a subsequence of whole? */
static int
is_within(const char *part, const char *whole)
{
	for (; *whole; whole++)
		part += *part == *whole;
	return *part == '\0';
}

enum st_status
st_bind_add(const struct st_bind *b, struct st_kernel *k)
{
	struct dims d = read_dims(b);

	if (strcmp(d.item[0], d.item[2]) != 0 ||
	    !is_within(d.item[1], d.item[2]))
		return fail(b, "dims: the first operand must have the "
			       "result's letters, the second some of them");
	return broadcast(b, operand(b, 0), d.item[0], d.item[1],
			 &k->broadcast);
}

enum st_status
st_bind_reduce_sum(const struct st_bind *b, struct st_kernel *k)
{
	struct dims d = read_dims(b);

	if (!is_within(d.item[2], d.item[0]))
		return fail(b, "dims: the result must keep the order");
	return broadcast(b, operand(b, 0), d.item[0], d.item[2],
			 &k->broadcast);
}

static enum st_status
elementwise(const struct st_bind *b, struct st_kernel *k)
{
	k->elementwise.count = elements(b, result(b, 0));
	k->elementwise.factor =
		st_node_float(b->module, b->node, ST_KEY_factor);
	k->elementwise.operands = b->node->operands;
	return ST_OK;
}

enum st_status
st_bind_sum(const struct st_bind *b, struct st_kernel *k)
{
	return elementwise(b, k);
}

enum st_status
st_bind_scale(const struct st_bind *b, struct st_kernel *k)
{
	return elementwise(b, k);
}

/* Padding must hold zeros whatever the rest is filled with. */
enum st_status
st_bind_fill(const struct st_bind *b, struct st_kernel *k)
{
	const struct st_type *type = result(b, 0);
	double value = st_node_float(b->module, b->node, ST_KEY_factor);
	int padded = 0;

	for (int f = 0; f < type->factors; f++)
		padded |= type->f[f].pad != 0;
	if (value == 0.0 || !(padded || type->flat))
		return elementwise(b, k);
	k->op = ST_OP_random;
	st_layout_random(type, &b->module->mesh, b->rank, &k->random);
	k->random.mean = value;
	return ST_OK;
}

enum st_status
st_bind_copy(const struct st_bind *b, struct st_kernel *k)
{
	return elementwise(b, k);
}

enum st_status
st_bind_reshape(const struct st_bind *b, struct st_kernel *k)
{
	k->op = ST_OP_copy;
	return elementwise(b, k);
}

enum st_status
st_bind_swiglu(const struct st_bind *b, struct st_kernel *k)
{
	return elementwise(b, k);
}

enum st_status
st_bind_swiglu_grad(const struct st_bind *b, struct st_kernel *k)
{
	return elementwise(b, k);
}

enum st_status
st_bind_activation(const struct st_bind *b, struct st_kernel *k)
{
	static const char *const names[] = {"gelu_tanh", "gelu_erf", "relu",
					    "silu", NULL};
	const char *near, *act = st_node_string(b->module, b->node, ST_KEY_act);

	ST_TRY(elementwise(b, k));
	for (int i = 0; i < 4; i++)
		if (strcmp(names[i], act) == 0) {
			k->elementwise.kind = i;
			return ST_OK;
		}
	near = st_nearest(act, names);
	return st_error(b->module->diag, ST_EINPUT,
			st_module_loc_at(b->module, b->node->loc),
			"%s: act '%s': want gelu_tanh, gelu_erf, relu or "
			"silu%s%s%s",
			st_ops[b->node->op].name, act,
			near ? "; did you mean '" : "", near ? near : "",
			near ? "'?" : "");
}

enum st_status
st_bind_activation_grad(const struct st_bind *b, struct st_kernel *k)
{
	return st_bind_activation(b, k);
}

enum st_status
st_bind_cast(const struct st_bind *b, struct st_kernel *k)
{
	k->cast.count = elements(b, result(b, 0));
	k->cast.from = operand(b, 0)->dtype;
	k->cast.to = result(b, 0)->dtype;
	return ST_OK;
}

static enum st_status
norm(const struct st_bind *b, struct st_kernel *k)
{
	const struct st_type *x = operand(b, 0);

	k->norm.c = extent(b, x, st_type_rank(x) - 1);
	k->norm.rows = elements(b, x) / k->norm.c;
	k->norm.epsilon = st_node_float(b->module, b->node, ST_KEY_eps);
	return ST_OK;
}

enum st_status
st_bind_layernorm(const struct st_bind *b, struct st_kernel *k)
{
	return norm(b, k);
}

enum st_status
st_bind_layernorm_grad(const struct st_bind *b, struct st_kernel *k)
{
	return norm(b, k);
}

enum st_status
st_bind_rmsnorm(const struct st_bind *b, struct st_kernel *k)
{
	return norm(b, k);
}

enum st_status
st_bind_rmsnorm_grad(const struct st_bind *b, struct st_kernel *k)
{
	return norm(b, k);
}

enum st_status
st_bind_rope(const struct st_bind *b, struct st_kernel *k)
{
	const struct st_type *x = operand(b, 0);
	int last = x->factors - 1;

	if (x->f[last].axes)
		return fail(b, "the elements of a head must not be cut");
	k->rope.t = extent(b, x, 0);
	k->rope.b = extent(b, x, 1);
	k->rope.d = factor(b, x, last);
	if (k->rope.d % 2)
		return fail(b, "a head must have an even number of elements");
	k->rope.heads = extent(b, x, 2) / k->rope.d;
	k->rope.theta = st_node_float(b->module, b->node, ST_KEY_theta);
	k->rope.inverse =
		(int32_t)st_node_int(b->module, b->node, ST_KEY_inverse);
	return ST_OK;
}

enum st_status
st_bind_attention(const struct st_bind *b, struct st_kernel *k)
{
	const struct st_type *q = operand(b, 0);
	struct st_attention_args *a = &k->attention;

	a->t = extent(b, q, 0);
	a->b = extent(b, q, 1);
	a->kv_heads = factor(b, q, 2);
	a->group = factor(b, q, 3);
	a->d = factor(b, q, 4);
	a->ldq = a->ldo = a->kv_heads * a->group * a->d;
	a->ldk = a->ldv = a->kv_heads * a->d;
	a->scale = st_node_float(b->module, b->node, ST_KEY_scale);
	return ST_OK;
}

enum st_status
st_bind_attention_grad(const struct st_bind *b, struct st_kernel *k)
{
	return st_bind_attention(b, k);
}

enum st_status
st_bind_attention_qkv(const struct st_bind *b, struct st_kernel *k)
{
	const struct st_type *qkv = operand(b, 0);
	struct st_attention_args *a = &k->attention;

	if (qkv->f[2].size != 3)
		return fail(b, "the last extent must be 3*heads*dim");
	a->t = extent(b, qkv, 0);
	a->b = extent(b, qkv, 1);
	a->kv_heads = factor(b, qkv, 3);
	a->group = 1;
	a->d = factor(b, qkv, 4);
	a->ldo = a->kv_heads * a->d;
	a->ldq = a->ldk = a->ldv = 3 * a->ldo;
	a->scale = st_node_float(b->module, b->node, ST_KEY_scale);
	return ST_OK;
}

enum st_status
st_bind_attention_qkv_grad(const struct st_bind *b, struct st_kernel *k)
{
	return st_bind_attention_qkv(b, k);
}

/* The rows of the vocabulary that this rank holds: extent `i` of a type. */
static enum st_status
vocabulary(const struct st_bind *b, struct st_kernel *k,
	   const struct st_type *type, int i)
{
	struct st_vocab_args *a = &k->vocab;
	int f = st_type_first(type, i);

	if (st_type_end(type, i) != f + 1)
		return fail(b, "the vocabulary must be one factor");
	a->total = type->f[f].size;
	a->v = factor(b, type, f);
	a->start = a->v * st_mesh_index(&b->module->mesh, b->rank,
					type->f[f].axes);
	a->valid = a->total - a->start;
	a->valid = a->valid < 0 ? 0 : a->valid > a->v ? a->v : a->valid;
	a->factor = st_node_float(b->module, b->node, ST_KEY_factor);
	return ST_OK;
}

enum st_status
st_bind_embedding(const struct st_bind *b, struct st_kernel *k)
{
	ST_TRY(vocabulary(b, k, operand(b, 1), 0));
	k->vocab.b = extent(b, operand(b, 0), 0);
	k->vocab.t = extent(b, operand(b, 0), 1);
	k->vocab.c = extent(b, operand(b, 1), 1);
	return ST_OK;
}

enum st_status
st_bind_embedding_grad(const struct st_bind *b, struct st_kernel *k)
{
	ST_TRY(vocabulary(b, k, result(b, 0), 0));
	k->vocab.b = extent(b, operand(b, 0), 0);
	k->vocab.t = extent(b, operand(b, 0), 1);
	k->vocab.c = extent(b, result(b, 0), 1);
	return ST_OK;
}

static enum st_status
logits(const struct st_bind *b, struct st_kernel *k)
{
	ST_TRY(vocabulary(b, k, operand(b, 0), 2));
	k->vocab.t = extent(b, operand(b, 0), 0);
	k->vocab.b = extent(b, operand(b, 0), 1);
	return ST_OK;
}

enum st_status
st_bind_xent_max(const struct st_bind *b, struct st_kernel *k)
{
	return logits(b, k);
}

enum st_status
st_bind_xent_sum(const struct st_bind *b, struct st_kernel *k)
{
	return logits(b, k);
}

enum st_status
st_bind_xent_grad(const struct st_bind *b, struct st_kernel *k)
{
	return logits(b, k);
}

enum st_status
st_bind_xent_loss(const struct st_bind *b, struct st_kernel *k)
{
	k->vocab.t = extent(b, operand(b, 0), 0);
	k->vocab.b = extent(b, operand(b, 0), 1);
	k->vocab.factor = st_node_float(b->module, b->node, ST_KEY_factor);
	return ST_OK;
}

enum st_status
st_bind_sumsq(const struct st_bind *b, struct st_kernel *k)
{
	k->optimizer.count = elements(b, operand(b, 0));
	return ST_OK;
}

enum st_status
st_bind_clip(const struct st_bind *b, struct st_kernel *k)
{
	k->optimizer.max_norm =
		st_node_float(b->module, b->node, ST_KEY_max_norm);
	return ST_OK;
}

enum st_status
st_bind_step_count(const struct st_bind *b, struct st_kernel *k)
{
	(void)b;
	k->optimizer.count = 1;
	return ST_OK;
}

enum st_status
st_bind_learning_rate(const struct st_bind *b, struct st_kernel *k)
{
	struct st_optimizer_args *a = &k->optimizer;

	a->rate = st_node_float(b->module, b->node, ST_KEY_rate);
	a->floor = st_node_float(b->module, b->node, ST_KEY_floor);
	a->warmup = (double)st_node_int(b->module, b->node, ST_KEY_warmup);
	a->total = (double)st_node_int(b->module, b->node, ST_KEY_total);
	return ST_OK;
}

enum st_status
st_bind_adamw(const struct st_bind *b, struct st_kernel *k)
{
	struct st_optimizer_args *a = &k->optimizer;

	a->count = elements(b, operand(b, 0));
	a->beta1 = st_node_float(b->module, b->node, ST_KEY_beta1);
	a->beta2 = st_node_float(b->module, b->node, ST_KEY_beta2);
	a->epsilon = st_node_float(b->module, b->node, ST_KEY_eps);
	a->decay = st_node_float(b->module, b->node, ST_KEY_decay);
	return ST_OK;
}

/* The name of the tensor decides the stream of random numbers. */
static uint64_t
hash_name(const char *name)
{
	uint64_t h = 14695981039346656037u;

	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 1099511628211u;
	return h;
}

enum st_status
st_bind_random(const struct st_bind *b, struct st_kernel *k)
{
	struct st_random_args *a = &k->random;

	st_layout_random(result(b, 0), &b->module->mesh, b->rank, a);
	/* Spread the seed over the word: it is combined by xor with an index
	 * that is small as well. */
	a->seed = ((uint64_t)st_node_int(b->module, b->node, ST_KEY_seed) +
		   1) * 0x9e3779b97f4a7c15u;
	a->stream = hash_name(
		st_node_string(b->module, b->node, ST_KEY_stream));
	a->deviation = st_node_float(b->module, b->node, ST_KEY_std);
	return ST_OK;
}

/* Elements before and behind extent or factor f. */
static int64_t
product(const struct st_bind *b, const struct st_type *type, int from, int to)
{
	int64_t n = 1;

	for (int f = from; f < to; f++)
		n *= factor(b, type, f);
	return n;
}

static enum st_status
slice(const struct st_bind *b, struct st_kernel *k, const struct st_type *from,
      const struct st_type *to)
{
	int dim = (int)st_node_int(b->module, b->node, ST_KEY_dim);
	int f = st_type_first(from, dim);

	k->slice.p = product(b, from, 0, f);
	k->slice.q = factor(b, from, f);
	k->slice.n = factor(b, to, f);
	k->slice.r = product(b, from, f + 1, from->factors);
	k->slice.at = st_node_int(b->module, b->node, ST_KEY_at) /
		      st_mesh_span(&b->module->mesh, from->f[f].axes);
	k->slice.size = (int64_t)st_dtype_size(from->dtype);
	return ST_OK;
}

enum st_status
st_bind_slice(const struct st_bind *b, struct st_kernel *k)
{
	return slice(b, k, operand(b, 0), result(b, 0));
}

enum st_status
st_bind_unslice(const struct st_bind *b, struct st_kernel *k)
{
	return slice(b, k, result(b, 0), operand(b, 0));
}

static unsigned
axes_of(const struct st_bind *b)
{
	return (unsigned)st_node_int(b->module, b->node, ST_KEY_axes);
}

/* This rank's piece, as a slice of what all of them hold. */
enum st_status
st_bind_shard(const struct st_bind *b, struct st_kernel *k)
{
	const struct st_type *from = operand(b, 0), *to = result(b, 0);
	unsigned axes = axes_of(b);
	struct st_place place = st_type_place(to, __builtin_ctz(axes));
	int f = place.factor;

	k->op = ST_OP_slice;
	k->slice.size = (int64_t)st_dtype_size(from->dtype);
	k->slice.p = k->slice.r = 1;
	k->slice.q = elements(b, from);
	k->slice.n = elements(b, to);
	if (place.kind == ST_PLACE_FACTOR) {
		k->slice.p = product(b, from, 0, f);
		k->slice.q = factor(b, from, f);
		k->slice.n = factor(b, to, f);
		k->slice.r = product(b, from, f + 1, from->factors);
	}
	k->slice.at = k->slice.n *
		      st_mesh_index(&b->module->mesh, b->rank, axes);
	return ST_OK;
}

enum st_status
st_bind_only(const struct st_bind *b, struct st_kernel *k)
{
	k->elementwise.count = elements(b, result(b, 0));
	k->elementwise.keep =
		st_mesh_index(&b->module->mesh, b->rank, axes_of(b)) == 0;
	return ST_OK;
}

/* A slice of factor f of a value of extents like `like` to n elements, from
 * q: longer pads with zeros, shorter strips. */
static int64_t
stretch(const struct st_bind *b, struct st_slice_args *slice,
	const struct st_type *like, int f, int64_t q, int64_t n)
{
	if (q == n)
		return 0;
	slice->p = product(b, like, 0, f);
	slice->q = q;
	slice->n = n;
	slice->r = product(b, like, f + 1, like->factors);
	slice->at = 0;
	slice->size = (int64_t)st_dtype_size(like->dtype);
	return slice->p * (q > n ? q : n) * slice->r * slice->size;
}

/* Outer rows and the elements of one rank's part in each; `whole` is what all
 * parts make. */
static void
parts(const struct st_bind *b, struct st_comm_args *c,
      const struct st_type *whole, const struct st_type *piece, int gather)
{
	struct st_place place = st_type_place(piece, __builtin_ctz(c->axes));
	int64_t span = st_mesh_span(&b->module->mesh, c->axes), all;
	int f = place.factor;

	c->outer = 1;
	c->chunk = elements(b, piece);
	if (place.kind == ST_PLACE_FLAT)
		return;
	c->outer = product(b, piece, 0, f);
	c->chunk = product(b, piece, f, piece->factors);
	all = factor(b, piece, f) * span;
	if (gather)
		c->strip_bytes = stretch(b, &c->strip, whole, f, all,
					 factor(b, whole, f));
	else
		c->pad_bytes = stretch(b, &c->pad, whole, f,
				       factor(b, whole, f), all);
}

/*
 * From a cut of factor i to one of factor j.  Between the two slices the
 * operand is [..][i's piece][..][all of j] and the result [..][all of i][..]
 * [j's piece], padding counted.
 */
static void
exchange(const struct st_bind *b, struct st_comm_args *c,
	 const struct st_type *from, const struct st_type *to)
{
	int axis = __builtin_ctz(c->axes);
	int i = st_type_place(from, axis).factor;
	int j = st_type_place(to, axis).factor;
	int first = i < j ? i : j, last = i < j ? j : i;
	int64_t span = st_mesh_span(&b->module->mesh, c->axes);
	int64_t piece_i = factor(b, from, i), piece_j = factor(b, to, j);

	c->pad_bytes = stretch(b, &c->pad, from, j, factor(b, from, j),
			       piece_j * span);
	c->strip_bytes = stretch(b, &c->strip, to, i, piece_i * span,
				 factor(b, to, i));
	c->split_last = i < j;
	c->outer = product(b, from, 0, first);
	c->middle = (i < j ? piece_i : piece_j) *
		    product(b, from, first + 1, last);
	c->chunk = (i < j ? piece_j : piece_i) *
		   product(b, from, last + 1, from->factors);
}

enum st_status
st_bind_comm(const struct st_bind *b, struct st_comm_args *c)
{
	const struct st_type *from = operand(b, 0), *to = result(b, 0);
	int64_t first, real;

	memset(c, 0, sizeof(*c));
	c->op = b->node->op;
	c->dtype = from->dtype;
	c->reduction = from->partial ? from->reduction : ST_SUM;
	c->axes = axes_of(b);
	c->count = elements(b, from);
	switch (c->op) {
	case ST_OP_all_reduce: return ST_OK;
	case ST_OP_all_gather: parts(b, c, to, from, 1); return ST_OK;
	case ST_OP_all_to_all: exchange(b, c, from, to); return ST_OK;
	case ST_OP_reduce_scatter:
		parts(b, c, from, to, 0);
		if (to->flat) {
			st_layout_flat(to, &b->module->mesh, b->rank, &first,
				       &real);
			c->zero_from = real;
			c->zero_count = c->chunk - real;
		}
		return ST_OK;
	default: return fail(b, "is not built for this backend");
	}
}

/* Collectives have no kernel record; a reshard never reaches a backend. */
#define NO_KERNEL(name)                                              \
	enum st_status st_bind_##name(const struct st_bind *b,       \
				      struct st_kernel *k)           \
	{                                                            \
		(void)k;                                             \
		return fail(b, "has no kernel");                     \
	}

NO_KERNEL(reshard)
NO_KERNEL(all_reduce)
NO_KERNEL(reduce_scatter)
NO_KERNEL(all_gather)
NO_KERNEL(all_to_all)
NO_KERNEL(wait)
