/* stretto explain: a verdict for each collective of a plan; stretto sim: the
 * step that the cost model predicts. */

#include "runtime/cli/predict.h"
#include "runtime/json.h"

#include <string.h>

struct explain {
	struct cli *cli;
	const char *trace;  /* file to write, or NULL */
	const char *whatif; /* changes of the machine, or NULL */
	int64_t before;     /* step without them */
	struct cli_prediction p;
};

static double
us(int64_t ps)
{
	return (double)ps / 1e6;
}

static const char *
axes_of(struct explain *e, const struct st_node *node)
{
	unsigned axes = (unsigned)st_node_int(e->p.module, node, ST_KEY_axes);
	struct st_buffer out;
	const char *plus = "";

	st_buffer_init(&out, &e->cli->arena);
	for (uint32_t i = 0; i < e->p.module->mesh.count; i++) {
		if (!(axes >> i & 1))
			continue;
		st_buffer_printf(&out, "%s%s", plus,
				 st_names_text(e->p.module->names,
					       e->p.module->mesh.name[i]));
		plus = "+";
	}
	return out.text ? out.text : "";
}

/* Numbers and '.0' suffixes aside, layers are alike: "h.*" stands for all. */
static void
class_of(const char *name, char *out, size_t size)
{
	size_t n = 0;

	for (; *name && n + 1 < size; name++) {
		int digit = *name >= '0' && *name <= '9';

		if (digit && n && out[n - 1] == '*')
			continue;
		out[n++] = digit ? '*' : *name;
	}
	out[n] = '\0';
}

/* One row: what all collectives of a class have in common. */
struct row {
	char name[96];
	const struct st_verdict *worst;
	int64_t count, bytes, total, exposed;
};

static size_t
group_rows(struct explain *e, struct row *rows)
{
	size_t n = 0;

	for (uint32_t i = 0; i < e->p.x.count; i++) {
		const struct st_verdict *v = &e->p.x.verdicts[i];
		const struct st_node *node = &e->p.module->nodes.at[v->start];
		char name[96];
		size_t r = 0;

		class_of(st_value_name(e->p.module, node->first_result), name,
			 sizeof(name));
		while (r < n &&
		       (strcmp(rows[r].name, name) != 0 ||
			e->p.module->nodes.at[rows[r].worst->start].op !=
				node->op))
			r++;
		if (r == n) {
			memset(&rows[n], 0, sizeof(rows[n]));
			strcpy(rows[n].name, name);
			rows[n++].worst = v;
		}
		if (v->exposed > rows[r].worst->exposed)
			rows[r].worst = v;
		rows[r].count++;
		rows[r].bytes += v->bytes;
		rows[r].total += v->total;
		rows[r].exposed += v->exposed;
	}
	return n;
}

static void
print_rows(struct explain *e, struct st_buffer *out)
{
	struct row *rows = st_arena_array(&e->cli->arena, e->p.x.count + 1u,
					  sizeof(*rows));
	size_t n = rows ? group_rows(e, rows) : 0;

	st_buffer_printf(out, "%7s  %-14s %-12s %12s %12s %7s  %s\n", "count",
			 "collective", "over", "total us", "exposed us",
			 "hidden", "what stands in the way");
	for (size_t i = 0; i < n; i++) {
		const struct st_verdict *w = rows[i].worst;
		const struct st_node *node = &e->p.module->nodes.at[w->start];

		st_buffer_printf(out,
				 "%7lld  %-14s %-12s %12.1f %12.1f %6.1f%%  ",
				 (long long)rows[i].count,
				 st_ops[node->op].name, axes_of(e, node),
				 us(rows[i].total), us(rows[i].exposed),
				 (double)st_explain_hidden(rows[i].total,
							   rows[i].exposed) /
					 10.0);
		st_buffer_printf(out, "%%%s: %s\n", rows[i].name,
				 st_explain_reason(e->p.module, w));
	}
}

