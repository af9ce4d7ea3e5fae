/* stretto.h over the compiler and the session. */

#include "runtime/stretto.h"

#include "config.h"
#include "models/model.h"
#include "passes/pass.h"
#include "runtime/mapfile.h"
#include "runtime/session.h"
#include "runtime/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ERROR_LENGTH = 4096, MOST_BINDINGS = 64 };

static _Thread_local char last_error[ERROR_LENGTH];

struct stretto_plan {
	struct st_arena arena;
	struct st_diag diag;
	struct st_names names;
	struct st_module *module;
	struct st_buffer text;
	int64_t parameters;
};

struct binding {
	const char *name;
	void *data;
	size_t bytes;
};

struct stretto_session {
	struct st_arena arena;
	struct st_diag diag;
	const struct st_module *module;
	struct st_session *session;
	struct binding bindings[MOST_BINDINGS];
	int binding_count;
	int captured, primed; /* `init` has run; so has `prologue` */
};

const char *
stretto_version(void)
{
	return ST_VERSION;
}

const char *
stretto_last_error(void)
{
	return last_error;
}

/* Keeps the messages of a failed call, as many as fit. */
static int
finish(struct st_diag *diag, enum st_status status)
{
	size_t used = 0;

	last_error[0] = '\0';
	for (size_t i = 0; status != ST_OK && i < diag->count; i++) {
		const char *text = st_diag_render(diag, i);
		size_t length = strlen(text);

		if (length >= ERROR_LENGTH - used)
			length = ERROR_LENGTH - used - 1;
		memcpy(last_error + used, text, length);
		used += length;
		last_error[used] = '\0';
	}
	diag->count = 0;
	return (int)status;
}

static stretto_plan *
create_plan(void)
{
	stretto_plan *plan = calloc(1, sizeof(*plan));

	if (!plan)
		return NULL;
	st_arena_init(&plan->arena, NULL);
	st_diag_init(&plan->diag, &plan->arena);
	if (st_names_init(&plan->names, &plan->arena)) {
		stretto_free(plan);
		return NULL;
	}
	return plan;
}

static int
no_memory(void)
{
	static const char text[] = "stretto: error: out of memory\n";

	memcpy(last_error, text, sizeof(text));
	return STRETTO_DEVICE;
}

/* For arguments without which there is no diag to report to. */
static int
is_null(const char *function, const char *what)
{
	snprintf(last_error, sizeof(last_error),
		 "stretto: error: %s: the %s is NULL\n", function, what);
	return STRETTO_USAGE;
}

/* Runs the passes that are still to come and prints the plan. */
static enum st_status
complete(stretto_plan *plan)
{
	struct st_pipeline pipeline;

	memset(&pipeline, 0, sizeof(pipeline));
	plan->parameters = st_module_parameters(plan->module);
	if (plan->module->arena_bytes == 0)
		ST_TRY(st_pipeline_run(&pipeline, plan->module,
				       &plan->module));
	st_buffer_init(&plan->text, &plan->arena);
	st_print(plan->module, &plan->text);
	return plan->arena.failed ? st_error_memory(&plan->diag) : ST_OK;
}

static int
hand_out(stretto_plan *made, enum st_status status, stretto_plan **plan)
{
	int code;

	if (status == ST_OK)
		status = complete(made);
	code = finish(&made->diag, status);
	if (code == STRETTO_OK)
		*plan = made;
	else
		stretto_free(made);
	return code;
}

/* Says what to do with a file that is IR text, if that was the reason. */
static enum st_status
hint(stretto_plan *plan, enum st_status status)
{
	static const char reason[] = "this looks like IR text";
	const struct st_diag *diag = &plan->diag;

	if (status != ST_OK && diag->count &&
	    strncmp(diag->messages[diag->count - 1].text, reason,
		    sizeof(reason) - 1) == 0)
		st_note(&plan->diag, st_no_loc(),
			"IR text is loaded with stretto_load");
	return status;
}

