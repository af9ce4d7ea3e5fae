/*
 * Random programs: whatever the graph, however params and activations are
 * cut, every layout computes what one rank computes.
 *
 * A program is a random chain of products, biases, activations, norms, sums
 * and marks over a residual stream, ended by a loss.  It is written twice,
 * with and without a mesh, compiled, printed, parsed again, and trained for
 * three steps in double precision.
 *
 * usage: test_random [SEED [PROGRAMS]]: prints the seed of what failed
 */

#include "tests/train/harness.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { T = 12, B = 4, VOCABULARY = 23, MOST_VALUES = 40, ROOM = 1 << 16 };

/* One random program, and the mesh it is written for. */
struct program {
	uint64_t seed, state;
	int dp, shard, tp, stage, micro_batches, recompute;
	int spread; /* written with the mesh? */
	char states[ROOM], init[ROOM], body[ROOM], text[ROOM];
	int width[MOST_VALUES]; /* of value i, named %vi */
	int values, params;
};

static uint64_t
draw(struct program *p)
{
	uint64_t z = p->state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static int
below(struct program *p, int n)
{
	return (int)(draw(p) % (uint64_t)n);
}

/* Appends; every buffer has ROOM and is used far below it. */
static void
put(char *to, const char *format, ...)
{
	size_t n = strlen(to);
	va_list args;

	va_start(args, format);
	vsnprintf(to + n, ROOM - n, format, args);
	va_end(args);
}

/* "10", or "10+2/tp" where tp cuts it. */
static const char *
extent(const struct program *p, int size, int cut)
{
	static char text[4][32];
	static int turn;
	int pad = (p->tp - size % p->tp) % p->tp;
	char *s = text[turn++ % 4];

	if (!cut || p->tp == 1 || !p->spread)
		snprintf(s, 32, "%d", size);
	else if (pad)
		snprintf(s, 32, "%d+%d/tp", size, pad);
	else
		snprintf(s, 32, "%d/tp", size);
	return s;
}

static const char *
flat(const struct program *p)
{
	return p->spread && p->shard > 1 && p->stage == 3 ? " flat(dp_shard)"
							  : "";
}

/* A matrix or (columns 0) a vector; returns its number. */
static int
add_param(struct program *p, int rows, int columns, int cut_rows,
	  int cut_columns, double fill)
{
	int n = p->params++;

	if (columns) {
		put(p->states, "state param %%p%d : f64[%s, %s]%s\n", n,
		    extent(p, rows, cut_rows), extent(p, columns, cut_columns),
		    flat(p));
		put(p->init,
		    "  %%i%d = random seed=7, std=0.3, stream=\"p%d\" : "
		    "f64[%d, %d]\n",
		    n, n, rows, columns);
	} else {
		put(p->states, "state param %%p%d : f64[%s]%s\n", n,
		    extent(p, rows, cut_rows), flat(p));
		put(p->init, "  %%i%d = fill factor=%.1f : f64[%d]\n", n, fill,
		    rows);
	}
	return n;
}

static int
add_value(struct program *p, int width)
{
	p->width[p->values] = width;
	return p->values++;
}

static void
add_product(struct program *p, int from)
{
	static const int widths[] = {10, 12, 14};
	int width = widths[below(p, 3)], cut = below(p, 3);
	int old = p->width[from], transposed = below(p, 2);
	int w, v;

	if (transposed)
		w = add_param(p, width, old, cut == 1, cut == 2, 0);
	else
		w = add_param(p, old, width, cut == 2, cut == 1, 0);
	v = add_value(p, width);
	put(p->body, "  %%v%d = matmul %%v%d, %%p%d, dims=\"%s\" : "
		     "f64[%d, %d, %d]\n",
	    v, from, w, transposed ? "tbc,oc->tbo" : "tbc,co->tbo", T, B,
	    width);
}

static void
add_bias(struct program *p, int from)
{
	int width = p->width[from];
	int b = add_param(p, width, 0, below(p, 2), 0, 0.1);
	int v = add_value(p, width);

	put(p->body,
	    "  %%v%d = add %%v%d, %%p%d, dims=\"tbc,c->tbc\" : "
	    "f64[%d, %d, %d]\n",
	    v, from, b, T, B, width);
}

static void
add_activation(struct program *p, int from)
{
	static const char *const names[] = {"gelu_tanh", "gelu_erf", "silu"};
	int v = add_value(p, p->width[from]);

	put(p->body, "  %%v%d = activation %%v%d, act=\"%s\" : "
		     "f64[%d, %d, %d]\n",
	    v, from, names[below(p, 3)], T, B, p->width[from]);
}

static void
add_norm(struct program *p, int from)
{
	int width = p->width[from], w = add_param(p, width, 0, 0, 0, 1.0);
	int b, v;

	if (below(p, 2)) {
		v = add_value(p, width);
		put(p->body,
		    "  %%v%d, %%r%d = rmsnorm %%v%d, %%p%d, eps=1e-05 : "
		    "f64[%d, %d, %d], f64[%d, %d]\n",
		    v, v, from, w, T, B, width, T, B);
		return;
	}
	b = add_param(p, width, 0, 0, 0, 0.0);
	v = add_value(p, width);
	put(p->body,
	    "  %%v%d, %%m%d, %%r%d = layernorm %%v%d, %%p%d, %%p%d, "
	    "eps=1e-05 : f64[%d, %d, %d], f64[%d, %d], f64[%d, %d]\n",
	    v, v, v, from, w, b, T, B, width, T, B, T, B);
}

static void
add_sum(struct program *p, int from)
{
	int other = from;

	for (int i = 0; i < p->values; i++)
		if (p->width[i] == p->width[from] && below(p, 2))
			other = i;
	put(p->body, "  %%v%d = sum %%v%d, %%v%d : f64[%d, %d, %d]\n",
	    add_value(p, p->width[from]), from, other, T, B, p->width[from]);
}

static void
add_scale(struct program *p, int from)
{
	int v = add_value(p, p->width[from]);

	put(p->body, "  %%v%d = scale %%v%d, factor=0.75 : f64[%d, %d, %d]\n",
	    v, from, T, B, p->width[from]);
}

/* Rows of the batch over both axes of data parallelism. */
static const char *
batch(const struct program *p)
{
	static char text[64];

	snprintf(text, sizeof(text), "%d%s%s", B,
		 p->spread && p->dp > 1 ? "/dp_replicate" : "",
		 p->spread && p->shard > 1 ? "/dp_shard" : "");
	return text;
}

/* Says how the stream is spread here: over positions, or not at all. */
static void
add_mark(struct program *p, int from)
{
	int width = p->width[from], over_positions = below(p, 2);
	int v = add_value(p, width);

	if (!p->spread)
		put(p->body, "  %%v%d = copy %%v%d : f64[%d, %d, %d]\n", v,
		    from, T, B, width);
	else
		put(p->body, "  %%v%d = reshard %%v%d : f64[%s, %s, %d]\n", v,
		    from, extent(p, T, over_positions), batch(p), width);
}

static void
write_body(struct program *p)
{
	static void (*const add[])(struct program *, int) = {
		add_product, add_product, add_bias,  add_activation,
		add_norm,    add_sum,     add_scale, add_mark};
	int table = add_param(p, VOCABULARY, 12, below(p, 2), 0, 0);
	int count = 4 + below(p, 14), head, last;

	put(p->body, "  %%v%d = embedding %%tokens, %%p%d : f64[%d, %d, 12]\n",
	    add_value(p, 12), table, T, B);
	for (int i = 0; i < count; i++) {
		int from = below(p, 4) ? p->values - 1 : below(p, p->values);

		add[below(p, 8)](p, from);
	}
	last = p->values - 1;
	head = add_param(p, VOCABULARY, p->width[last], below(p, 2), 0, 0);
	put(p->body,
	    "  %%logits = matmul %%v%d, %%p%d, dims=\"tbc,vc->tbv\" : "
	    "f64[%d, %d, %d]\n",
	    last, head, T, B, VOCABULARY);
	put(p->body,
	    "  %%max = xent_max %%logits : f64[%d, %d]\n"
	    "  %%exps, %%hits = xent_sum %%logits, %%targets, %%max : "
	    "f64[%d, %d], f64[%d, %d]\n"
	    "  %%loss = xent_loss %%max, %%exps, %%hits, factor=%.6f : "
	    "f64[]\n",
	    T, B, T, B, T, B, 1.0 / (T * B));
}

static void
write_mesh(struct program *p)
{
	const char *comma = "";

	p->text[0] = '\0';
	put(p->text, "stretto-ir 1\nform logical\n");
	if (p->spread && p->dp * p->shard * p->tp > 1) {
		put(p->text, "mesh ");
		if (p->dp > 1) {
			put(p->text, "dp_replicate=%d", p->dp);
			comma = ", ";
		}
		if (p->shard > 1) {
			put(p->text, "%sdp_shard=%d", comma, p->shard);
			comma = ", ";
		}
		if (p->tp > 1)
			put(p->text, "%stp=%d", comma, p->tp);
		put(p->text, "\n");
	}
	put(p->text, "option micro_batches = %d\n", p->micro_batches);
	if (p->recompute && p->spread)
		put(p->text, "option recompute = \"selective\"\n");
	if (p->spread && p->shard > 1)
		put(p->text, "option zero_stage = %d\n", p->stage);
	put(p->text, "option grad_clip = 0.5\noption lr = 0.01\n");
}

static void
write_program(struct program *p, uint64_t seed, int spread)
{
	memset(p, 0, sizeof(*p));
	p->seed = p->state = seed;
	p->spread = spread;
	p->dp = 1 + below(p, 2);
	p->shard = 1 + below(p, 2);
	p->tp = 1 + below(p, 3);
	p->stage = below(p, 4);
	p->micro_batches = 1 + below(p, 2);
	p->recompute = below(p, 2);
	write_body(p);
	write_mesh(p);
	put(p->text, "%s", p->states);
	put(p->text, "entry @init() {\n");
	put(p->text, "%s", p->init);
	for (int i = 0; i < p->params; i++)
		put(p->text, "  ret %%i%d -> %%p%d\n", i, i);
	put(p->text,
	    "}\nentry @eval(%%tokens : i32[%s, %d], %%targets : i32[%s, %d]) "
	    "{\n",
	    batch(p), T, batch(p), T);
	put(p->text, "%s", p->body);
	put(p->text, "  ret %%loss as loss\n}\n");
}

/* The plan prints to a text that parses to the same text. */
static void
check_print(struct run *run, uint64_t seed)
{
	struct st_buffer first, second;
	struct st_module *again = NULL;
	uint32_t source;

	st_buffer_init(&first, &run->arena);
	st_buffer_init(&second, &run->arena);
	st_print(run->module, &first);
	source = st_diag_add_source(&run->diag, "plan", first.text,
				    first.length);
	if (st_parse(&run->arena, &run->diag, &run->names, source, &again) ==
		    ST_OK &&
	    st_verify(again) == ST_OK)
		st_print(again, &second);
	check(again && strcmp(first.text, second.text) == 0,
	      "seed %llu: print and parse", (unsigned long long)seed);
}

static int
train(const struct program *p, double losses[3])
{
	struct run run;
	int status = run_open_ir(&run, p->text, VOCABULARY);

	for (int i = 0; i < 3 && !status; i++)
		status = run_step(&run, &losses[i]);
	if (!status && p->spread)
		check_print(&run, p->seed);
	run_close(&run);
	return status;
}

static void
check_program(uint64_t seed)
{
	static struct program whole, spread;
	double one[3], many[3], most = 0;
	int ok;

	write_program(&whole, seed, 0);
	write_program(&spread, seed, 1);
	ok = train(&whole, one) == 0 && train(&spread, many) == 0;
	for (int i = 0; ok && i < 3; i++)
		if (!(fabs(one[i] - many[i]) <= most))
			most = fabs(one[i] - many[i]);
	check(ok && most < 1e-9,
	      "seed %llu: dp %d, dp_shard %d, tp %d, stage %d: differs by %g",
	      (unsigned long long)seed, spread.dp, spread.shard, spread.tp,
	      spread.stage, most);
	if (!ok || most >= 1e-9)
		fprintf(stderr, "%s\n", spread.text);
}

int
main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	int programs = argc > 2 ? atoi(argv[2]) : 150;

	for (int i = 0; i < programs; i++)
		check_program(seed + (uint64_t)i);
	return finish();
}
