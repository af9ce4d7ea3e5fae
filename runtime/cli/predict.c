/* Predictions and traces, for several subcommands. */

#include "runtime/cli/predict.h"

#include <string.h>

enum st_status
cli_predict(struct cli *cli, struct cli_prediction *p, const char *path,
	    const char *text, size_t length)
{
	struct cli_passes passes = {.machine = p->machine_name,
				    .profile = p->profile};
	const char *why = "", *name = p->entry_name ? p->entry_name : "step";
	struct st_module *module;
	struct st_model *model;
	enum st_status status;
	uint32_t entry;

	ST_TRY(cli_load_text(cli, path, text, length, &module, &model));
	ST_TRY(cli_run_passes(cli, &passes, model, module, &module));
	p->machine = passes.costs;
	p->module = module;
	entry = st_module_find_entry(module, name);
	if (entry == ST_NONE)
		return st_error(&cli->diag, ST_EINPUT, st_no_loc(),
				"%s: no entry is named '%s'", path, name);
	p->entry = &module->entries.at[entry];
	status = st_explain(module, p->entry, &p->machine, &p->x, &why);
	if (status == ST_EINFEASIBLE)
		return st_error(&cli->diag, ST_EINFEASIBLE, st_no_loc(),
				"%s: entry '%s' cannot be followed: %s", path,
				name, why);
	return status;
}

static int
is_json(const char *text, size_t length)
{
	size_t i = 0;

	while (i < length && strchr(" \t\r\n", text[i]))
		i++;
	return i < length && text[i] == '{';
}

enum st_status
cli_trace_of(struct cli *cli, struct cli_prediction *p, const char *path,
	     struct st_trace *trace)
{
	size_t length;
	char *text;

	ST_TRY(cli_read(cli, path, &text, &length));
	if (is_json(text, length))
		return st_trace_read(
			&cli->arena, &cli->diag,
			st_diag_add_source(&cli->diag, path, text, length),
			text, length, trace);
	ST_TRY(cli_predict(cli, p, path, text, length));
	ST_TRY(st_trace_predict(p->module, p->entry, &p->x, trace));
	trace->machine = p->machine.name;
	return ST_OK;
}

enum st_status
cli_trace_save(struct cli *cli, const struct st_trace *trace, const char *path)
{
	const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
	size_t stem = dot && (!slash || dot > slash) ? (size_t)(dot - path)
						     : strlen(path);
	char *text;
	size_t length;

	if (trace->rank > 0)
		path = st_arena_printf(&cli->arena, "%.*s.%lld%s", (int)stem,
				       path, (long long)trace->rank,
				       path + stem);
	if (!path)
		return st_error_memory(&cli->diag);
	if (st_trace_write(&cli->arena, trace, &text, &length) != ST_OK)
		return st_error_memory(&cli->diag);
	return cli_write(cli, path, text, length);
}