static enum st_status
compile(stretto_plan *plan, const struct st_model_source *source)
{
	struct st_model *model;

	if (!source->path)
		return st_error(&plan->diag, ST_EUSAGE, st_no_loc(),
				"the path is NULL");
	for (size_t i = 0; i < source->set_count; i++)
		if (!source->sets || !source->sets[i])
			return st_error(&plan->diag, ST_EUSAGE, st_no_loc(),
					"sets[%zu] is NULL", i);
	ST_TRY(hint(plan, st_model_load(&plan->arena, &plan->diag,
					&plan->names, source, &model)));
	return st_model_lower(model, &plan->module);
}

int
stretto_compile(const char *path, const char *const *sets, size_t set_count,
		stretto_plan **plan)
{
	static const char *const search[] = {
		"models/families", ST_PREFIX "/share/stretto/families", NULL};
	struct st_model_source source = {.path = path,
					 .sets = sets,
					 .set_count = set_count,
					 .search = search};
	stretto_plan *made = plan ? create_plan() : NULL;

	if (!plan)
		return is_null("stretto_compile", "place for the plan");
	if (!made)
		return no_memory();
	return hand_out(made, compile(made, &source), plan);
}

static enum st_status
parse(stretto_plan *plan, const char *name, const char *text, size_t length)
{
	uint32_t source;

	if (!text)
		return length ? st_error(&plan->diag, ST_EUSAGE, st_no_loc(),
					 "the text is NULL")
			      : parse(plan, name, "", 0);
	source = st_diag_add_source(&plan->diag, name, text, length);
	if (source == 0)
		return st_error_memory(&plan->diag);
	ST_TRY(st_parse(&plan->arena, &plan->diag, &plan->names, source,
			&plan->module));
	return st_verify(plan->module);
}

int
stretto_load_text(const char *text, size_t length, stretto_plan **plan)
{
	stretto_plan *made = plan ? create_plan() : NULL;

	if (!plan)
		return is_null("stretto_load_text", "place for the plan");
	return made ? hand_out(made, parse(made, "text", text, length), plan)
		    : no_memory();
}

static int
ends_in(const char *text, const char *end)
{
	size_t length = strlen(text), want = strlen(end);

	return length > want && strcmp(text + length - want, end) == 0;
}

static enum st_status
parse_file(stretto_plan *plan, const char *path)
{
	struct st_mapfile file;
	enum st_status status;

	if (!path)
		return st_error(&plan->diag, ST_EUSAGE, st_no_loc(),
				"the path is NULL");
	ST_TRY(st_mapfile_open(&file, &plan->diag, path));
	status = parse(plan, path, (const char *)file.data,
		       (size_t)file.size);
	if (status != ST_OK && (ends_in(path, ".yaml") ||
				ends_in(path, ".yml")))
		st_note(&plan->diag, st_no_loc(),
			"a net is compiled with stretto_compile");
	st_mapfile_close(&file);
	return status;
}

int
stretto_load(const char *path, stretto_plan **plan)
{
	stretto_plan *made = plan ? create_plan() : NULL;

	if (!plan)
		return is_null("stretto_load", "place for the plan");
	return made ? hand_out(made, parse_file(made, path), plan)
		    : no_memory();
}

int
stretto_plan_text(const stretto_plan *plan, const char **text, size_t *length)
{
	if (!plan || !text || !length)
		return is_null("stretto_plan_text",
			       plan ? "place for the text" : "plan");
	*text = plan->text.text;
	*length = plan->text.length;
	return STRETTO_OK;
}

int
stretto_plan_info(const stretto_plan *plan, struct stretto_plan_info *info)
{
	struct stretto_plan_info all;
	size_t size;

	if (!plan || !info)
		return is_null("stretto_plan_info", plan ? "info" : "plan");
	size = info->struct_size;
	all.struct_size = size;
	all.ranks = st_mesh_ranks(&plan->module->mesh);
	all.parameters = plan->parameters;
	all.nodes = (int64_t)plan->module->nodes.count;
	all.arena_bytes = plan->module->arena_bytes;
	/* A caller built against another version gets what both know. */
	memcpy(info, &all, size < sizeof(all) ? size : sizeof(all));
	return STRETTO_OK;
}

void
stretto_free(stretto_plan *plan)
{
	if (!plan)
		return;
	st_arena_finish(&plan->arena);
	free(plan);
}

