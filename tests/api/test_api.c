/*
 * A trainer that knows stretto.h and nothing else: compiles, replays, reads
 * and writes params, and meets every error path.  Compiles as C11 and C++.
 * Standard output and error lead into a file meanwhile, which must stay
 * empty: the library never prints.
 */

#include "runtime/stretto.h"

#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int passed, failed;
static FILE *report; /* where standard output went before */

static void
check(int ok, const char *what)
{
	if (ok) {
		passed++;
		return;
	}
	failed++;
	fprintf(report, "FAILED: %s (last error: %s)\n", what,
		stretto_last_error());
}

/* The call fails with that status and a message that holds `text`. */
static void
check_error(int status, int want, const char *text)
{
	if (status == want && strstr(stretto_last_error(), text)) {
		passed++;
		return;
	}
	failed++;
	fprintf(report, "FAILED: status %d, want %d; no '%s' in: %s\n",
		status, want, text, stretto_last_error());
}

enum { ROWS = 4, LENGTH = 32, TOKENS = ROWS * LENGTH };

static const char *const sets[] = {
	"model.n_embd=32", "model.n_layer=2", "model.n_positions=32",
	"training.seq_len=32", "training.micro_batch_size=2",
	"training.optimizer.lr=1e-2", "training.schedule.warmup_steps=2",
};

static void
fill(int32_t *tokens, int32_t *targets, int step)
{
	for (int i = 0; i < TOKENS; i++) {
		tokens[i] = (i * 7 + step) % 256;
		targets[i] = (tokens[i] * 3 + 1) % 256;
	}
}

static stretto_plan *
compile(void)
{
	stretto_plan *plan = NULL;
	struct stretto_plan_info info, old;
	const char *text;
	size_t length;

	check(stretto_compile("models/nets/tiny-gpt.yaml", sets,
			      sizeof(sets) / sizeof(sets[0]),
			      &plan) == STRETTO_OK,
	      "compile");
	info.struct_size = sizeof(info);
	check(stretto_plan_info(plan, &info) == STRETTO_OK && info.ranks == 4 &&
		      info.nodes > 100 && info.arena_bytes > 0,
	      "plan info");
	/* A caller of an older version, whose struct ends behind `ranks`. */
	old.parameters = -7;
	old.struct_size = offsetof(struct stretto_plan_info, parameters);
	check(stretto_plan_info(plan, &old) == STRETTO_OK &&
		      old.ranks == 4 && old.parameters == -7,
	      "plan info of an older caller");
	check(stretto_last_error()[0] == '\0', "no message after a success");
	check(stretto_plan_text(plan, &text, &length) == STRETTO_OK &&
		      strlen(text) == length &&
		      strncmp(text, "stretto-ir 1\n", 13) == 0,
	      "plan text");
	return plan;
}

static double
train(stretto_session *session, int steps)
{
	static int32_t tokens[TOKENS], targets[TOKENS];
	static float loss;

	check(stretto_bind(session, "tokens", tokens, sizeof(tokens)) == 0 &&
		      stretto_bind(session, "targets", targets,
				   sizeof(targets)) == 0 &&
		      stretto_bind(session, "loss", &loss, sizeof(loss)) == 0,
	      "bind");
	check(stretto_capture(session) == STRETTO_OK, "capture");
	fill(tokens, targets, 0);
	check(stretto_replay(session, "prologue", NULL) == 0, "prologue");
	for (int i = 1; i <= steps; i++) {
		fill(tokens, targets, i);
		check(stretto_replay(session, "step", NULL) == 0, "step");
	}
	return (double)loss;
}

static void
check_states(stretto_session *session)
{
	static float old[32], fresh[32];

	check(stretto_read(session, "ln_f.weight", old, sizeof(old)) == 0,
	      "read a param");
	for (int i = 0; i < 32; i++)
		fresh[i] = old[i] + 1;
	check(stretto_write(session, "ln_f.weight", fresh, sizeof(fresh)) == 0,
	      "write a param");
	memset(old, 0, sizeof(old));
	check(stretto_read(session, "ln_f.weight", old, sizeof(old)) == 0 &&
		      memcmp(old, fresh, sizeof(old)) == 0,
	      "what was written is read");
	check_error(stretto_read(session, "ln_f.weight", old, 4),
		    STRETTO_USAGE, "has 128 bytes, 4 given");
	check_error(stretto_read(session, "no.such", old, 4), STRETTO_USAGE,
		    "no state 'no.such'");
	check_error(stretto_read(session, NULL, old, 4), STRETTO_USAGE,
		    "the name of the state is NULL");
	check_error(stretto_write(session, "ln_f.weight", NULL, 128),
		    STRETTO_USAGE, "the memory of the state is NULL");
}