static void
print_text(struct explain *e, struct st_buffer *out)
{
	const struct st_explanation *x = &e->p.x;

	print_rows(e, out);
	st_buffer_printf(out,
			 "\nstep %.1f us = compute %.1f + contention %.1f + "
			 "exposed communication %.1f\n",
			 us(x->step), us(x->busy), us(x->contention),
			 us(x->stalls));
	st_buffer_printf(out,
			 "communication %.1f us, %.1f%% hidden; bound %.1f us "
			 "by %s, gap %.1f%%\n",
			 us(x->comm),
			 (double)st_explain_hidden(x->comm, x->stalls) / 10.0,
			 us(x->bound), x->bound_by,
			 x->bound ? 100.0 * (double)(x->step - x->bound) /
					    (double)x->bound
				  : 0.0);
}

static void
put_us(struct st_json_writer *w, const char *key, int64_t ps)
{
	st_json_key(w, key);
	st_json_number(w, us(ps));
}

static void
put_totals(struct st_json_writer *w, const struct st_explanation *x)
{
	put_us(w, "step_us", x->step);
	put_us(w, "compute_us", x->busy);
	put_us(w, "contention_us", x->contention);
	put_us(w, "comm_us", x->comm);
	put_us(w, "exposed_comm_us", x->stalls);
	st_json_key(w, "overlap_efficiency");
	st_json_number(w,
		       (double)st_explain_hidden(x->comm, x->stalls) / 1000.0);
	put_us(w, "lower_bound_us", x->bound);
	st_json_key(w, "bound_by");
	st_json_string(w, x->bound_by ? x->bound_by : "");
}

static void
put_verdict(struct explain *e, struct st_json_writer *w,
	    const struct st_verdict *v)
{
	const struct st_node *node = &e->p.module->nodes.at[v->start];

	st_json_begin_object(w);
	st_json_key(w, "node");
	st_json_string(w, st_value_name(e->p.module, node->first_result));
	st_json_key(w, "kind");
	st_json_string(w, st_ops[node->op].name);
	st_json_key(w, "group");
	st_json_string(w, axes_of(e, node));
	st_json_key(w, "members");
	st_json_integer(w, v->members);
	st_json_key(w, "bytes");
	st_json_integer(w, v->bytes);
	put_us(w, "total_us", v->total);
	put_us(w, "hidden_us",
	       v->total > v->exposed ? v->total - v->exposed : 0);
	put_us(w, "exposed_us", v->exposed);
	st_json_key(w, "reason");
	st_json_string(w, st_explain_reason(e->p.module, v));
	st_json_end_object(w);
}

/* By HolisticTraceAnalysis' definition, which differs from ours: it asks
 * what runs beside communication, not what is waited for. */
static void
put_hta(struct explain *e, struct st_json_writer *w)
{
	struct st_trace trace;
	struct st_trace_sums sums;

	if (st_trace_predict(e->p.module, e->p.entry, &e->p.x, &trace) ||
	    st_trace_sum(&e->cli->arena, &trace, &sums))
		return;
	st_json_key(w, "hta_overlap_pct");
	st_json_number(w, st_trace_hta_overlap_pct(&sums));
}

static void
print_json(struct explain *e, struct st_buffer *out, int verdicts)
{
	struct st_json_writer w;

	st_json_writer_init(&w, st_json_put_buffer, out);
	st_json_begin_object(&w);
	put_totals(&w, &e->p.x);
	if (e->whatif) {
		st_json_key(&w, "if");
		st_json_string(&w, e->whatif);
		put_us(&w, "step_us_without", e->before);
	}
	st_json_key(&w, "peak_bytes");
	st_json_integer(&w, e->p.module->arena_bytes ? e->p.module->arena_bytes
						     : e->p.x.peak);
	put_hta(e, &w);
	st_json_key(&w, "machine");
	st_json_string(&w, e->p.machine.name);
	if (verdicts) {
		st_json_key(&w, "collectives");
		st_json_begin_array(&w);
		for (uint32_t i = 0; i < e->p.x.count; i++)
			put_verdict(e, &w, &e->p.x.verdicts[i]);
		st_json_end_array(&w);
	}
	st_json_end_object(&w);
	st_json_newline(&w);
	st_json_writer_finish(&w);
}