static enum st_status
open_session(stretto_session *s, const stretto_plan *plan,
	     const struct stretto_options *given)
{
	struct st_session_options o = {.reference = given->reference,
				       .timeout_ms = given->timeout_ms};

	/* Locations in the plan lead into its files, whoever reports them. */
	if (!st_diag_share_sources(&s->diag, &plan->diag))
		return st_error_memory(&s->diag);
	if (given->timeout_ms < 0)
		return st_error(&s->diag, ST_EUSAGE, st_no_loc(),
				"timeout_ms is negative");
	return st_session_open(&s->arena, &s->diag, s->module, &o,
			       &s->session);
}

int
stretto_open(const stretto_plan *plan, const struct stretto_options *options,
	     stretto_session **session)
{
	struct stretto_options given = {0};
	stretto_session *s;
	int code;

	if (!plan || !session)
		return is_null("stretto_open",
			       plan ? "place for the session" : "plan");
	s = calloc(1, sizeof(*s));
	if (!s)
		return no_memory();
	if (options)
		memcpy(&given, options,
		       options->struct_size < sizeof(given)
			       ? options->struct_size
			       : sizeof(given));
	st_arena_init(&s->arena, NULL);
	st_diag_init(&s->diag, &s->arena);
	s->module = plan->module;
	code = finish(&s->diag, open_session(s, plan, &given));
	if (code == STRETTO_OK)
		*session = s;
	else
		stretto_close(s);
	return code;
}

void
stretto_close(stretto_session *s)
{
	if (!s)
		return;
	st_session_close(s->session);
	st_arena_finish(&s->arena);
	free(s);
}

static struct binding *
find_binding(stretto_session *s, const char *name)
{
	for (int i = 0; i < s->binding_count; i++)
		if (strcmp(s->bindings[i].name, name) == 0)
			return &s->bindings[i];
	return NULL;
}

/* The value that an input or output of some entry of that name is. */
static uint32_t
find_bindable(const stretto_session *s, const char *name)
{
	const struct st_module *m = s->module;

	for (size_t e = 0; e < m->entries.count; e++) {
		const struct st_entry *entry = &m->entries.at[e];

		for (uint32_t i = 0; i < entry->inputs; i++)
			if (strcmp(st_value_name(m, entry->first_input + i),
				   name) == 0)
				return entry->first_input + i;
		for (uint32_t i = 0; i < entry->outputs; i++) {
			const struct st_output *output =
				&m->outputs.at[entry->first_output + i];

			if (output->state == ST_NONE &&
			    strcmp(st_names_text(m->names, output->name),
				   name) == 0)
				return output->value;
		}
	}
	return ST_NONE;
}

/* Adds a name to a list of them, once. */
static void
list_name(struct st_buffer *list, const char *name)
{
	char *quoted = st_arena_printf(list->arena, "'%s'", name);

	if (quoted && !(list->length && strstr(list->text, quoted)))
		st_buffer_printf(list, "%s%s", list->length ? ", " : "",
				 quoted);
}

static enum st_status
no_bindable(stretto_session *s, const char *name)
{
	const struct st_module *m = s->module;
	struct st_buffer inputs, outputs;

	st_buffer_init(&inputs, &s->arena);
	st_buffer_init(&outputs, &s->arena);
	for (size_t e = 0; e < m->entries.count; e++) {
		const struct st_entry *entry = &m->entries.at[e];
		const struct st_output *o =
			&m->outputs.at[entry->first_output];

		for (uint32_t i = 0; i < entry->inputs; i++)
			list_name(&inputs,
				  st_value_name(m, entry->first_input + i));
		for (uint32_t i = 0; i < entry->outputs; i++)
			if (o[i].state == ST_NONE)
				list_name(&outputs,
					  st_names_text(m->names, o[i].name));
	}
	return st_error(&s->diag, ST_EUSAGE, st_no_loc(),
			"bind: %s%s%s; inputs are %s; outputs are %s",
			name ? "no entry has an input or output '" : "",
			name ? name : "the name is NULL", name ? "'" : "",
			inputs.length ? inputs.text : "none",
			outputs.length ? outputs.text : "none");
}

