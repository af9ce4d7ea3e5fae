/* stretto check: verifies; prints the normalised model and the groups. */

#include "runtime/cli/cli.h"
#include "runtime/json.h"

#include <string.h>

static enum st_status
print_findings(struct cli *cli, int ok)
{
	static const char *const codes[] = {"error", "warning", "note"};
	struct st_buffer out;
	struct st_json_writer w;

	st_buffer_init(&out, &cli->arena);
	st_json_writer_init(&w, st_json_put_buffer, &out);
	st_json_begin_object(&w);
	st_json_key(&w, "ok");
	st_json_boolean(&w, ok);
	st_json_key(&w, "findings");
	st_json_begin_array(&w);
	for (size_t i = 0; i < cli->diag.count; i++) {
		const struct st_message *m = &cli->diag.messages[i];
		const char *file = "";

		if (m->loc.source && m->loc.source < cli->diag.source_count)
			file = cli->diag.sources[m->loc.source].name;
		st_json_begin_object(&w);
		st_json_key(&w, "file");
		st_json_string(&w, file);
		st_json_key(&w, "line");
		st_json_integer(&w, m->loc.line);
		st_json_key(&w, "col");
		st_json_integer(&w, m->loc.column);
		st_json_key(&w, "code");
		st_json_string(&w, codes[m->severity]);
		st_json_key(&w, "message");
		st_json_string(&w, m->text);
		st_json_end_object(&w);
	}
	st_json_end_array(&w);
	st_json_end_object(&w);
	st_json_newline(&w);
	st_json_writer_finish(&w);
	return cli_write(cli, NULL, out.text, out.length);
}

/* The ranks of each group along one axis: runs with a stride. */
static void
print_groups(const struct st_module *m)
{
	int64_t ranks = st_mesh_ranks(&m->mesh), stride = ranks;

	for (uint32_t a = 0; a < m->mesh.count; a++) {
		int64_t size = m->mesh.size[a];

		stride /= size;
		printf("%s:", st_names_text(m->names, m->mesh.name[a]));
		for (int64_t lead = 0; lead < ranks; lead++) {
			if (lead / stride % size)
				continue;
			for (int64_t i = 0; i < size; i++)
				printf("%s%lld", i ? " " : " [",
				       (long long)(lead + i * stride));
			printf("]");
		}
		printf("\n");
	}
}

static enum st_status
check(struct cli *cli, int print, int groups)
{
	struct cli_passes passes = {.passes = NULL};
	struct st_module *module, *plan;
	struct st_model *model;
	struct st_buffer out;

	ST_TRY(cli_load(cli, &module, &model));
	ST_TRY(cli_run_passes(cli, &passes, model, module, &plan));
	if (cli->json)
		return ST_OK;
	if (groups)
		print_groups(module);
	st_buffer_init(&out, &cli->arena);
	if (print && model)
		st_model_print(model, &out);
	else if (print)
		st_print(module, &out);
	else if (!groups)
		st_buffer_printf(
			&out,
			"%s: ok: %lld parameters, %lld ranks, %zu nodes, "
			"arena %.1f MiB a rank\n",
			cli->input, (long long)st_module_parameters(module),
			(long long)st_mesh_ranks(&plan->mesh),
			plan->nodes.count,
			(double)plan->arena_bytes / 1048576.0);
	return cli_write(cli, NULL, out.text, out.length);
}

static enum st_status
run(struct cli *cli, int argc, char **argv)
{
	int print = 0, groups = 0, done;
	const struct cli_option options[] = {
		{"--print", 'p', CLI_FLAG, &print, NULL,
		 "print the normalised file, every value with its origin"},
		{"--groups", 0, CLI_FLAG, &groups, NULL,
		 "print the ranks of each group of the mesh"},
		{.name = NULL},
	};
	const struct cli_usage usage = {
		"check", "MODEL|IR [options]",
		"stretto check models/nets/llama3-8b.yaml\n"
		"stretto check -p models/nets/tiny-gpt.yaml --set "
		"parallelism.tp=4\n",
		1};
	enum st_status status;

	ST_TRY(cli_parse(cli, &usage, options, argc, argv, &done));
	if (done)
		return ST_OK;
	status = check(cli, print, groups);
	if (cli->json) {
		enum st_status written = print_findings(cli, status == ST_OK);

		return status == ST_OK ? written : status;
	}
	return status;
}

int
cli_check(int argc, char **argv)
{
	struct cli cli;
	enum st_status status = cli_begin(&cli);

	if (status == ST_OK)
		status = run(&cli, argc, argv);
	return cli_end(&cli, status);
}