static enum st_status
prepare(struct explain *e)
{
	struct cli *cli = e->cli;
	struct st_trace trace;
	size_t length;
	char *text;

	if (e->trace)
		ST_TRY(cli_check_output(cli, e->trace));
	ST_TRY(cli_read(cli, cli->input, &text, &length));
	ST_TRY(cli_predict(cli, &e->p, cli->input, text, length));
	e->before = e->p.x.step;
	if (e->whatif)
		ST_TRY(cli_whatif(cli, &e->p, e->whatif));
	if (!e->trace)
		return ST_OK;
	ST_TRY(st_trace_predict(e->p.module, e->p.entry, &e->p.x, &trace));
	trace.machine = e->p.machine.name;
	return cli_trace_save(cli, &trace, e->trace);
}

static enum st_status
run(struct cli *cli, int argc, char **argv, const struct cli_usage *usage,
    int verdicts)
{
	struct explain e = {.cli = cli};
	const struct cli_option options[] = {
		{"--machine", 0, CLI_TEXT, &e.p.machine_name, "NAME",
		 "cost on this machine (that of the model, else laptop)"},
		{"--entry", 0, CLI_TEXT, &e.p.entry_name, "NAME",
		 "look at this entry (step)"},
		{"--profile", 0, CLI_TEXT, &e.p.profile, "TRACE",
		 "times of single nodes, before those of the machine"},
		{"--if", 0, CLI_TEXT, &e.whatif, "KNOB=2x",
		 "the same order with compute, memory, latency, contention, "
		 "link or link.AXIS changed"},
		{"--trace", 0, CLI_TEXT, &e.trace, "FILE",
		 "write the timeline as Chrome JSON"},
		{.name = NULL},
	};
	struct st_buffer out;
	int done;

	ST_TRY(cli_parse(cli, usage, options, argc, argv, &done));
	if (done)
		return ST_OK;
	ST_TRY(prepare(&e));
	st_buffer_init(&out, &cli->arena);
	if (cli->json)
		print_json(&e, &out, verdicts);
	else if (verdicts)
		print_text(&e, &out);
	else
		st_buffer_printf(&out,
				 "%s on %s: step %.1f us: compute %.1f, "
				 "contention %.1f, exposed communication %.1f "
				 "of %.1f; bound %.1f by %s\n",
				 cli->input, e.p.machine.name, us(e.p.x.step),
				 us(e.p.x.busy), us(e.p.x.contention),
				 us(e.p.x.stalls), us(e.p.x.comm),
				 us(e.p.x.bound), e.p.x.bound_by);
	if (e.whatif && !cli->json)
		st_buffer_printf(
			&out, "if %s: %.1f us instead of %.1f, %+.1f%%\n",
			e.whatif, us(e.p.x.step), us(e.before),
			e.before ? 100.0 * (double)(e.p.x.step - e.before) /
					   (double)e.before
				 : 0.0);
	return cli_write(cli, NULL, out.text, out.length);
}

int
cli_explain(int argc, char **argv)
{
	const struct cli_usage usage = {
		"explain", "PLAN|MODEL [options]",
		"stretto explain plan.ir --machine h200-sxm-8\n"
		"stretto explain models/nets/llama3-8b.yaml --json\n",
		1};
	struct cli cli;
	enum st_status status = cli_begin(&cli);

	if (status == ST_OK)
		status = run(&cli, argc, argv, &usage, 1);
	return cli_end(&cli, status);
}

int
cli_sim(int argc, char **argv)
{
	const struct cli_usage usage = {
		"sim", "PLAN|MODEL [options]",
		"stretto sim plan.ir --machine h200-sxm-8\n"
		"stretto sim models/nets/llama3-8b.yaml --json\n",
		1};
	struct cli cli;
	enum st_status status = cli_begin(&cli);

	if (status == ST_OK)
		status = run(&cli, argc, argv, &usage, 0);
	return cli_end(&cli, status);
}
