/* Options, files and messages of the subcommands. */

#include "runtime/cli/profile.h"

#include "models/machine.h"
#include "passes/cost.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "config.h"

/* In order: the current folder; beside the program, in the tree that it was
 * built in or where it was moved with what was installed; the prefix. */
static const char *search[6] = {"models/families"};

static void
find_models(struct cli *cli)
{
	/* Variants of a build lie one folder deeper. */
	static const char *const beside[] = {"../models/families",
					     "../../models/families",
					     "../share/stretto/families"};
	char self[4096];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	size_t n = 1;

	self[length > 0 ? length : 0] = '\0';
	for (size_t i = 0; length > 0 && i < 3; i++) {
		const char *slash = strrchr(self, '/');
		const char *path = st_arena_printf(&cli->arena, "%.*s%s",
						   (int)(slash + 1 - self),
						   self, beside[i]);

		if (path && access(path, X_OK) == 0)
			search[n++] = path;
	}
	search[n++] = ST_PREFIX "/share/stretto/families";
	search[n] = NULL;
}

enum st_status
cli_begin(struct cli *cli)
{
	memset(cli, 0, sizeof(*cli));
	st_arena_init(&cli->arena, NULL);
	st_diag_init(&cli->diag, &cli->arena);
	find_models(cli);
	if (st_names_init(&cli->names, &cli->arena))
		return st_error_memory(&cli->diag);
	return ST_OK;
}

void
cli_messages(struct cli *cli)
{
	for (; cli->shown < cli->diag.count; cli->shown++)
		fputs(st_diag_render(&cli->diag, cli->shown), stderr);
}

/* What printf and its kin could not write shows here at the latest. */
static enum st_status
check_stdout(struct cli *cli)
{
	int failed = fflush(stdout) != 0;

	if (!failed && !ferror(stdout))
		return ST_OK;
	return st_error(&cli->diag, ST_EDEVICE, st_no_loc(),
			"stdout: could not write%s%s", failed ? ": " : "",
			failed ? strerror(errno) : "");
}

int
cli_end(struct cli *cli, enum st_status status)
{
	if (status == ST_OK)
		status = check_stdout(cli);
	cli_messages(cli);
	st_arena_finish(&cli->arena);
	return (int)status;
}

int64_t
cli_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static const struct cli_option *
common_options(struct cli *cli)
{
	static struct cli_option table[4];

	table[0] = (struct cli_option){
		"--set",     0,
		CLI_SETS,    cli,
		"A.B=VALUE", "set a key of the model, as often as wanted"};
	table[1] = (struct cli_option){"--json",   0,    CLI_FLAG,
				       &cli->json, NULL, "print JSON"};
	table[2] = (struct cli_option){
		"--strict",
		0,
		CLI_FLAG,
		&cli->strict,
		NULL,
		"what was asked for and did not apply is exit code 1"};
	table[3].name = NULL;
	return table;
}

static void
print_options(const struct cli_option *o)
{
	for (; o && o->name; o++) {
		char left[64];

		snprintf(left, sizeof(left), "%s%c%c%s %s",
			 o->letter ? "-" : "", o->letter ? o->letter : ' ',
			 o->letter ? ',' : ' ', o->name,
			 o->value ? o->value : "");
		printf("  %-26s %s\n", left, o->help);
	}
}

static void
print_usage(struct cli *cli, const struct cli_usage *usage,
	    const struct cli_option *options)
{
	printf("%s\nusage: stretto %s %s\n\n", usage->examples, usage->command,
	       usage->arguments);
	print_options(options);
	print_options(common_options(cli));
}

static const struct cli_option *
find_option(const struct cli_option *o, const char *word, size_t length)
{
	for (; o && o->name; o++) {
		if (strlen(o->name) == length &&
		    memcmp(o->name, word, length) == 0)
			return o;
		if (length == 2 && word[0] == '-' && word[1] == o->letter)
			return o;
	}
	return NULL;
}

static enum st_status
bad_value(struct cli *cli, const struct cli_option *o, const char *value)
{
	return st_error(&cli->diag, ST_EUSAGE, st_no_loc(),
			"%s wants %s, not '%s'", o->name,
			o->kind == CLI_INT ? "an integer" : "a number", value);
}

static enum st_status
apply(struct cli *cli, const struct cli_option *o, const char *value)
{
	char *end;

	errno = 0;
	switch (o->kind) {
	case CLI_FLAG: *(int *)o->target = 1; return ST_OK;
	case CLI_TEXT: *(const char **)o->target = value; return ST_OK;
	case CLI_INT:
		*(int64_t *)o->target = strtoll(value, &end, 10);
		return *end || end == value || errno ? bad_value(cli, o, value)
						     : ST_OK;
	case CLI_FLOAT:
		*(double *)o->target = strtod(value, &end);
		return *end || end == value ? bad_value(cli, o, value) : ST_OK;
	case CLI_SETS:
		if (cli->set_count == CLI_MOST_SETS)
			return st_error(&cli->diag, ST_EUSAGE, st_no_loc(),
					"more than %d --set", CLI_MOST_SETS);
		cli->sets[cli->set_count++] = value;
		return ST_OK;
	}
	return ST_OK;
}

