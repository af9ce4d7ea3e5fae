/* Small nets, made-up batches, counted checks. */

#include "tests/train/harness.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Heads (3) and vocabulary (61) do not divide by 2. */
const char net_gpt2[] =
	"stretto: 1\n"
	"model: {model_type: gpt2, vocab_size: 61, n_positions: 24,\n"
	"  n_embd: 24, n_layer: 2, n_head: 3, activation_function: gelu_new,\n"
	"  layer_norm_epsilon: 1e-5}\n"
	"training:\n"
	"  {seq_len: 16, micro_batch_size: 8, global_batch_size: 8,\n"
	"   dtype: f64, grad_clip: 1.0, seed: 3,\n"
	"   optimizer: {name: adamw, lr: 1e-2, betas: [0.9, 0.95],\n"
	"               weight_decay: 0.1}}\n";

const char net_llama[] =
	"stretto: 1\n"
	"model: {model_type: llama, vocab_size: 61, hidden_size: 24,\n"
	"  intermediate_size: 38, num_hidden_layers: 2,\n"
	"  num_attention_heads: 6, num_key_value_heads: 3, head_dim: 4,\n"
	"  hidden_act: silu, rms_norm_eps: 1e-5, rope_theta: 10000.0,\n"
	"  max_position_embeddings: 32, tie_word_embeddings: false}\n"
	"training:\n"
	"  {seq_len: 16, micro_batch_size: 8, global_batch_size: 8,\n"
	"   dtype: f64, grad_clip: 1.0, seed: 3,\n"
	"   optimizer: {name: adamw, lr: 1e-2, betas: [0.9, 0.95],\n"
	"               weight_decay: 0.1}}\n";

int run_reference;
int run_trace;
static int passed, failed;

