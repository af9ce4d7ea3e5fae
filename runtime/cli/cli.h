#ifndef ST_CLI_H
#define ST_CLI_H

/*
 * What the subcommands of the program share: options, input, messages.
 *
 * Data goes to stdout, everything else to stderr.  A subcommand returns an
 * enum st_status, which is the exit code.
 */

#include <stdio.h>

#include "models/model.h"
#include "passes/pass.h"

/* X(name, one line of help): one file a subcommand. */
#define CLI_COMMANDS(X)                                                   \
	X(check, "verify a model or IR file; print its normalised form")  \
	X(compile, "model to plan")                                       \
	X(opt, "run passes on IR text")                                   \
	X(explain, "a verdict for each collective of a plan")             \
	X(sim, "the step that the cost model predicts")                   \
	X(timeline, "lanes of a plan or trace in the terminal")           \
	X(calibrate, "this machine as a machine file")                    \
	X(train, "run steps of a model or plan on this machine")          \
	X(doctor, "what is here, and what will bite")

enum cli_kind { CLI_FLAG, CLI_INT, CLI_FLOAT, CLI_TEXT, CLI_SETS };

struct cli_option {
	const char *name;  /* "--steps"; NULL ends the table */
	char letter;       /* 'o' for -o, or 0 */
	enum cli_kind kind;
	void *target;      /* int, int64_t, double, const char *, struct cli */
	const char *value; /* what the help calls the value */
	const char *help;
};

enum { CLI_MOST_SETS = 64 };

struct cli {
	struct st_arena arena;
	struct st_diag diag;
	struct st_names names;
	const char *sets[CLI_MOST_SETS];
	size_t set_count;
	const char *input; /* the one file argument */
	int json, strict;
	size_t shown; /* messages that were printed already */
};

enum st_status cli_begin(struct cli *cli);

/* Prints what is left to say, and returns the exit code: the status, or
 * ST_EDEVICE where stdout did not take everything. */
int cli_end(struct cli *cli, enum st_status status);

/*
 * Reads argv[1..] by the tables, which may be NULL; one argument that is no
 * option is the input.  `usage` is "MODEL [options]", examples are two lines
 * to paste.  Returns ST_EUSAGE after a message; *done is set after --help.
 */
struct cli_usage {
	const char *command, *arguments, *examples;
	int needs_input;
};
enum st_status cli_parse(struct cli *cli, const struct cli_usage *usage,
			 const struct cli_option *options, int argc,
			 char **argv, int *done);

/* Prints new messages to stderr. */
void cli_messages(struct cli *cli);

/* A model (YAML) or IR text, by its first line; "-" is stdin.  *model is NULL
 * for IR text. */
enum st_status cli_load(struct cli *cli, struct st_module **module,
			struct st_model **model);
/* The same from text that was read already. */
enum st_status cli_load_text(struct cli *cli, const char *path,
			     const char *text, size_t length,
			     struct st_module **module,
			     struct st_model **model);

/* Where families and machines are looked up. */
const char *const *cli_search(void);

/* Whole file in the arena; "-" is stdin. */
enum st_status cli_read(struct cli *cli, const char *path, char **text,
			size_t *length);

/* May this become a file?  Fails before the work, not after it.  Neither may
 * an output be the input. */
enum st_status cli_check_output(struct cli *cli, const char *path);
enum st_status cli_check_apart(struct cli *cli, const char *output,
			       const char *input);

/* To a file, or to stdout for NULL and "-". */
enum st_status cli_write(struct cli *cli, const char *path, const char *text,
			 size_t length);

/* Options of the pass driver, for compile, opt and train. */
struct cli_passes {
	const char *passes, *stop_after, *dump_after, *dump_dir;
	const char *machine;    /* name or path; NULL: that of the model */
	const char *profile;    /* a trace, or NULL */
	double memory_limit_gb; /* 0: that of a machine that was named */
	struct st_machine costs;
	struct st_pipeline pipeline;
	struct cli *cli;
};
#define CLI_PASS_OPTIONS(p)                                               \
	{"--passes", 0, CLI_TEXT, &(p)->passes, "A,B",                    \
	 "run these passes instead of the default ones"},                 \
	{"--stop-after", 0, CLI_TEXT, &(p)->stop_after, "PASS",           \
	 "stop behind this pass"},                                        \
	{"--dump-after", 0, CLI_TEXT, &(p)->dump_after, "PASS",           \
	 "print the module behind this pass to stderr"},                  \
	{"--dump-dir", 0, CLI_TEXT, &(p)->dump_dir, "DIR",                \
	 "write the module behind each pass into this folder"},           \
	{"--machine", 0, CLI_TEXT, &(p)->machine, "NAME",                 \
	 "schedule for this machine (that of the model, else laptop)"},   \
	{"--profile", 0, CLI_TEXT, &(p)->profile, "TRACE",                \
	 "times of single nodes, before those of the machine"},           \
	{"--memory-limit", 0, CLI_FLOAT, &(p)->memory_limit_gb, "GB",     \
	 "of a rank, in 1e9 bytes (what a machine that was named has)"}
/* model may be NULL. */
enum st_status cli_run_passes(struct cli *cli, struct cli_passes *passes,
			      const struct st_model *model,
			      const struct st_module *in,
			      struct st_module **out);

/* The machine of that name, else that of the model, else that which the
 * module was scheduled for, else a laptop; *named: it was asked for. */
enum st_status cli_machine(struct cli *cli, const char *name,
			   const struct st_model *model,
			   const struct st_module *module,
			   struct st_machine *machine, int *named);

int64_t cli_clock(void);

#define X(name, help) int cli_##name(int argc, char **argv);
CLI_COMMANDS(X)
#undef X

#endif