static void
check_weights(stretto_session *session)
{
	static float before[32], after[32];
	size_t held;
	char path[] = "/tmp/stretto-api-XXXXXX";
	int file = mkstemp(path);

	check(file >= 0, "temporary file");
	close(file);
	stretto_read(session, "ln_f.weight", before, sizeof(before));
	check(stretto_save_weights(session, path) == 0, "save weights");
	memset(after, 0, sizeof(after));
	stretto_write(session, "ln_f.weight", after, sizeof(after));
	check(stretto_load_weights(session, path) == 0, "load weights");
	held = mallinfo2().uordblks;
	for (int i = 0; i < 20; i++)
		check(stretto_load_weights(session, path) == 0,
		      "load weights again");
	check(mallinfo2().uordblks <= held + 4096,
	      "loading keeps memory behind");
	stretto_read(session, "ln_f.weight", after, sizeof(after));
	check(memcmp(before, after, sizeof(before)) == 0,
	      "weights go round");
	remove(path);
	check_error(stretto_load_weights(session, path), STRETTO_BAD_INPUT,
		    path);
	check_error(stretto_load_weights(session, "README.md"),
		    STRETTO_BAD_INPUT, "looks like text");
	check_error(stretto_save_weights(session, "/none/w.safetensors"),
		    STRETTO_BAD_INPUT, "/none/w.safetensors");
}

/* Weights of another net are refused by the name of the tensor. */
static void
check_other_weights(stretto_session *session)
{
	static const char *const other[] = {
		"model.n_embd=16",    "model.n_layer=2",
		"model.n_positions=32", "training.seq_len=32",
		"training.micro_batch_size=2",
	};
	char path[] = "/tmp/stretto-api-XXXXXX";
	int file = mkstemp(path);
	stretto_session *small = NULL;
	stretto_plan *plan = NULL;

	check(file >= 0, "temporary file");
	close(file);
	check(stretto_compile("models/nets/tiny-gpt.yaml", other, 5, &plan) ==
			      0 &&
		      stretto_open(plan, NULL, &small) == 0 &&
		      stretto_capture(small) == 0 &&
		      stretto_save_weights(small, path) == 0,
	      "weights of another net");
	check_error(stretto_load_weights(session, path), STRETTO_BAD_INPUT,
		    "wte.weight");
	stretto_close(small);
	stretto_free(plan);
	remove(path);
}

static void
check_order(const stretto_plan *plan)
{
	static int32_t tokens[TOKENS];
	stretto_session *session = NULL;

	check(stretto_open(plan, NULL, &session) == 0, "open");
	check_error(stretto_replay(session, "step", NULL), STRETTO_USAGE,
		    "before capture");
	check(stretto_capture(session) == 0, "capture");
	check_error(stretto_replay(session, "step", NULL), STRETTO_USAGE,
		    "before 'prologue'");
	check_error(stretto_replay(session, "prologue", NULL), STRETTO_USAGE,
		    "'tokens' is not bound");
	check_error(stretto_replay(session, "step", NULL), STRETTO_USAGE,
		    "before 'prologue'");
	check_error(stretto_replay(session, "leap", NULL), STRETTO_USAGE,
		    "no entry 'leap'; it has 'init', ");
	check_error(stretto_replay(session, NULL, NULL), STRETTO_USAGE,
		    "no entry '(NULL)'");
	check_error(stretto_replay(session, "step", tokens), STRETTO_USAGE,
		    "no streams");
	check_error(stretto_bind(session, "tokens", tokens, 8), STRETTO_USAGE,
		    "512 bytes, 8 given");
	check_error(stretto_bind(session, NULL, tokens, 8), STRETTO_USAGE,
		    "is NULL");
	check_error(stretto_bind(session, "tokens", NULL, sizeof(tokens)),
		    STRETTO_USAGE, "is NULL");
	stretto_close(session);

	/* States are there from capture on. */
	session = NULL;
	check(stretto_open(plan, NULL, &session) == 0, "open");
	check_error(stretto_load_weights(session, "none"), STRETTO_USAGE,
		    "after stretto_capture");
	check_error(stretto_save_weights(session, "none"), STRETTO_USAGE,
		    "after stretto_capture");
	check_error(stretto_read(session, "wte.weight", tokens, 4),
		    STRETTO_USAGE, "after stretto_capture");
	stretto_close(session);
}

