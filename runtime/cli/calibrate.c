/* stretto calibrate: this machine as a machine file. */

#include "runtime/calibrate.h"

#include "models/machine.h"
#include "runtime/cli/cli.h"

#include <unistd.h>

static void
show(void *user, const char *what)
{
	(void)user;
	if (isatty(2))
		fprintf(stderr, "\r%-40s", what);
}

static enum st_status
run(struct cli *cli, int argc, char **argv)
{
	struct st_calibration options = {
		.ranks = 2, .search = cli_search(), .progress = show};
	int64_t repeats = 9;
	const char *output = NULL, *name = "calibrated";
	const struct cli_option table[] = {
		{"--output", 'o', CLI_TEXT, &output, "FILE",
		 "write the machine file to FILE (stdout)"},
		{"--name", 0, CLI_TEXT, &name, "NAME",
		 "what the machine is called (calibrated)"},
		{"--ranks", 0, CLI_INT, &options.ranks, "N",
		 "that compute at once (2)"},
		{"--repeats", 0, CLI_INT, &repeats, "N",
		 "of each measurement; the median counts (9)"},
		{"--link-gb-per-s", 0, CLI_FLOAT, &options.link.gb_per_s, "X",
		 "emulate a link of this rate between ranks"},
		{"--link-latency-us", 0, CLI_FLOAT, &options.link.latency_us,
		 "X", "and this latency of a collective (0)"},
		{.name = NULL},
	};
	const struct cli_usage usage = {
		"calibrate", "[options]",
		"stretto calibrate -o here.yaml\n"
		"stretto calibrate --link-gb-per-s 0.1 -o slow-link.yaml\n",
		0};
	struct st_calibration_fit fit;
	struct st_machine machine;
	struct st_buffer out;
	int done;

	ST_TRY(cli_parse(cli, &usage, table, argc, argv, &done));
	if (done)
		return ST_OK;
	if (options.ranks < 1 || options.ranks > 64 || repeats < 1 ||
	    repeats > 31)
		return st_error(&cli->diag, ST_EUSAGE, st_no_loc(),
				"1 to 64 ranks and 1 to 31 repeats");
	options.repeats = (int)repeats;
	if (output)
		ST_TRY(cli_check_output(cli, output));
	ST_TRY(st_calibrate(&cli->arena, &cli->diag, &options, &machine,
			    &fit));
	machine.name = name;
	if (isatty(2))
		fprintf(stderr, "\r%-40s\r", "");
	fprintf(stderr,
		"%d operators: error of the fit %.1f%% in the median, %.1f%% "
		"at the 90th percentile\n",
		fit.samples, (double)fit.median / 10, (double)fit.p90 / 10);
	st_buffer_init(&out, &cli->arena);
	st_machine_print(&machine, &out);
	return cli_write(cli, output, out.text, out.length);
}

int
cli_calibrate(int argc, char **argv)
{
	struct cli cli;
	enum st_status status = cli_begin(&cli);

	if (status == ST_OK)
		status = run(&cli, argc, argv);
	return cli_end(&cli, status);
}