void
check(int ok, const char *format, ...)
{
	va_list args;

	if (ok) {
		passed++;
		return;
	}
	failed++;
	printf("FAILED: ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
}

int
finish(void)
{
	printf("%d passed, %d failed, 0 skipped\n", passed, failed);
	return failed != 0 || passed == 0;
}

static void
print_messages(struct run *run)
{
	for (size_t i = 0; i < run->diag.count; i++)
		fputs(st_diag_render(&run->diag, i), stderr);
	run->diag.count = 0;
}

static enum st_status
compile(struct run *run, const char *yaml, const char *sets)
{
	static const char *const search[] = {"models/families", NULL};
	const char *list[RUN_SETS];
	struct st_model_source source = {.path = "net.yaml",
					 .text = yaml,
					 .length = strlen(yaml),
					 .sets = list,
					 .search = search};
	struct st_model_training training;
	struct st_model *model;

	while (*sets && source.set_count < RUN_SETS) {
		size_t n = strcspn(sets, " ");

		list[source.set_count++] =
			st_arena_strndup(&run->arena, sets, n);
		sets += n;
		sets += *sets == ' ';
	}
	ST_TRY(st_model_load(&run->arena, &run->diag, &run->names, &source,
			     &model));
	st_model_training(model, &training);
	run->vocabulary = training.vocab_size;
	return st_model_lower(model, &run->module);
}

static enum st_status
start(struct run *run)
{
	struct st_session_options options = {.reference = run_reference,
					     .trace = run_trace};
	struct st_pipeline pipeline;
	const struct st_type *type;
	struct st_module *m;
	size_t n;

	memset(&pipeline, 0, sizeof(pipeline));
	ST_TRY(st_pipeline_run(&pipeline, run->module, &run->module));
	m = run->module;
	ST_TRY(st_session_open(&run->arena, &run->diag, m, &options,
			       &run->session));
	run->init = st_module_find_entry(m, "init");
	run->prologue = st_module_find_entry(m, "prologue");
	run->accumulate = st_module_find_entry(m, "accumulate");
	run->step = st_module_find_entry(m, "step");
	run->eval = st_module_find_entry(m, "eval");
	type = st_value_type(m, m->entries.at[run->step].first_input);
	run->rows = type->f[0].size;
	run->length = type->f[1].size;
	run->micro_batches = m->options[ST_OPTION_micro_batches].i;
	n = (size_t)(run->rows * run->length);
	run->tokens = st_arena_array(&run->arena, n, sizeof(int32_t));
	run->targets = st_arena_array(&run->arena, n, sizeof(int32_t));
	return st_session_run(run->session, run->init);
}

static enum st_status
begin(struct run *run)
{
	memset(run, 0, sizeof(*run));
	st_arena_init(&run->arena, NULL);
	st_diag_init(&run->diag, &run->arena);
	return st_names_init(&run->names, &run->arena)
		       ? st_error_memory(&run->diag)
		       : ST_OK;
}

int
run_open(struct run *run, const char *yaml, const char *sets)
{
	enum st_status status = begin(run);

	if (status == ST_OK)
		status = compile(run, yaml, sets);
	if (status == ST_OK)
		status = start(run);
	print_messages(run);
	return (int)status;
}

int
run_lower(struct run *run, const char *yaml, const char *sets,
	  struct st_module **module)
{
	enum st_status status = begin(run);

	if (status == ST_OK)
		status = compile(run, yaml, sets);
	print_messages(run);
	*module = run->module;
	return (int)status;
}

int
run_open_ir(struct run *run, const char *text, int64_t vocabulary)
{
	enum st_status status = begin(run);
	uint32_t source = st_diag_add_source(&run->diag, "test.ir", text,
					     strlen(text));

	run->vocabulary = vocabulary;
	if (status == ST_OK)
		status = st_parse(&run->arena, &run->diag, &run->names, source,
				  &run->module);
	if (status == ST_OK)
		status = st_verify(run->module);
	if (status == ST_OK)
		status = start(run);
	print_messages(run);
	return (int)status;
}

void
run_close(struct run *run)
{
	st_session_close(run->session);
	st_arena_finish(&run->arena);
}

/* Tokens with something to learn: the next one follows from this one, but
 * for every fourth, which follows from the two before it. */
static void
make_rows(struct run *run, int64_t first_row)
{
	int64_t v = run->vocabulary;

	for (int64_t r = 0; r < run->rows; r++) {
		uint64_t x = (uint64_t)(first_row + r) *
				     6364136223846793005u +
			     1442695040888963407u;
		int64_t a, b;

		x ^= x >> 29;
		a = (int64_t)(x % (uint64_t)v);
		b = (int64_t)((x >> 20) % (uint64_t)v);
		for (int64_t t = 0; t < run->length; t++) {
			int64_t next = (b * 3 + (t % 4 ? 1 : a)) % v;

			run->tokens[r * run->length + t] = (int32_t)b;
			run->targets[r * run->length + t] = (int32_t)next;
			a = b;
			b = next;
		}
	}
}

static enum st_status
feed(struct run *run, uint32_t entry, int64_t batch)
{
	size_t bytes = (size_t)(run->rows * run->length) * sizeof(int32_t);

	make_rows(run, batch * run->rows);
	ST_TRY(st_session_write_input(run->session, entry, "tokens",
				      run->tokens, bytes));
	ST_TRY(st_session_write_input(run->session, entry, "targets",
				      run->targets, bytes));
	return st_session_run(run->session, entry);
}

static enum st_status
step(struct run *run, double *loss)
{
	if (run->fed == 0)
		ST_TRY(feed(run, run->prologue, run->fed++));
	for (int64_t i = 1; i < run->micro_batches; i++)
		ST_TRY(feed(run, run->accumulate, run->fed++));
	ST_TRY(feed(run, run->step, run->fed++));
	return st_session_read_scalar(run->session, run->step, "loss", loss);
}

int
run_step(struct run *run, double *loss)
{
	enum st_status status = step(run, loss);

	print_messages(run);
	return (int)status;
}

int
run_eval(struct run *run, double *loss)
{
	enum st_status status = feed(run, run->eval, 0);

	if (status == ST_OK)
		status = st_session_read_scalar(run->session, run->eval,
						"loss", loss);
	print_messages(run);
	return (int)status;
}

int
run_count(const struct run *run, uint32_t entry, enum st_op op)
{
	const struct st_entry *e = &run->module->entries.at[entry];
	int n = 0;

	for (uint32_t i = 0; i < e->nodes; i++)
		n += run->module->nodes.at[e->first_node + i].op == op;
	return n;
}