static enum st_status
check_bindable(stretto_session *s, const char *name, const void *data,
	       size_t bytes)
{
	const struct st_type *type;
	uint32_t value;
	size_t want;

	value = name ? find_bindable(s, name) : ST_NONE;
	if (value == ST_NONE)
		return no_bindable(s, name);
	type = st_value_type(s->module, value);
	want = (size_t)st_type_elements(type) * st_dtype_size(type->dtype);
	if (bytes != want)
		return st_error(&s->diag, ST_EUSAGE, st_no_loc(),
				"'%s' has %zu bytes, %zu given", name, want,
				bytes);
	return data ? ST_OK
		    : st_error(&s->diag, ST_EUSAGE, st_no_loc(),
			       "bind: the memory of '%s' is NULL", name);
}

static enum st_status
bind(stretto_session *s, const char *name, void *data, size_t bytes)
{
	struct binding *binding;

	ST_TRY(check_bindable(s, name, data, bytes));
	binding = find_binding(s, name);
	if (!binding) {
		if (s->binding_count == MOST_BINDINGS)
			return st_error(&s->diag, ST_EUSAGE, st_no_loc(),
					"more than %d bindings",
					MOST_BINDINGS);
		binding = &s->bindings[s->binding_count];
		binding->name = st_arena_strndup(&s->arena, name,
						 strlen(name));
		if (!binding->name)
			return st_error_memory(&s->diag);
		s->binding_count++;
	}
	binding->data = data;
	binding->bytes = bytes;
	return ST_OK;
}

int
stretto_bind(stretto_session *s, const char *name, void *data, size_t bytes)
{
	if (!s)
		return is_null("stretto_bind", "session");
	return finish(&s->diag, bind(s, name, data, bytes));
}

int
stretto_capture(stretto_session *s)
{
	uint32_t init;

	if (!s)
		return is_null("stretto_capture", "session");
	init = st_module_find_entry(s->module, "init");
	if (init == ST_NONE)
		return finish(&s->diag,
			      st_error(&s->diag, ST_EINPUT, st_no_loc(),
				       "the plan has no entry init"));
	s->captured = 1;
	s->primed = 0;
	return finish(&s->diag, st_session_run(s->session, init));
}

static enum st_status
feed(stretto_session *s, uint32_t entry)
{
	const struct st_entry *e = &s->module->entries.at[entry];

	for (uint32_t i = 0; i < e->inputs; i++) {
		const char *name =
			st_value_name(s->module, e->first_input + i);
		const struct binding *b = find_binding(s, name);

		if (!b)
			return st_error(&s->diag, ST_EUSAGE, st_no_loc(),
					"input '%s' is not bound", name);
		ST_TRY(st_session_write_input(s->session, entry, name,
					      b->data, b->bytes));
	}
	return ST_OK;
}

static enum st_status
collect(stretto_session *s, uint32_t entry)
{
	const struct st_entry *e = &s->module->entries.at[entry];

	for (uint32_t i = 0; i < e->outputs; i++) {
		const struct st_output *output =
			&s->module->outputs.at[e->first_output + i];
		const struct binding *b;
		const char *name;

		if (output->state != ST_NONE)
			continue;
		name = st_names_text(s->module->names, output->name);
		b = find_binding(s, name);
		if (b)
			ST_TRY(st_session_read_output(s->session, entry, name,
						      b->data, b->bytes));
	}
	return ST_OK;
}

static int
has_prologue(const stretto_session *s)
{
	return st_module_find_entry(s->module, "prologue") != ST_NONE;
}

static enum st_status
no_entry(stretto_session *s, const char *name)
{
	const struct st_module *m = s->module;
	struct st_buffer list;

	st_buffer_init(&list, &s->arena);
	for (size_t e = 0; e < m->entries.count; e++)
		list_name(&list,
			  st_names_text(m->names, m->entries.at[e].name));
	return st_error(&s->diag, ST_EUSAGE, st_no_loc(),
			"the plan has no entry '%s'; it has %s", name,
			list.length ? list.text : "none");
}

static enum st_status
replay(stretto_session *s, const char *name, void *stream)
{
	uint32_t entry = name ? st_module_find_entry(s->module, name)
			      : ST_NONE;

	if (entry == ST_NONE)
		return no_entry(s, name ? name : "(NULL)");
	if (stream)
		return st_error(&s->diag, ST_EUSAGE, st_no_loc(),
				"the cpu backend has no streams");
	if (!s->captured)
		return st_error(&s->diag, ST_EUSAGE, st_no_loc(),
				"replay before capture");
	if (!s->primed && has_prologue(s) && strcmp(name, "prologue") != 0 &&
	    strcmp(name, "eval") != 0)
		return st_error(&s->diag, ST_EUSAGE, st_no_loc(),
				"replay of '%s' before 'prologue', which "
				"brings the first batch",
				name);
	ST_TRY(feed(s, entry));
	ST_TRY(st_session_run(s->session, entry));
	s->primed |= strcmp(name, "prologue") == 0;
	return collect(s, entry);
}