static void
check_bindings(const stretto_plan *plan)
{
	static int32_t tokens[TOKENS], targets[TOKENS];
	stretto_session *session = NULL;
	char little;

	check(stretto_open(plan, NULL, &session) == 0, "open");
	stretto_bind(session, "tokens", tokens, sizeof(tokens));
	stretto_bind(session, "targets", targets, sizeof(targets));
	check_error(stretto_bind(session, "loss", &little, sizeof(little)),
		    STRETTO_USAGE, "has 4 bytes, 1 given");
	check_error(stretto_bind(session, "tokenz", tokens, sizeof(tokens)),
		    STRETTO_USAGE,
		    "no entry has an input or output 'tokenz'; inputs are "
		    "'tokens', 'targets'; outputs are 'grad_norm'");
	stretto_close(session);
}

/* Two sessions of one plan do not see each other. */
static void
check_two(const stretto_plan *plan)
{
	static float one[32], two[32];
	struct stretto_options plain = {sizeof(plain), 1, 0};
	stretto_session *a = NULL, *b = NULL;

	check(stretto_open(plan, NULL, &a) == 0 &&
		      stretto_open(plan, &plain, &b) == 0 &&
		      stretto_capture(a) == 0 && stretto_capture(b) == 0,
	      "two sessions");
	for (int i = 0; i < 32; i++)
		one[i] = (float)i;
	check(stretto_write(a, "ln_f.bias", one, sizeof(one)) == 0 &&
		      stretto_read(b, "ln_f.bias", two, sizeof(two)) == 0,
	      "write one, read the other");
	for (int i = 0; i < 32; i++)
		check(two[i] == 0, "the other session's param");
	stretto_close(a);
	check(stretto_read(b, "ln_f.bias", two, sizeof(two)) == 0,
	      "one session outlives the other");
	stretto_close(b);
}

static void *
open_half(void *plan)
{
	static char texts[2][512];
	static int count;
	stretto_session *session = NULL;
	int n = __atomic_fetch_add(&count, 1, __ATOMIC_SEQ_CST);

	if (stretto_open((stretto_plan *)plan, NULL, &session) !=
	    STRETTO_INFEASIBLE)
		return NULL;
	snprintf(texts[n], sizeof(texts[n]), "%s", stretto_last_error());
	return texts[n];
}

/* Two threads that open one plan, which no backend runs: each is told, with
 * the place in the model. */
static void
check_open_twice(stretto_plan *plan)
{
	pthread_t threads[2];
	void *text;

	for (int i = 0; i < 2; i++)
		check(pthread_create(&threads[i], NULL, open_half, plan) == 0,
		      "thread");
	for (int i = 0; i < 2; i++) {
		check(pthread_join(threads[i], &text) == 0, "join");
		check(text && strstr((char *)text, "bf16") &&
			      strstr((char *)text, ".yaml:"),
		      text ? (char *)text : "no session of bf16");
	}
}

static void *
fail_elsewhere(void *arg)
{
	stretto_plan *plan = NULL;
	int *ok = (int *)arg;

	*ok = stretto_last_error()[0] == '\0' &&
	      stretto_load("elsewhere.ir", &plan) == STRETTO_BAD_INPUT &&
	      strstr(stretto_last_error(), "elsewhere.ir") != NULL;
	return NULL;
}

/* The last error is that of the thread. */
static void
check_threads(void)
{
	stretto_plan *plan = NULL;
	pthread_t thread;
	int ok = 0;

	check_error(stretto_load("here.ir", &plan), STRETTO_BAD_INPUT,
		    "here.ir");
	check(pthread_create(&thread, NULL, fail_elsewhere, &ok) == 0 &&
		      pthread_join(thread, NULL) == 0 && ok,
	      "failure in another thread");
	check(strstr(stretto_last_error(), "here.ir") != NULL &&
		      strstr(stretto_last_error(), "elsewhere") == NULL,
	      "each thread has its last error");
}

