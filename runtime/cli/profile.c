/* --profile: times of single nodes from a measured trace. */

#include "runtime/cli/profile.h"

#include <string.h>

enum st_status
cli_profile_read(struct cli *cli, const char *path, struct cli_profile *p)
{
	struct st_trace *trace = &p->trace;
	size_t length;
	char *text;

	p->path = path;
	ST_TRY(cli_read(cli, path, &text, &length));
	p->source = st_diag_add_source(&cli->diag, path, text, length);
	ST_TRY(st_trace_read(&cli->arena, &cli->diag, p->source, text, length,
			     trace));
	p->names = st_arena_array(&cli->arena, trace->count + 1u,
				  sizeof(*p->names));
	if (!p->names)
		return st_error_memory(&cli->diag);
	for (uint32_t i = 0; i < trace->count; i++)
		p->names[i] = st_names_add(&cli->names, trace->at[i].node,
					   strlen(trace->at[i].node));
	p->count = cli->names.count;
	p->ps = st_arena_array(&cli->arena, p->count + 1, sizeof(*p->ps));
	if (!p->ps)
		return st_error_memory(&cli->diag);
	for (uint32_t i = 0; i < trace->count; i++)
		p->ps[p->names[i]] = trace->at[i].end - trace->at[i].begin;
	return ST_OK;
}

/* A bucket goes by its first member. */
static int
follows_in_bucket(const struct st_module *m, size_t i)
{
	const struct st_attr *a =
		st_node_attr(m, &m->nodes.at[i], ST_KEY_bucket);
	const struct st_attr *b =
		i ? st_node_attr(m, &m->nodes.at[i - 1], ST_KEY_bucket) : NULL;

	return a && b && a->i == b->i && m->nodes.at[i - 1].start;
}

/* Names of the plan that the profile has are marked by a negative time. */
static void
mark_known(const struct st_module *m, struct cli_profile *p, int64_t *missing,
	   const char **first)
{
	for (size_t i = 0; i < m->nodes.count; i++) {
		const struct st_node *node = &m->nodes.at[i];
		uint32_t name = m->values.at[node->first_result].name;

		if (node->op == ST_OP_wait)
			continue;
		if (name < p->count && p->ps[name]) {
			p->ps[name] =
				p->ps[name] > 0 ? -p->ps[name] : p->ps[name];
			continue;
		}
		if (strcmp(st_names_text(m->names,
					 m->entries.at[node->entry].name),
			   "step") != 0 ||
		    follows_in_bucket(m, i))
			continue;
		if (++*missing == 1)
			*first = st_value_name(m, node->first_result);
	}
}

static enum st_status
judge(struct cli *cli, struct cli_profile *p, int64_t missing,
      const char *first)
{
	for (uint32_t i = 0; i < p->trace.count; i++)
		if (p->ps[p->names[i]] > 0)
			return st_error(&cli->diag, ST_EINPUT,
					p->trace.at[i].loc,
					"the plan has no node '%s'",
					p->trace.at[i].node);
	if (missing == 0)
		return ST_OK;
	if (cli->strict)
		return st_error(&cli->diag, ST_ECHECK, st_no_loc(),
				"%s: %lld nodes of the step are missing, the "
				"first is '%s'",
				p->path, (long long)missing, first);
	st_warn(&cli->diag, st_no_loc(),
		"%s: %lld nodes of the step are missing and go by the machine "
		"file, the first is '%s'",
		p->path, (long long)missing, first);
	return ST_OK;
}

enum st_status
cli_profile_check(struct cli *cli, struct cli_profile *p,
		  const struct st_module *plan)
{
	int64_t missing = 0;
	const char *first = "";
	enum st_status status;

	mark_known(plan, p, &missing, &first);
	status = judge(cli, p, missing, first);
	for (size_t i = 0; i < p->count; i++)
		p->ps[i] = p->ps[i] < 0 ? -p->ps[i] : p->ps[i];
	return status;
}