static enum st_status
unknown_option(struct cli *cli, const struct cli_option *options,
	       const char *word)
{
	const char *list[40] = {NULL}, *near;
	size_t n = 0;

	for (const struct cli_option *o = options; o && o->name && n < 35; o++)
		list[n++] = o->name;
	for (const struct cli_option *o = common_options(cli); o->name; o++)
		list[n++] = o->name;
	near = st_nearest(word, list);
	return st_error(&cli->diag, ST_EUSAGE, st_no_loc(),
			"unknown option '%s'%s%s%s", word,
			near ? "; did you mean '" : "", near ? near : "",
			near ? "'?" : "");
}

static enum st_status
take_option(struct cli *cli, const struct cli_option *options, int argc,
	    char **argv, int *i)
{
	const char *word = argv[*i], *equal = strchr(word, '=');
	size_t length = equal ? (size_t)(equal - word) : strlen(word);
	const struct cli_option *o = find_option(options, word, length);

	if (!o)
		o = find_option(common_options(cli), word, length);
	if (!o)
		return unknown_option(cli, options, word);
	if (o->kind == CLI_FLAG)
		return equal ? st_error(&cli->diag, ST_EUSAGE, st_no_loc(),
					"%s takes no value", o->name)
			     : apply(cli, o, NULL);
	if (equal)
		return apply(cli, o, equal + 1);
	if (*i + 1 == argc)
		return st_error(&cli->diag, ST_EUSAGE, st_no_loc(),
				"%s wants a value", o->name);
	return apply(cli, o, argv[++*i]);
}

enum st_status
cli_parse(struct cli *cli, const struct cli_usage *usage,
	  const struct cli_option *options, int argc, char **argv, int *done)
{
	*done = 0;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0 ||
		    strcmp(argv[i], "-h") == 0) {
			print_usage(cli, usage, options);
			*done = 1;
			return ST_OK;
		}
		if (argv[i][0] == '-' && argv[i][1]) {
			ST_TRY(take_option(cli, options, argc, argv, &i));
			continue;
		}
		if (cli->input)
			return st_error(&cli->diag, ST_EUSAGE, st_no_loc(),
					"one input only, '%s' and '%s' given",
					cli->input, argv[i]);
		cli->input = argv[i];
	}
	if (usage->needs_input && !cli->input)
		return st_error(&cli->diag, ST_EUSAGE, st_no_loc(),
				"usage: stretto %s %s", usage->command,
				usage->arguments);
	return ST_OK;
}

enum st_status
cli_read(struct cli *cli, const char *path, char **text, size_t *length)
{
	int is_stdin = strcmp(path, "-") == 0;
	FILE *file = is_stdin ? stdin : fopen(path, "rb");
	struct st_buffer buffer;
	char block[65536];
	size_t n;
	int failed;

	if (!file)
		return st_error(&cli->diag, ST_EINPUT, st_no_loc(), "%s: %s",
				path, strerror(errno));
	st_buffer_init(&buffer, &cli->arena);
	while ((n = fread(block, 1, sizeof(block), file)) > 0)
		st_buffer_add(&buffer, block, n);
	failed = ferror(file);
	if (!is_stdin)
		fclose(file);
	if (failed)
		return st_error(&cli->diag, ST_EINPUT, st_no_loc(), "%s: %s",
				path, strerror(errno));
	if (cli->arena.failed)
		return st_error_memory(&cli->diag);
	*text = buffer.text;
	*length = buffer.length;
	return ST_OK;
}

enum st_status
cli_write(struct cli *cli, const char *path, const char *text, size_t length)
{
	int is_stdout = !path || strcmp(path, "-") == 0;
	FILE *file;
	int failed;

	if (!is_stdout)
		ST_TRY(cli_check_output(cli, path));
	file = is_stdout ? stdout : fopen(path, "wb");
	if (!file)
		return st_error(&cli->diag, ST_EINPUT, st_no_loc(), "%s: %s",
				path, strerror(errno));
	failed = fwrite(text, 1, length, file) != length;
	failed |= is_stdout ? fflush(file) : fclose(file);
	if (failed)
		return st_error(&cli->diag, ST_EDEVICE, st_no_loc(),
				"%s: could not write", path ? path : "stdout");
	return ST_OK;
}

/* IR text begins with its version, behind comments; everything else is taken
 * for YAML. */
