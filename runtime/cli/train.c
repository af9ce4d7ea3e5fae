/* stretto train: steps of a model or plan on this machine. */

#include "runtime/cli/predict.h"
#include "runtime/json.h"
#include "runtime/trainer.h"
#include "runtime/weights.h"

#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INTERRUPTED = 130 };

static volatile sig_atomic_t interrupted;

static void
on_interrupt(int number)
{
	(void)number;
	interrupted = 1;
}

struct train {
	struct cli *cli;
	const char *data, *init, *save, *trace;
	int64_t steps, log_every, eval_batches;
	double holdout;
	struct st_link link;
	int reference, profile;
	struct st_model_training training;
	struct st_module *module;
	struct st_session *session;
	struct st_dataset dataset;
	struct st_trainer trainer;
	int64_t started;   /* ns */
	double exposed_ms; /* of a step, on rank 0 */
};

/* What rank 0 has waited for collectives since the session was opened. */
static int64_t
exposed_ns(const struct train *t)
{
	int64_t sum = st_session_op_ns(t->session, ST_OP_wait);

	for (enum st_op op = 0; op < ST_OP_COUNT; op++)
		if (st_ops[op].class == ST_COMM)
			sum += st_session_op_ns(t->session, op);
	return sum;
}

static enum st_status
print_step_json(struct train *t, int64_t step, const struct st_step_result *r,
		double ms, double rate)
{
	struct st_buffer out;
	struct st_json_writer w;

	st_buffer_init(&out, &t->cli->arena);
	st_json_writer_init(&w, st_json_put_buffer, &out);
	st_json_begin_object(&w);
	st_json_key(&w, "step");
	st_json_integer(&w, step);
	st_json_key(&w, "loss");
	st_json_number(&w, r->loss);
	st_json_key(&w, "grad_norm");
	st_json_number(&w, r->grad_norm);
	st_json_key(&w, "step_ms");
	st_json_number(&w, ms);
	st_json_key(&w, "tokens_per_s");
	st_json_number(&w, rate);
	st_json_end_object(&w);
	st_json_newline(&w);
	st_json_writer_finish(&w);
	return cli_write(t->cli, NULL, out.text, out.length);
}

