/* stretto timeline: lanes of a plan or trace in the terminal. */

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "runtime/cli/predict.h"

enum { NAME_COLUMNS = 17, SUM_COLUMNS = 34, LEAST = 20, MOST = 2000 };

struct timeline {
	struct cli *cli;
	struct cli_prediction prediction;
	struct st_timeline look;
	int64_t width;
	double from_us, to_us;
};

/* What is left of the terminal beside names and sums. */
static int
fitting_width(void)
{
	struct winsize size = {.ws_col = 0};
	int columns = 0;

	if (isatty(STDOUT_FILENO) && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size))
		columns = size.ws_col;
	if (columns == 0)
		columns = 120;
	columns -= NAME_COLUMNS + SUM_COLUMNS;
	return columns > LEAST ? columns : LEAST;
}

/* By the first of the variables that say so, as setlocale would choose. */
static int
speaks_utf8(void)
{
	static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = getenv(names[i]);

		if (value && value[0])
			return strstr(value, "UTF-8") || strstr(value, "utf8");
	}
	return 0;
}

static enum st_status
run(struct timeline *t, int argc, char **argv)
{
	const struct cli_option options[] = {
		{"--machine", 0, CLI_TEXT, &t->prediction.machine_name, "NAME",
		 "cost a plan on this machine (that of the model, else "
		 "laptop)"},
		{"--entry", 0, CLI_TEXT, &t->prediction.entry_name, "NAME",
		 "look at this entry of a plan (step)"},
		{"--profile", 0, CLI_TEXT, &t->prediction.profile, "TRACE",
		 "times of single nodes, before those of the machine"},
		{"--from-us", 0, CLI_FLOAT, &t->from_us, "X",
		 "begin the picture here (0)"},
		{"--to-us", 0, CLI_FLOAT, &t->to_us, "X",
		 "end it here (the end of the step)"},
		{"--width", 0, CLI_INT, &t->width, "N",
		 "columns of a lane (what the terminal has)"},
		{"--ascii", 0, CLI_FLAG, &t->look.ascii, NULL,
		 "no block characters (by LC_ALL, LC_CTYPE, LANG)"},
		{.name = NULL},
	};
	const struct cli_usage usage = {
		"timeline", "PLAN|MODEL|TRACE [options]",
		"stretto timeline plan.ir --machine h200-sxm-8\n"
		"stretto timeline trace.json --from-us 100 --to-us 400\n",
		1};
	struct st_trace trace;
	struct st_buffer out;
	int done;

	ST_TRY(cli_parse(t->cli, &usage, options, argc, argv, &done));
	if (done)
		return ST_OK;
	if (t->from_us < 0 || t->to_us < 0 || t->from_us > 9e12 ||
	    t->to_us > 9e12 || (t->to_us > 0 && t->to_us <= t->from_us) ||
	    (t->width && (t->width < LEAST || t->width > MOST)))
		return st_error(&t->cli->diag, ST_EUSAGE, st_no_loc(),
				"--from-us lies before --to-us, --width from "
				"%d to %d",
				LEAST, MOST);
	t->look.width = t->width ? (int)t->width : fitting_width();
	t->look.ascii |= !speaks_utf8();
	t->look.from = (int64_t)(t->from_us * ST_PS_PER_US);
	t->look.to = (int64_t)(t->to_us * ST_PS_PER_US);
	ST_TRY(cli_trace_of(t->cli, &t->prediction, t->cli->input, &trace));
	st_buffer_init(&out, &t->cli->arena);
	if (st_timeline_draw(&t->cli->arena, &trace, &t->look, &out) != ST_OK)
		return st_error_memory(&t->cli->diag);
	return cli_write(t->cli, NULL, out.text, out.length);
}

int
cli_timeline(int argc, char **argv)
{
	struct timeline t;
	struct cli cli;
	enum st_status status = cli_begin(&cli);

	memset(&t, 0, sizeof(t));
	t.cli = &cli;
	if (status == ST_OK)
		status = run(&t, argc, argv);
	return cli_end(&cli, status);
}