static int
is_ir(const char *text, size_t length)
{
	static const char magic[] = "stretto-ir";

	while (length && (*text == '#' || *text == '\n')) {
		const char *end = memchr(text, '\n', length);
		size_t line = end ? (size_t)(end - text) + 1 : length;

		text += line;
		length -= line;
	}
	return length >= sizeof(magic) - 1 &&
	       memcmp(text, magic, sizeof(magic) - 1) == 0;
}

enum st_status
cli_check_apart(struct cli *cli, const char *output, const char *input)
{
	struct stat a, b;

	/* By inode, because a file has many names.  Devices may be both. */
	if (stat(output, &a) || stat(input, &b) || !S_ISREG(a.st_mode) ||
	    a.st_dev != b.st_dev || a.st_ino != b.st_ino)
		return ST_OK;
	return st_error(&cli->diag, ST_EUSAGE, st_no_loc(),
			"%s would overwrite %s, which is read", output, input);
}

static enum st_status
check_folder(struct cli *cli, const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *folder = ".";
	struct stat info;

	if (slash == path)
		folder = "/";
	else if (slash)
		folder = st_arena_strndup(&cli->arena, path,
					  (size_t)(slash - path));
	if (!folder)
		return st_error_memory(&cli->diag);
	if (stat(folder, &info) || !S_ISDIR(info.st_mode))
		return st_error(&cli->diag, ST_EINPUT, st_no_loc(),
				"%s: there is no folder %s", path, folder);
	if (access(folder, W_OK))
		return st_error(&cli->diag, ST_EINPUT, st_no_loc(),
				"%s: nothing can be written in %s", path,
				folder);
	return ST_OK;
}

enum st_status
cli_check_output(struct cli *cli, const char *path)
{
	struct stat info;
	int exists = stat(path, &info) == 0;

	if (strcmp(path, "-") == 0)
		return ST_OK;
	if (!path[0])
		return st_error(&cli->diag, ST_EINPUT, st_no_loc(),
				"the name of the output is empty");
	if (exists && S_ISDIR(info.st_mode))
		return st_error(&cli->diag, ST_EINPUT, st_no_loc(),
				"%s is a folder", path);
	if (!exists || S_ISREG(info.st_mode))
		ST_TRY(check_folder(cli, path));
	if (cli->input)
		ST_TRY(cli_check_apart(cli, path, cli->input));
	/* All that was read so far: families and machines as well. */
	for (size_t i = 1; i < cli->diag.source_count; i++)
		ST_TRY(cli_check_apart(cli, path, cli->diag.sources[i].name));
	return ST_OK;
}

const char *const *
cli_search(void)
{
	return search;
}

enum st_status
cli_machine(struct cli *cli, const char *name, const struct st_model *model,
	    const struct st_module *module, struct st_machine *machine,
	    int *named)
{
	if (!name && model)
		name = st_model_machine(model);
	*named = name && name[0];
	if (!*named)
		name = module->options[ST_OPTION_machine].s;
	if (name && name[0])
		return st_machine_load(&cli->arena, &cli->diag, name, search,
				       machine);
	*machine = st_machine_laptop;
	return ST_OK;
}

/* Before the work that would be done otherwise than it was asked for. */
static enum st_status
check_strict(struct cli *cli)
{
	size_t n = 0;

	for (size_t i = 0; i < cli->diag.count; i++)
		n += cli->diag.messages[i].severity == ST_WARNING;
	if (n == 0 || !cli->strict)
		return ST_OK;
	return st_error(&cli->diag, ST_ECHECK, st_no_loc(),
			"--strict: %zu warning%s", n, n == 1 ? "" : "s");
}

enum st_status
cli_load_text(struct cli *cli, const char *path, const char *text,
	      size_t length, struct st_module **module, struct st_model **model)
{
	struct st_model_source source = {.path = path,
					 .text = text,
					 .length = length,
					 .sets = cli->sets,
					 .set_count = cli->set_count,
					 .search = search};
	size_t name = strlen(path);

	*model = NULL;
	if (is_ir(text, length) ||
	    (name > 3 && strcmp(path + name - 3, ".ir") == 0)) {
		uint32_t index =
			st_diag_add_source(&cli->diag, path, text, length);

		if (cli->set_count)
			return st_error(&cli->diag, ST_EUSAGE, st_no_loc(),
					"--set changes models; %s is IR text",
					path);
		ST_TRY(st_parse(&cli->arena, &cli->diag, &cli->names, index,
				module));
		return st_verify(*module);
	}
	ST_TRY(st_model_load(&cli->arena, &cli->diag, &cli->names, &source,
			     model));
	ST_TRY(check_strict(cli));
	return st_model_lower(*model, module);
}

enum st_status
cli_load(struct cli *cli, struct st_module **module, struct st_model **model)
{
	size_t length;
	char *text;

	ST_TRY(cli_read(cli, cli->input, &text, &length));
	return cli_load_text(cli, cli->input, text, length, module, model);
}