/* A token outside the vocabulary ends the session, by name. */
static void
check_range(const stretto_plan *plan)
{
	static int32_t tokens[TOKENS], targets[TOKENS];
	stretto_session *session = NULL;
	int status;

	check(stretto_open(plan, NULL, &session) == 0, "open");
	stretto_bind(session, "tokens", tokens, sizeof(tokens));
	stretto_bind(session, "targets", targets, sizeof(targets));
	stretto_capture(session);
	fill(tokens, targets, 0);
	tokens[5] = 256;
	stretto_replay(session, "prologue", NULL);
	status = stretto_replay(session, "step", NULL);
	check_error(status, STRETTO_BAD_INPUT,
		    "token 256 at [0, 5] is outside the vocabulary of 256");
	check(strstr(stretto_last_error(), "rank ") != NULL &&
		      strstr(stretto_last_error(), "embedding") != NULL,
	      "the message names rank and op");
	check(strstr(stretto_last_error(), ".yaml:") != NULL ||
		      strstr(stretto_last_error(), "text:") != NULL,
	      "and leads into the model");
	tokens[5] = 5;
	check_error(stretto_replay(session, "step", NULL), STRETTO_BAD_INPUT,
		    "can only be closed");
	check(strstr(stretto_last_error(), "token 256 at [0, 5]") != NULL,
	      "the first reason stays");
	check_error(stretto_capture(session), STRETTO_BAD_INPUT, "token 256");
	check_error(stretto_read(session, "ln_f.weight", tokens, 128),
		    STRETTO_BAD_INPUT, "token 256");
	check_error(stretto_save_weights(session, "none"), STRETTO_BAD_INPUT,
		    "token 256");
	check(strstr(stretto_last_error(), "gpt2.yaml:41:") != NULL,
	      "and its place");
	check_error(stretto_capture(session), STRETTO_BAD_INPUT,
		    "can only be closed");
	stretto_close(session);
}

static void
check_inputs(void)
{
	static const char *const wrong[] = {"model.n_embed=32"};
	static const char *const pipeline[] = {"parallelism.pp=2"};
	static const char torn[] = "stretto-ir 1\nform ranked\nentry @";
	stretto_plan *plan = NULL;

	check_error(stretto_compile("none.yaml", NULL, 0, &plan),
		    STRETTO_BAD_INPUT, "none.yaml");
	check_error(stretto_compile(NULL, NULL, 0, &plan), STRETTO_USAGE,
		    "is NULL");
	check_error(stretto_load(NULL, &plan), STRETTO_USAGE, "is NULL");
	check_error(stretto_compile("tests/golden/mlp.ir", NULL, 0, &plan),
		    STRETTO_BAD_INPUT,
		    "IR text is loaded with stretto_load");
	check_error(stretto_load("models/nets/tiny-gpt.yaml", &plan),
		    STRETTO_BAD_INPUT, "compiled with stretto_compile");
	check_error(stretto_compile("models/nets/tiny-gpt.yaml", NULL, 1,
				    &plan),
		    STRETTO_USAGE, "sets[0] is NULL");
	check_error(stretto_load_text(NULL, 4, &plan), STRETTO_USAGE,
		    "is NULL");
	check_error(stretto_compile("models/nets/tiny-gpt.yaml", wrong, 1,
				    &plan),
		    STRETTO_BAD_INPUT, "did you mean");
	check_error(stretto_compile("models/nets/tiny-gpt.yaml", pipeline, 1,
				    &plan),
		    STRETTO_INFEASIBLE, "pp");
	check_error(stretto_load("none.ir", &plan), STRETTO_BAD_INPUT,
		    "none.ir");
	check_error(stretto_load_text("nonsense", 8, &plan), STRETTO_BAD_INPUT,
		    "not IR text");
	check_error(stretto_load_text(torn, sizeof(torn) - 1, &plan),
		    STRETTO_BAD_INPUT, "text:3:");
	check(plan == NULL, "no plan is handed out on failure");
	stretto_free(NULL);
	stretto_close(NULL);
	check(strcmp(stretto_version(), "") != 0, "version");
}

/* IR text of any stage: what is still to come is run. */
static void
check_stages(void)
{
	static const char *const paths[] = {"tests/golden/mlp.ir",
					    "tests/golden/mlp.grad.ir",
					    "tests/golden/mlp.partition.ir",
					    "tests/golden/mlp.plan.ir"};

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		stretto_session *session = NULL;
		stretto_plan *plan = NULL;

		check(stretto_load(paths[i], &plan) == 0 &&
			      stretto_open(plan, NULL, &session) == 0 &&
			      stretto_capture(session) == 0,
		      paths[i]);
		stretto_close(session);
		stretto_free(plan);
	}
}