int
stretto_replay(stretto_session *s, const char *entry, void *stream)
{
	if (!s)
		return is_null("stretto_replay", "session");
	return finish(&s->diag, replay(s, entry, stream));
}

/* States have no content before `init` has run, and it overwrites them. */
static enum st_status
check_captured(stretto_session *s)
{
	return s->captured ? ST_OK
			   : st_error(&s->diag, ST_EUSAGE, st_no_loc(),
				      "states are read and written after "
				      "stretto_capture");
}

/* The index of a state of that size. */
static enum st_status
find_state(stretto_session *s, const char *name, const void *data,
	   size_t bytes, uint32_t *state)
{
	ST_TRY(check_captured(s));
	if (!name || !data)
		return st_error(&s->diag, ST_EUSAGE, st_no_loc(),
				"the %s of the state is NULL",
				name ? "memory" : "name");
	for (uint32_t i = 0; i < s->module->states.count; i++) {
		uint32_t value = s->module->states.at[i].value;
		const struct st_type *type = st_value_type(s->module, value);
		size_t want = (size_t)st_type_elements(type) *
			      st_dtype_size(type->dtype);

		if (strcmp(st_value_name(s->module, value), name) != 0)
			continue;
		*state = i;
		return bytes == want
			       ? ST_OK
			       : st_error(&s->diag, ST_EUSAGE, st_no_loc(),
					  "'%s' has %zu bytes, %zu given",
					  name, want, bytes);
	}
	return st_error(&s->diag, ST_EUSAGE, st_no_loc(),
			"the plan has no state '%s'", name);
}

int
stretto_read(stretto_session *s, const char *name, void *data, size_t bytes)
{
	enum st_status status;
	uint32_t state;

	if (!s)
		return is_null("stretto_read", "session");
	status = find_state(s, name, data, bytes, &state);
	if (status == ST_OK)
		status = st_session_read_state(s->session, state, data);
	return finish(&s->diag, status);
}

int
stretto_write(stretto_session *s, const char *name, const void *data,
	      size_t bytes)
{
	enum st_status status;
	uint32_t state;

	if (!s)
		return is_null("stretto_write", "session");
	status = find_state(s, name, data, bytes, &state);
	if (status == ST_OK)
		status = st_session_write_state(s->session, state, data);
	return finish(&s->diag, status);
}

typedef enum st_status weights_fn(struct st_session *session,
				  struct st_arena *arena, struct st_diag *diag,
				  const struct st_module *module,
				  const char *path);

/* What is allocated on the way goes with the call: the header of a file, its
 * name, messages. */
static int
weights(stretto_session *s, const char *path, weights_fn *run)
{
	enum st_status status = check_captured(s);
	struct st_arena scratch;
	struct st_diag diag;
	int code;

	if (status == ST_OK && !path)
		status = st_error(&s->diag, ST_EUSAGE, st_no_loc(),
				  "the path is NULL");
	if (status != ST_OK)
		return finish(&s->diag, status);
	st_arena_init(&scratch, NULL);
	st_diag_init(&diag, &scratch);
	if (st_diag_share_sources(&diag, &s->diag))
		status = run(s->session, &scratch, &diag, s->module, path);
	else
		status = st_error_memory(&diag);
	/* The session has a diag of its own, and so may have the reason. */
	code = finish(diag.count ? &diag : &s->diag, status);
	s->diag.count = 0;
	st_arena_finish(&scratch);
	return code;
}

int
stretto_load_weights(stretto_session *s, const char *path)
{
	if (!s)
		return is_null("stretto_load_weights", "session");
	return weights(s, path, st_weights_load);
}

int
stretto_save_weights(stretto_session *s, const char *path)
{
	if (!s)
		return is_null("stretto_save_weights", "session");
	return weights(s, path, st_weights_save);
}
