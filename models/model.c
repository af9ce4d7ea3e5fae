/* Loading a net, and telling what was loaded. */

#include "models/net.h"

#include <math.h>
#include <string.h>

enum st_status
st_model_load(struct st_arena *arena, struct st_diag *diag,
	      struct st_names *names, const struct st_model_source *source,
	      struct st_model **out)
{
	struct st_model *model = st_arena_alloc(arena, sizeof(*model));
	enum st_status settings;

	*out = NULL;
	if (!model)
		return st_error_memory(diag);
	model->arena = arena;
	model->diag = diag;
	model->names = names;
	model->path =
		st_arena_strndup(arena, source->path, strlen(source->path));
	model->search = source->search;
	if (!model->path)
		return st_error_memory(diag);
	ST_TRY(st_net_read(model, source));
	settings = st_settings_read(model);
	ST_TRY(st_family_read(model));
	ST_TRY(settings);
	ST_TRY(st_settings_take_dtype(model));
	ST_TRY(st_plan_check(model));
	if (arena->failed)
		return st_error_memory(diag);
	*out = model;
	return ST_OK;
}

void
st_model_training(const struct st_model *model,
		  struct st_model_training *training)
{
	const struct st_setting_value *s = model->settings;

	training->seq_len = s[ST_SET_seq_len].i;
	training->micro_batch_size = s[ST_SET_micro_batch_size].i;
	training->micro_batches = model->micro_batches;
	training->global_batch_size = s[ST_SET_global_batch_size].i;
	training->steps = s[ST_SET_steps].set ? s[ST_SET_steps].i : 0;
	training->vocab_size = model->vocab_size;
	training->seed = s[ST_SET_seed].i;
	training->data = s[ST_SET_data].set ? s[ST_SET_data].s : "";
	training->device = s[ST_SET_device].set ? s[ST_SET_device].s : "";
}

/* ---- printing ---- */

/* "  # nets/x.yaml:3"; a hostile name may not end the comment. */
void
st_model_print_origin(const struct st_model *model, struct st_buffer *out,
		      const struct st_yaml *from)
{
	const struct st_source *source;

	st_buffer_puts(out, "  # ");
	if (!from || from->loc.source == 0) {
		st_buffer_puts(out, "default\n");
		return;
	}
	source = &model->diag->sources[from->loc.source];
	for (const char *at = source->name; *at; at++) {
		char c = (unsigned char)*at < ' ' || *at == 127 ? '?' : *at;

		st_buffer_add(out, &c, 1);
	}
	if (strcmp(source->name, "--set") != 0)
		st_buffer_printf(out, ":%u", from->loc.line);
	st_buffer_puts(out, "\n");
}

/* A number as an integer where it is one and was not written as a float. */
static void
print_number(struct st_buffer *out, double value, int real)
{
	if (!real && value == floor(value) && fabs(value) < 0x1p53)
		st_buffer_printf(out, "%.0f", value);
	else
		st_buffer_double(out, value);
}

static void
print_key(const struct st_model *model, struct st_buffer *out,
	  const struct st_model_key *key)
{
	const struct st_yaml *node = key->stated;
	double value;

	if (!node)
		node = key->otherwise;
	st_buffer_printf(out, "  %s: ", key->name);
	if (node->kind == ST_YAML_INT || node->kind == ST_YAML_FLOAT)
		print_number(out, node->f, node->kind == ST_YAML_FLOAT);
	else if (!key->stated && node->kind == ST_YAML_STRING &&
		 st_expr_is_one(model, node->text) &&
		 st_expr_number(model, node, key->name, -HUGE_VAL, HUGE_VAL,
				&value) == ST_OK)
		print_number(out, value, 0);
	else
		st_yaml_print(out, node);
	st_model_print_origin(model, out, key->stated);
}

static void
print_model(const struct st_model *model, struct st_buffer *out)
{
	const struct st_yaml *keys = st_yaml_get(model->root, "model");
	const struct st_yaml *type = st_yaml_get(keys, "model_type");

	st_buffer_puts(out, model->keys.count || type ? "model:\n"
						      : "model: null\n");
	if (type) {
		st_buffer_puts(out, "  model_type: ");
		st_yaml_print(out, type);
		st_model_print_origin(model, out, type);
	}
	for (size_t i = 0; i < model->keys.count; i++)
		if (!model->keys.at[i].derived)
			print_key(model, out, &model->keys.at[i]);
	if (model->family)
		return;
	st_buffer_puts(out, "layers:\n");
	for (size_t i = 0; i < model->layers->count; i++) {
		st_buffer_puts(out, "  - ");
		st_yaml_print(out, model->layers->items[i].value);
		st_buffer_puts(out, "\n");
	}
}

void
st_model_print(const struct st_model *model, struct st_buffer *out)
{
	st_buffer_puts(out, "stretto: 1\n");
	print_model(model, out);
	st_settings_print(model, out);
}

const char *
st_model_machine(const struct st_model *model)
{
	const char *name = model->settings[ST_SET_machine].s;

	return name ? name : "";
}
