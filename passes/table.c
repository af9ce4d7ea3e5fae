/* The table of passes and the driver. */

#include "passes/cost.h"
#include "passes/pass.h"

#include <string.h>

const struct st_pass st_passes[] = { /* order = default pipeline */
	{"grad", st_pass_grad, ST_LOGICAL,
	 "backward pass, optimizer step, accumulation, recompute"},
	{"partition", st_pass_partition, ST_LOGICAL,
	 "shardings to explicit collectives, local shapes"},
	{"split", st_pass_split, ST_RANKED,
	 "pieces of a micro-batch that hide each other's collectives"},
	{"bucket", st_pass_bucket, ST_RANKED,
	 "small collectives of one kind become one launch"},
	{"async", st_pass_async, ST_RANKED,
	 "collectives become start and wait"},
	{"schedule", st_pass_schedule, ST_RANKED,
	 "order of issue; communicators"},
	{"memory", st_pass_memory, ST_RANKED, "one static arena"},
	{NULL, NULL, ST_LOGICAL, NULL},
};

const struct st_pass *
st_pass_find(const char *name, size_t length)
{
	for (const struct st_pass *pass = st_passes; pass->name; pass++)
		if (strlen(pass->name) == length &&
		    memcmp(pass->name, name, length) == 0)
			return pass;
	return NULL;
}

static enum st_status
unknown_pass(struct st_diag *diag, const char *name, size_t length)
{
	const char *list[16] = {NULL}, *near;
	char word[64] = "";
	int n = 0;

	for (const struct st_pass *pass = st_passes; pass->name; pass++)
		list[n++] = pass->name;
	if (length < sizeof(word))
		memcpy(word, name, length);
	near = st_nearest(word, list);
	return st_error(diag, ST_EUSAGE, st_no_loc(),
			"no pass is named '%.*s'%s%s%s", (int)length, name,
			near ? "; did you mean '" : "", near ? near : "",
			near ? "'?" : "");
}

static enum st_status
run_one(struct st_pipeline *p, const struct st_pass *pass,
	const struct st_module *in, struct st_module **out)
{
	struct st_pass_context cx = {
		.machine = p->machine ? p->machine : &st_machine_laptop,
		.memory_limit = p->memory_limit,
	};
	struct st_pass_report *report = &p->reports[p->report_count++];
	int64_t start = p->clock ? p->clock() : 0;

	if (in->form != pass->needs)
		return st_error(in->diag, ST_EINPUT, st_no_loc(),
				"pass %s reads a %s module, this one is %s",
				pass->name,
				pass->needs == ST_RANKED ? "ranked"
							 : "logical",
				in->form == ST_RANKED ? "ranked" : "logical");
	ST_TRY(pass->run(&cx, in, out));
	report->name = pass->name;
	report->ms = p->clock ? (double)(p->clock() - start) / 1e6 : 0.0;
	report->changes = cx.changes;
	report->skipped = cx.skipped;
	report->nodes = (*out)->nodes.count;
	if (st_verify(*out) != ST_OK) {
		st_note(in->diag, st_no_loc(), "found after pass %s",
			pass->name);
		return ST_EINPUT;
	}
	return p->after ? p->after(p->user, p->report_count, pass->name, *out)
			: ST_OK;
}

/* What a module has been through already: one with a step has its gradients,
 * a ranked one starts behind `partition`, an order that stands (perhaps by
 * hand) is kept, and what is placed is a plan. */
static int
is_behind(const struct st_pass *pass, const struct st_module *m)
{
	if (m->form != ST_RANKED)
		return pass->run == st_pass_grad &&
		       st_module_find_entry(m, "step") != ST_NONE;
	return pass->needs == ST_LOGICAL || m->arena_bytes > 0 ||
	       (m->communicators.count > 0 && pass->run != st_pass_memory);
}

/* Without a list, all passes that are still to come. */
static enum st_status
run_default(struct st_pipeline *p, const struct st_module *in,
	    struct st_module **out)
{
	const struct st_pass *pass = st_passes;

	for (; pass->name; pass++) {
		struct st_module *made;

		if (!is_behind(pass, in)) {
			ST_TRY(run_one(p, pass, in, &made));
			in = *out = made;
		}
		if (p->stop_after && strcmp(pass->name, p->stop_after) == 0)
			break;
	}
	return ST_OK;
}

static enum st_status
run_list(struct st_pipeline *p, const struct st_module *in,
	 struct st_module **out)
{
	const char *at = p->passes;
	const size_t most = sizeof(p->reports) / sizeof(p->reports[0]);

	while (*at) {
		size_t length = strcspn(at, ",");
		const struct st_pass *pass = st_pass_find(at, length);
		struct st_module *made;

		if (!pass)
			return unknown_pass(in->diag, at, length);
		if ((size_t)p->report_count == most)
			return st_error(in->diag, ST_EUSAGE, st_no_loc(),
					"more than %zu passes", most);
		ST_TRY(run_one(p, pass, in, &made));
		in = *out = made;
		if (p->stop_after && strcmp(pass->name, p->stop_after) == 0)
			break;
		at += length;
		at += *at == ',';
	}
	return ST_OK;
}

enum st_status
st_pipeline_run(struct st_pipeline *p, const struct st_module *in,
		struct st_module **out)
{
	/* A pass hands its input on untouched only through this line. */
	*out = (struct st_module *)(uintptr_t)in;
	p->report_count = 0;
	if (p->stop_after &&
	    !st_pass_find(p->stop_after, strlen(p->stop_after)))
		return unknown_pass(in->diag, p->stop_after,
				    strlen(p->stop_after));
	if (p->after)
		ST_TRY(p->after(p->user, 0, "input", in));
	return p->passes ? run_list(p, in, out) : run_default(p, in, out);
}