/* NULL where there must be something is said, never followed. */
static void
check_null(const stretto_plan *plan)
{
	static const char *const none[] = {NULL};
	struct stretto_plan_info info = {sizeof(info), 0, 0, 0, 0};
	stretto_plan *made = NULL;
	stretto_session *session = NULL;
	const char *text;
	size_t length;

	check_error(stretto_compile("models/nets/tiny-gpt.yaml", none, 1,
				    &made),
		    STRETTO_USAGE, "sets[0] is NULL");
	check_error(stretto_compile("models/nets/tiny-gpt.yaml", NULL, 2,
				    &made),
		    STRETTO_USAGE, "sets[0] is NULL");
	check_error(stretto_compile("none", NULL, 0, NULL), STRETTO_USAGE,
		    "stretto_compile: the place for the plan is NULL");
	check_error(stretto_load("none", NULL), STRETTO_USAGE, "is NULL");
	check_error(stretto_load_text(NULL, 1, &made), STRETTO_USAGE,
		    "the text is NULL");
	check_error(stretto_plan_text(NULL, &text, &length), STRETTO_USAGE,
		    "the plan is NULL");
	check_error(stretto_plan_text(plan, NULL, &length), STRETTO_USAGE,
		    "is NULL");
	check_error(stretto_plan_info(NULL, &info), STRETTO_USAGE,
		    "the plan is NULL");
	check_error(stretto_plan_info(plan, NULL), STRETTO_USAGE,
		    "the info is NULL");
	check_error(stretto_open(NULL, NULL, &session), STRETTO_USAGE,
		    "the plan is NULL");
	check_error(stretto_open(plan, NULL, NULL), STRETTO_USAGE,
		    "the place for the session is NULL");
	check_error(stretto_bind(NULL, "tokens", &info, 4), STRETTO_USAGE,
		    "the session is NULL");
	check_error(stretto_capture(NULL), STRETTO_USAGE, "session is NULL");
	check_error(stretto_replay(NULL, "step", NULL), STRETTO_USAGE,
		    "session is NULL");
	check_error(stretto_read(NULL, "a", &info, 4), STRETTO_USAGE,
		    "session is NULL");
	check_error(stretto_write(NULL, "a", &info, 4), STRETTO_USAGE,
		    "session is NULL");
	check_error(stretto_load_weights(NULL, "a"), STRETTO_USAGE,
		    "session is NULL");
	check_error(stretto_save_weights(NULL, "a"), STRETTO_USAGE,
		    "session is NULL");
	check(made == NULL && session == NULL, "nothing is handed out");
}

/* What a plan cannot do here is said by the session, not lost in the plan. */
static void
check_refused(void)
{
	static const char *const bf16[] = {"training.dtype=bf16"};
	struct stretto_options late = {sizeof(late), 0, -1};
	stretto_session *session = NULL;
	stretto_plan *plan = NULL;

	check(stretto_compile("models/nets/tiny-gpt.yaml", bf16, 1, &plan) ==
		      0,
	      "compile bf16");
	check_error(stretto_open(plan, NULL, &session), STRETTO_INFEASIBLE,
		    "training.dtype");
	check_open_twice(plan);
	check_error(stretto_open(plan, &late, &session), STRETTO_USAGE,
		    "timeout_ms");
	check(session == NULL, "no session is handed out on failure");
	stretto_free(plan);
}

static void
check_all(void)
{
	stretto_plan *plan = compile(), *again = NULL;
	stretto_session *session = NULL;
	struct stretto_options options = {sizeof(options), 0, 60000};
	const char *text;
	double first, last, repeated;
	size_t length;

	check(stretto_open(plan, &options, &session) == 0, "open");
	first = train(session, 1);
	last = train(session, 20);
	check(isfinite(last) && last < first - 0.5, "the loss falls");
	repeated = train(session, 20);
	check(last == repeated, "capture begins anew, bit for bit");
	check_states(session);
	check_weights(session);
	check_other_weights(session);
	stretto_close(session);

	/* The same plan from its text. */
	stretto_plan_text(plan, &text, &length);
	check(stretto_load_text(text, length, &again) == 0, "load text");
	session = NULL;
	check(stretto_open(again, NULL, &session) == 0, "open again");
	check(train(session, 20) == last, "a loaded plan trains alike");
	stretto_close(session);
	stretto_free(again);

	check_order(plan);
	check_bindings(plan);
	check_two(plan);
	check_range(plan);
	check_inputs();
	check_refused();
	check_null(plan);
	check_stages();
	check_threads();
	stretto_free(plan);
}

int
main(void)
{
	FILE *silence = tmpfile();
	long printed;

	report = fdopen(dup(1), "w");
	if (!report || !silence || dup2(fileno(silence), 1) < 0 ||
	    dup2(fileno(silence), 2) < 0)
		return 1;
	check_all();
	fflush(stdout);
	fflush(stderr);
	printed = lseek(fileno(silence), 0, SEEK_END);
	check(printed == 0, "the library printed");
	fprintf(report, "%d passed, %d failed, 0 skipped\n", passed, failed);
	return fclose(report) != 0 || failed != 0;
}
