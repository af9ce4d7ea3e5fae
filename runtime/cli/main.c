/* stretto: picks the subcommand. */

#include "runtime/cli/cli.h"

#include <string.h>

#include "config.h"

static const struct {
	const char *name, *help;
	int (*run)(int argc, char **argv);
} commands[] = {
#define X(name, help) {#name, help, cli_##name},
	CLI_COMMANDS(X)
#undef X
};

enum { COUNT = sizeof(commands) / sizeof(commands[0]) };

static void
print_help(FILE *out)
{
	fputs("stretto train models/nets/tiny-gpt.yaml --data TEXT\n"
	      "stretto compile models/nets/llama3-8b.yaml -o plan.ir\n\n"
	      "usage: stretto COMMAND [options]\n\n",
	      out);
	for (size_t i = 0; i < COUNT; i++)
		fprintf(out, "  %-10s%s\n", commands[i].name,
			commands[i].help);
	fputs("\nstretto COMMAND --help tells more.  Exit codes: 0 ok, 1 check "
	      "failed, 2 usage,\n3 bad input, 4 infeasible, 5 device, 6 "
	      "communication, 7 timeout.\n",
	      out);
}

static int
unknown(const char *word)
{
	const char *list[COUNT + 1] = {NULL}, *near;

	for (size_t i = 0; i < COUNT; i++)
		list[i] = commands[i].name;
	near = st_nearest(word, list);
	fprintf(stderr, "stretto: error: no command is named '%s'", word);
	if (near)
		fprintf(stderr, "; did you mean '%s'?", near);
	fputs("\n", stderr);
	return ST_EUSAGE;
}

static int
finish(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return ST_OK;
	fputs("stretto: error: stdout: could not write\n", stderr);
	return ST_EDEVICE;
}

int
main(int argc, char **argv)
{
	if (argc < 2) {
		print_help(stderr);
		return ST_EUSAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		print_help(stdout);
		return finish();
	}
	if (strcmp(argv[1], "--version") == 0) {
		puts("stretto " ST_VERSION);
		return finish();
	}
	for (size_t i = 0; i < COUNT; i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 1, argv + 1);
	return unknown(argv[1]);
}