static enum st_status
print_step(struct train *t, int64_t step, const struct st_step_result *r,
	   double ms)
{
	double tokens = (double)(t->trainer.rows * t->trainer.seq_len *
				 t->trainer.micro_batches);
	double rate = tokens / ms * 1e3;
	double passed = (double)(cli_clock() - t->started) / 1e9;
	double left = passed / (double)step * (double)(t->steps - step);
	int due = step == 1 || step == t->steps || step % t->log_every == 0;

	if (t->cli->json)
		return print_step_json(t, step, r, ms, rate);
	if (isatty(STDERR_FILENO))
		fprintf(stderr,
			"\rstep %lld/%lld  loss %.4f  %.0f tokens/s  %.0f s "
			"left \033[K",
			(long long)step, (long long)t->steps, r->loss, rate,
			left);
	if (!due)
		return ST_OK;
	if (isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
	printf("step %lld/%lld  loss %.4f  norm %.3f  lr %.2e  %.0f ms  %.0f "
	       "tokens/s  %.0f s left\n",
	       (long long)step, (long long)t->steps, r->loss, r->grad_norm,
	       r->lr, ms, rate, left);
	return cli_write(t->cli, NULL, "", 0);
}

static enum st_status
run_steps(struct train *t, double *last_loss)
{
	t->started = cli_clock();
	for (int64_t i = 1; i <= t->steps && !interrupted; i++) {
		int64_t before = cli_clock();
		struct st_step_result r;

		ST_TRY(st_trainer_step(&t->trainer, &r));
		ST_TRY(print_step(t, i, &r,
				  (double)(cli_clock() - before) / 1e6));
		*last_loss = r.loss;
		t->exposed_ms = (double)exposed_ns(t) / 1e6 / (double)i;
		if (!isfinite(r.loss))
			return st_error(&t->cli->diag, ST_ECHECK, st_no_loc(),
					"the loss is not finite at step %lld",
					(long long)i);
		if (interrupted)
			fprintf(stderr, "interrupted: ended after step %lld\n",
				(long long)i);
	}
	return ST_OK;
}

/* Half an evaluation is none: its mean is that of other batches. */
static enum st_status
evaluate(struct train *t, double *loss, int64_t *batches)
{
	*batches = 0;
	if (interrupted)
		return ST_OK;
	t->trainer.stop = &interrupted;
	ST_TRY(st_trainer_evaluate(&t->trainer, t->eval_batches, loss,
				   batches));
	if (!interrupted)
		return ST_OK;
	fprintf(stderr,
		"interrupted: the evaluation ended after %lld "
		"batches\n",
		(long long)*batches);
	*batches = 0;
	return ST_OK;
}

static enum st_status
print_final(struct train *t, double loss, double val_loss, int64_t batches)
{
	struct st_buffer out;
	struct st_json_writer w;

	if (!t->cli->json) {
		if (batches)
			printf("held-out loss %.4f nats a token (%lld "
			       "batches)\n",
			       val_loss, (long long)batches);
		return cli_write(t->cli, NULL, "", 0);
	}
	st_buffer_init(&out, &t->cli->arena);
	st_json_writer_init(&w, st_json_put_buffer, &out);
	st_json_begin_object(&w);
	st_json_key(&w, "final");
	if (t->steps > 0)
		st_json_number(&w, loss);
	else
		st_json_null(&w);
	st_json_key(&w, "val_loss");
	if (batches)
		st_json_number(&w, val_loss);
	else
		st_json_null(&w);
	st_json_key(&w, "exposed_comm_ms");
	st_json_number(&w, t->exposed_ms);
	st_json_end_object(&w);
	st_json_newline(&w);
	st_json_writer_finish(&w);
	return cli_write(t->cli, NULL, out.text, out.length);
}

/* What a model without context can reach, for bytes. */
static enum st_status
print_entropy(struct train *t)
{
	struct st_entropy entropy;

	if (t->cli->json || t->dataset.options.format != ST_DATASET_BYTES ||
	    t->dataset.tokens - t->dataset.train < 2)
		return ST_OK;
	ST_TRY(st_dataset_entropy(&t->dataset, &t->cli->diag, &entropy));
	printf("held-out bytes under their own counts: unigram entropy %.4f, "
	       "bigram %.4f nats a byte\n",
	       entropy.unigram, entropy.bigram);
	return ST_OK;
}

static void
print_profile(const struct train *t)
{
	for (enum st_op op = 0; op < ST_OP_COUNT; op++) {
		int64_t ns = st_session_op_ns(t->session, op);

		if (ns)
			fprintf(stderr, "  %-20s %10.1f ms\n", st_ops[op].name,
				(double)ns / 1e6);
	}
}

static enum st_status
open_session(struct train *t)
{
	struct st_session_options options = {.reference = t->reference,
					     .link = t->link,
					     .trace = t->trace != NULL};
	const struct st_module *m = t->module;
	enum st_status status = st_session_open(&t->cli->arena, &t->cli->diag,
						m, &options, &t->session);
	int half = 0;

	for (size_t i = 0; i < m->states.count; i++)
		half |= st_value_type(m, m->states.at[i].value)->dtype ==
			ST_BF16;
	if (status == ST_EINFEASIBLE && half)
		st_note(&t->cli->diag, st_no_loc(),
			"to train here, compile with --set training.dtype=f32");
	return status;
}

/* Each rank's last step. */
static enum st_status
save_traces(struct train *t)
{
	uint32_t step = st_module_find_entry(t->module, "step");
	struct st_trace trace;

	for (int64_t rank = 0; rank < st_mesh_ranks(&t->module->mesh); rank++) {
		ST_TRY(st_trace_measure(t->session, t->module, step, rank,
					&trace));
		if (t->link.gb_per_s > 0 || t->link.latency_us > 0)
			trace.kind = "emulated";
		ST_TRY(cli_trace_save(t->cli, &trace, t->trace));
	}
	return ST_OK;
}

/* Hours of training may not end in a message about a path. */
static enum st_status
check_save(struct train *t)
{
	struct stat info;

	if (t->trace && strcmp(t->trace, "-") == 0)
		return st_error(&t->cli->diag, ST_EUSAGE, st_no_loc(),
				"--trace -: traces go to files, one a rank");
	if (t->trace)
		ST_TRY(cli_check_output(t->cli, t->trace));
	if (!t->save)
		return ST_OK;
	if (strcmp(t->save, "-") == 0)
		return st_error(&t->cli->diag, ST_EINPUT, st_no_loc(),
				"--save -: weights go to a file, stdout has "
				"the losses");
	ST_TRY(cli_check_output(t->cli, t->save));
	/* It is written beside and renamed, which would replace a device. */
	if (stat(t->save, &info) == 0 && !S_ISREG(info.st_mode))
		return st_error(&t->cli->diag, ST_EINPUT, st_no_loc(),
				"%s is no regular file", t->save);
	if (t->init)
		ST_TRY(cli_check_apart(t->cli, t->save, t->init));
	return cli_check_apart(t->cli, t->save, t->data);
}

static enum st_status
prepare(struct train *t)
{
	struct st_dataset_options options = st_dataset_defaults();
	struct cli_passes passes = {.passes = NULL};
	struct st_model *model;

	ST_TRY(cli_load(t->cli, &t->module, &model));
	if (model)
		st_model_training(model, &t->training);
	if (model && strcmp(t->training.device, "cuda") == 0)
		return st_error(&t->cli->diag, ST_EDEVICE, st_no_loc(),
				"target.device is cuda, and this program has "
				"no such back end; --set target.device=cpu");
	if (!t->data && model)
		t->data = t->training.data;
	if (t->steps < 0)
		t->steps = t->training.steps > 0 ? t->training.steps : 100;
	if (!t->data || !t->data[0])
		return st_error(&t->cli->diag, ST_EUSAGE, st_no_loc(),
				"no data: give --data FILE or training.data");
	ST_TRY(check_save(t));
	if (t->module->arena_bytes == 0)
		ST_TRY(cli_run_passes(t->cli, &passes, model, t->module,
				      &t->module));
	options.holdout = t->holdout;
	options.vocabulary = t->training.vocab_size;
	options.seed = (uint64_t)t->module->options[ST_OPTION_seed].i;
	ST_TRY(st_dataset_open(&t->dataset, &t->cli->diag, t->data, &options));
	ST_TRY(open_session(t));
	ST_TRY(st_trainer_begin(&t->trainer, &t->cli->arena, &t->cli->diag,
				t->session, t->module, &t->dataset));
	return t->init ? st_weights_load(t->session, &t->cli->arena,
					 &t->cli->diag, t->module, t->init)
		       : ST_OK;
}

static void
print_start(const struct train *t)
{
	const struct st_module *m = t->module;

	if (t->cli->json)
		return;
	printf("%lld parameters on %lld ranks",
	       (long long)st_module_parameters(m),
	       (long long)st_mesh_ranks(&m->mesh));
	for (uint32_t i = 0; i < m->mesh.count; i++)
		printf("%s%s %lld", i ? " x " : ": ",
		       st_names_text(m->names, m->mesh.name[i]),
		       (long long)m->mesh.size[i]);
	printf("; %zu nodes, arena %.1f MiB a rank; batch %lld x %lld\n",
	       m->nodes.count, (double)m->arena_bytes / 1048576.0,
	       (long long)(t->trainer.rows * t->trainer.micro_batches),
	       (long long)t->trainer.seq_len);
	fflush(stdout);
}

static enum st_status
train(struct train *t)
{
	struct sigaction action;
	double loss = 0, val_loss = 0;
	int64_t batches;

	ST_TRY(prepare(t));
	cli_messages(t->cli);
	print_start(t);
	memset(&action, 0, sizeof(action));
	action.sa_handler = on_interrupt;
	action.sa_flags = (int)SA_RESETHAND; /* the second one ends at once */
	sigaction(SIGINT, &action, NULL);
	ST_TRY(run_steps(t, &loss));
	if (t->trace && t->steps > 0)
		ST_TRY(save_traces(t));
	t->trainer.stop = &interrupted;
	ST_TRY(evaluate(t, &val_loss, &batches));
	if (t->save)
		ST_TRY(st_weights_save(t->session, &t->cli->arena,
				       &t->cli->diag, t->module, t->save));
	ST_TRY(print_entropy(t));
	ST_TRY(print_final(t, loss, val_loss, batches));
	if (t->profile)
		print_profile(t);
	return ST_OK;
}

static enum st_status
run(struct train *t, int argc, char **argv)
{
	const struct cli_option options[] = {
		{"--data", 0, CLI_TEXT, &t->data, "FILE",
		 "text (bytes) or .bin (token ids)"},
		{"--steps", 0, CLI_INT, &t->steps, "N",
		 "optimizer steps (training.steps, else 100); 0: evaluate"},
		{"--init", 0, CLI_TEXT, &t->init, "FILE",
		 "begin from these safetensors"},
		{"--save", 0, CLI_TEXT, &t->save, "FILE",
		 "write the params at the end"},
		{"--holdout", 0, CLI_FLOAT, &t->holdout, "X",
		 "fraction held out for evaluation (0.05)"},
		{"--eval-batches", 0, CLI_INT, &t->eval_batches, "N",
		 "evaluate on at most N batches (all)"},
		{"--log-every", 0, CLI_INT, &t->log_every, "N",
		 "a line every N steps (10)"},
		{"--reference", 0, CLI_FLAG, &t->reference, NULL,
		 "plain kernels instead of the fast ones"},
		{"--link-gb-per-s", 0, CLI_FLOAT, &t->link.gb_per_s, "X",
		 "emulate a link of this rate between ranks"},
		{"--link-latency-us", 0, CLI_FLOAT, &t->link.latency_us, "X",
		 "and this latency of a collective (0)"},
		{"--trace", 0, CLI_TEXT, &t->trace, "FILE",
		 "write when each node of the last step ran, a file a rank"},
		{"--profile", 0, CLI_FLAG, &t->profile, NULL,
		 "time by op, at the end"},
		{.name = NULL},
	};
	const struct cli_usage usage = {
		"train", "MODEL|PLAN [options]",
		"stretto train models/nets/tiny-gpt.yaml --data book.txt\n"
		"stretto train plan.ir --data book.txt --steps 50 --save "
		"out.safetensors\n",
		1};
	int done;

	ST_TRY(cli_parse(t->cli, &usage, options, argc, argv, &done));
	if (done)
		return ST_OK;
	if (t->log_every < 1 || t->eval_batches < 0 || t->steps < -1)
		return st_error(&t->cli->diag, ST_EUSAGE, st_no_loc(),
				"--steps and --eval-batches count from 0, "
				"--log-every from 1");
	return train(t);
}

int
cli_train(int argc, char **argv)
{
	struct cli cli;
	struct train t;
	enum st_status status;
	int code;

	memset(&t, 0, sizeof(t));
	t.cli = &cli;
	t.holdout = 0.05;
	t.steps = -1; /* as the model says */
	t.log_every = 10;
	status = cli_begin(&cli);
	if (status == ST_OK)
		status = run(&t, argc, argv);
	cli_messages(&cli);
	st_session_close(t.session);
	st_dataset_close(&t.dataset);
	code = cli_end(&cli, status);
	return code == ST_OK && interrupted ? INTERRUPTED : code;
}