static enum st_status
after_pass(void *user, int index, const char *name,
	   const struct st_module *module)
{
	struct cli_passes *p = user;
	struct st_buffer out;
	const char *path;

	if (!p->dump_dir &&
	    (!p->dump_after || strcmp(p->dump_after, name) != 0))
		return ST_OK;
	st_buffer_init(&out, &p->cli->arena);
	st_print(module, &out);
	if (p->dump_after && strcmp(p->dump_after, name) == 0)
		fwrite(out.text, 1, out.length, stderr);
	if (!p->dump_dir)
		return ST_OK;
	path = st_arena_printf(&p->cli->arena, "%s/%02d-%s.ir", p->dump_dir,
			       index, name);
	return path ? cli_write(p->cli, path, out.text, out.length)
		    : st_error_memory(&p->cli->diag);
}

/* A pass that was asked for by name and found nothing to do says why. */
static enum st_status
report_skipped(struct cli *cli, const struct st_pipeline *pipeline)
{
	enum st_status status = ST_OK;

	for (int i = 0; i < pipeline->report_count; i++) {
		const struct st_pass_report *r = &pipeline->reports[i];

		if (!r->skipped)
			continue;
		if (cli->strict)
			status = st_error(&cli->diag, ST_ECHECK, st_no_loc(),
					  "%s: applied nothing: %s", r->name,
					  r->skipped);
		else
			st_warn(&cli->diag, st_no_loc(),
				"%s: applied nothing: %s", r->name, r->skipped);
	}
	return status;
}

/* A word that is near to no pass is answered with all of them. */
static enum st_status
check_names(struct cli *cli, const char *option, const char *names)
{
	const char *list[32] = {NULL}, *near;
	struct st_buffer all;
	size_t n = 0, length;

	st_buffer_init(&all, &cli->arena);
	for (const struct st_pass *p = st_passes; p->name && n < 31; p++) {
		list[n++] = p->name;
		st_buffer_printf(&all, "%s%s", n > 1 ? ", " : "", p->name);
	}
	for (; names && *names; names += length + (names[length] == ',')) {
		char *name;

		length = strcspn(names, ",");
		if (st_pass_find(names, length))
			continue;
		name = st_arena_strndup(&cli->arena, names, length);
		if (!name || cli->arena.failed)
			return st_error_memory(&cli->diag);
		near = st_nearest(name, list);
		if (near)
			return st_error(&cli->diag, ST_EUSAGE, st_no_loc(),
					"no pass is named '%s'; did you mean "
					"'%s'?",
					name, near);
		return st_error(&cli->diag, ST_EUSAGE, st_no_loc(),
				"no pass is named '%s'; %s takes %s", name,
				option, all.text);
	}
	return ST_OK;
}

static enum st_status
use_profile(struct cli *cli, struct cli_passes *p, struct cli_profile *profile)
{
	ST_TRY(cli_profile_read(cli, p->profile, profile));
	p->costs.node_ps = profile->ps;
	p->costs.node_ps_count = profile->count;
	return ST_OK;
}

enum st_status
cli_run_passes(struct cli *cli, struct cli_passes *p,
	       const struct st_model *model, const struct st_module *in,
	       struct st_module **out)
{
	struct cli_profile profile;
	int named;

	ST_TRY(check_names(cli, "--passes", p->passes));
	ST_TRY(check_names(cli, "--stop-after", p->stop_after));
	ST_TRY(check_names(cli, "--dump-after", p->dump_after));
	ST_TRY(cli_machine(cli, p->machine, model, in, &p->costs, &named));
	p->pipeline.machine = &p->costs;
	if (p->memory_limit_gb > 0)
		p->pipeline.memory_limit = (int64_t)(p->memory_limit_gb * 1e9);
	else if (named)
		p->pipeline.memory_limit = p->costs.memory_bytes;
	p->cli = cli;
	p->pipeline.passes = p->passes;
	p->pipeline.stop_after = p->stop_after;
	p->pipeline.after = after_pass;
	p->pipeline.user = p;
	p->pipeline.clock = cli_clock;
	if (p->dump_dir && mkdir(p->dump_dir, 0777) && errno != EEXIST)
		return st_error(&cli->diag, ST_EINPUT, st_no_loc(),
				"--dump-dir %s: %s", p->dump_dir,
				strerror(errno));
	if (p->profile)
		ST_TRY(use_profile(cli, p, &profile));
	ST_TRY(st_pipeline_run(&p->pipeline, in, out));
	if (p->profile)
		ST_TRY(cli_profile_check(cli, &profile, *out));
	ST_TRY(check_strict(cli));
	return p->passes ? report_skipped(cli, &p->pipeline) : ST_OK;
}
