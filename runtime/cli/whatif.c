/* explain --if: a machine with some of its numbers changed. */

#include <stdlib.h>
#include <string.h>

#include "runtime/cli/predict.h"

struct whatif {
	struct cli *cli;
	struct cli_prediction *p;
	const char *text; /* of one change */
};

static enum st_status
fail(const struct whatif *w, const char *why)
{
	return st_error(
		&w->cli->diag, ST_EUSAGE, st_no_loc(),
		"--if %s: %s; want KNOB=2x, several by commas: compute, "
		"memory, latency, contention, link, or link.AXIS",
		w->text, why);
}

static void
scale_compute(struct st_machine *m, double by)
{
	for (int i = 0; i < ST_DTYPE_COUNT; i++)
		m->matmul_tflops[i] *= by;
	m->attention_forward_tflops_64 *= by;
	m->attention_forward_tflops_128 *= by;
	m->attention_backward_tflops_64 *= by;
	m->attention_backward_tflops_128 *= by;
}

static void
scale_memory(struct st_machine *m, double by)
{
	m->memory_gb_per_s *= by;
	for (int i = 0; i < ST_OP_COUNT; i++)
		m->op_gb_per_s[i] *= by;
}

/* Twice the latency is 2x, unlike rates. */
static void
scale_latency(struct st_machine *m, double by)
{
	for (int i = 0; i < m->form_count; i++) {
		m->forms[i].a_us *= by;
		m->forms[i].small_a_us *= by;
	}
	for (int i = 0; i < m->tier_count; i++)
		m->tiers[i].hop_us *= by;
}

static void
scale_link(struct whatif *w, unsigned axes, double by)
{
	struct st_machine *m = &w->p->machine;

	for (unsigned i = 0; i < ST_MAX_AXES; i++)
		if (axes >> i & 1)
			m->axis_speed[i] =
				(m->axis_speed[i] > 0 ? m->axis_speed[i] : 1) *
				by;
}

static int
find_axis(const struct st_module *m, const char *name)
{
	for (uint32_t i = 0; i < m->mesh.count; i++)
		if (strcmp(st_names_text(m->names, m->mesh.name[i]), name) == 0)
			return (int)i;
	return -1;
}

static enum st_status
change(struct whatif *w, const char *knob, double by)
{
	struct st_machine *m = &w->p->machine;
	int axis;

	if (strcmp(knob, "compute") == 0) {
		scale_compute(m, by);
	} else if (strcmp(knob, "memory") == 0) {
		scale_memory(m, by);
	} else if (strcmp(knob, "latency") == 0) {
		scale_latency(m, by);
	} else if (strcmp(knob, "contention") == 0) {
		m->compute_slowdown *= by;
		m->comm_slowdown *= by;
	} else if (strcmp(knob, "link") == 0) {
		scale_link(w, (1u << ST_MAX_AXES) - 1, by);
	} else if (strncmp(knob, "link.", 5) == 0) {
		axis = find_axis(w->p->module, knob + 5);
		if (axis < 0)
			return fail(w, "the plan has no such axis");
		scale_link(w, 1u << axis, by);
	} else {
		return fail(w, "no such knob");
	}
	return ST_OK;
}

static enum st_status
change_one(struct whatif *w, const char *text, size_t length)
{
	char *copy = st_arena_strndup(&w->cli->arena, text, length), *is, *end;
	double by;

	if (!copy)
		return st_error_memory(&w->cli->diag);
	w->text = st_arena_strndup(&w->cli->arena, text, length);
	is = strchr(copy, '=');
	if (!is)
		return fail(w, "no '='");
	*is = '\0';
	by = strtod(is + 1, &end);
	if (end == is + 1 || (strcmp(end, "x") != 0 && *end))
		return fail(w, "not a factor");
	/* No contention is a question; no link is none. */
	if (!(by <= 1e6) ||
	    (strcmp(copy, "contention") && strcmp(copy, "latency") ? by < 1e-6
								   : by < 0))
		return fail(w, "the factor is out of range");
	return change(w, copy, by);
}

enum st_status
cli_whatif(struct cli *cli, struct cli_prediction *p, const char *text)
{
	struct whatif w = {.cli = cli, .p = p};
	const char *why = "";

	while (*text) {
		size_t length = strcspn(text, ",");

		ST_TRY(change_one(&w, text, length));
		text += length + (text[length] == ',');
	}
	return st_explain(p->module, p->entry, &p->machine, &p->x, &why);
}
