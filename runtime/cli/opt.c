/* stretto opt: passes over IR text, stdin to stdout. */

#include "runtime/cli/cli.h"

static enum st_status
run(struct cli *cli, int argc, char **argv)
{
	struct cli_passes passes = {.passes = ""};
	const char *output = NULL;
	const struct cli_option options[] = {
		{"--output", 'o', CLI_TEXT, &output, "FILE",
		 "write to FILE instead of stdout"},
		CLI_PASS_OPTIONS(&passes),
		{.name = NULL},
	};
	const struct cli_usage usage = {
		"opt", "IR [options]",
		"stretto opt --passes=grad,partition x.ir\n"
		"stretto compile MODEL --stop-after grad | stretto opt - "
		"--passes=partition\n",
		0};
	struct st_module *module;
	struct st_model *model;
	struct st_buffer out;
	int done;

	ST_TRY(cli_parse(cli, &usage, options, argc, argv, &done));
	if (done)
		return ST_OK;
	if (!cli->input)
		cli->input = "-";
	ST_TRY(cli_load(cli, &module, &model));
	if (output)
		ST_TRY(cli_check_output(cli, output));
	ST_TRY(cli_run_passes(cli, &passes, model, module, &module));
	st_buffer_init(&out, &cli->arena);
	st_print(module, &out);
	return cli_write(cli, output, out.text, out.length);
}

int
cli_opt(int argc, char **argv)
{
	struct cli cli;
	enum st_status status = cli_begin(&cli);

	if (status == ST_OK)
		status = run(&cli, argc, argv);
	return cli_end(&cli, status);
}
