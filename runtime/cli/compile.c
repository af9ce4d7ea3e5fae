/* stretto compile: model or IR to plan. */

#include "passes/explain.h"
#include "runtime/cli/cli.h"
#include "runtime/json.h"

static enum st_status
print_json(struct cli *cli, const struct st_module *m,
	   const struct cli_passes *passes, int64_t parameters)
{
	const struct st_pipeline *p = &passes->pipeline;
	uint32_t step = st_module_find_entry(m, "step");
	struct st_explanation x;
	const char *why;
	struct st_buffer out;
	struct st_json_writer w;

	st_buffer_init(&out, &cli->arena);
	st_json_writer_init(&w, st_json_put_buffer, &out);
	st_json_begin_object(&w);
	st_json_key(&w, "parameters");
	st_json_integer(&w, parameters);
	st_json_key(&w, "ranks");
	st_json_integer(&w, st_mesh_ranks(&m->mesh));
	st_json_key(&w, "nodes");
	st_json_integer(&w, (int64_t)m->nodes.count);
	st_json_key(&w, "passes");
	st_json_begin_array(&w);
	for (int i = 0; i < p->report_count; i++) {
		const struct st_pass_report *r = &p->reports[i];

		st_json_begin_object(&w);
		st_json_key(&w, "name");
		st_json_string(&w, r->name);
		st_json_key(&w, "ms");
		st_json_number(&w, r->ms);
		st_json_key(&w, "applied");
		st_json_integer(&w, r->changes);
		st_json_key(&w, "skipped");
		if (r->skipped)
			st_json_string(&w, r->skipped);
		else
			st_json_null(&w);
		st_json_end_object(&w);
	}
	st_json_end_array(&w);
	st_json_key(&w, "peak_bytes");
	st_json_integer(&w, m->arena_bytes);
	st_json_key(&w, "predicted_step_us");
	if (step != ST_NONE && m->form == ST_RANKED &&
	    st_explain(m, &m->entries.at[step], &passes->costs, &x, &why) ==
		    ST_OK)
		st_json_number(&w, (double)x.step / 1e6);
	else
		st_json_null(&w);
	st_json_end_object(&w);
	st_json_newline(&w);
	st_json_writer_finish(&w);
	return cli_write(cli, NULL, out.text, out.length);
}

static void
print_summary(const struct st_module *m, const struct st_pipeline *p,
	      int64_t parameters)
{
	fprintf(stderr,
		"%lld parameters, %lld ranks, %zu nodes, arena %.1f MiB a "
		"rank\n",
		(long long)parameters, (long long)st_mesh_ranks(&m->mesh),
		m->nodes.count, (double)m->arena_bytes / 1048576.0);
	for (int i = 0; i < p->report_count; i++) {
		const struct st_pass_report *r = &p->reports[i];

		fprintf(stderr, "  %-10s %8.1f ms  %zu nodes%s%s\n", r->name,
			r->ms, r->nodes, r->skipped ? "; did nothing: " : "",
			r->skipped ? r->skipped : "");
	}
}

static enum st_status
run(struct cli *cli, int argc, char **argv)
{
	struct cli_passes passes = {.passes = NULL};
	const char *output = NULL;
	const struct cli_option options[] = {
		{"--output", 'o', CLI_TEXT, &output, "FILE",
		 "write the plan to FILE (stdout)"},
		CLI_PASS_OPTIONS(&passes),
		{.name = NULL},
	};
	const struct cli_usage usage = {
		"compile", "MODEL [options]",
		"stretto compile models/nets/gpt2-124m.yaml -o plan.ir\n"
		"stretto compile models/nets/llama3-8b.yaml --set "
		"parallelism.tp=8 --json -o plan.ir\n",
		1};
	struct st_module *module;
	struct st_model *model;
	struct st_buffer out;
	int64_t parameters;
	int done;

	ST_TRY(cli_parse(cli, &usage, options, argc, argv, &done));
	if (done)
		return ST_OK;
	ST_TRY(cli_load(cli, &module, &model));
	if (output)
		ST_TRY(cli_check_output(cli, output));
	parameters = st_module_parameters(module);
	ST_TRY(cli_run_passes(cli, &passes, model, module, &module));
	if (cli->json)
		ST_TRY(print_json(cli, module, &passes, parameters));
	else
		print_summary(module, &passes.pipeline, parameters);
	if (cli->json && !output)
		return ST_OK; /* stdout holds the JSON */
	st_buffer_init(&out, &cli->arena);
	st_print(module, &out);
	return cli_write(cli, output, out.text, out.length);
}

int
cli_compile(int argc, char **argv)
{
	struct cli cli;
	enum st_status status = cli_begin(&cli);

	if (status == ST_OK)
		status = run(&cli, argc, argv);
	return cli_end(&cli, status);
}
