/* Families: which keys `model` may hold, and the list of layers. */

#include "models/net.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST_NAME = 128 };

struct family {
	struct st_model *model;
	const struct st_yaml *tree;
	const struct st_yaml *aliases, *only, *ignored;
};

/* Keys of config.json that change nothing in the graph, between blanks. */
static const char not_graph[] =
	" _attn_implementation _name_or_path architectures"
	" bad_words_ids begin_suppress_tokens bos_token_id"
	" chunk_size_feed_forward cls_token_id decoder_start_token_id"
	" diversity_penalty do_sample early_stopping"
	" encoder_no_repeat_ngram_size eos_token_id"
	" exponential_decay_length_penalty finetuning_task"
	" forced_bos_token_id forced_eos_token_id"
	" gradient_checkpointing id2label label2id length_penalty"
	" mask_token_id max_length min_length no_repeat_ngram_size"
	" num_beam_groups num_beams num_labels num_return_sequences"
	" output_attentions output_hidden_states output_past"
	" output_scores pad_token_id prefix problem_type"
	" remove_invalid_values repetition_penalty return_dict"
	" return_dict_in_generate sep_token_id suppress_tokens"
	" task_specific_params temperature tf_legacy_loss"
	" tokenizer_class top_k top_p torchscript transformers_version"
	" typical_p unk_token_id use_bfloat16 use_cache ";

static enum st_status
fail(const struct family *f, struct st_loc loc, const char *what,
     const char *name)
{
	return st_error(f->model->diag, ST_EINPUT, loc, "%s%s", what, name);
}

struct st_model_key *
st_family_key(const struct st_model *model, const char *name, size_t length)
{
	for (size_t i = 0; length && i < model->keys.count; i++) {
		struct st_model_key *key = &model->keys.at[i];

		if (strlen(key->name) == length &&
		    memcmp(key->name, name, length) == 0)
			return key;
	}
	return NULL;
}

static struct st_model_key *
find_key(const struct family *f, const char *path)
{
	const struct st_yaml *target = st_yaml_get(f->aliases, path);
	struct st_model_key *key;

	if (target)
		path = target->text;
	key = st_family_key(f->model, path, strlen(path));
	return key && !key->derived ? key : NULL;
}

static enum st_status
add_key(const struct family *f, const struct st_model_key *key)
{
	struct st_keys *keys = &f->model->keys;
	struct st_model_key *grown =
		st_arena_grow(f->model->arena, keys->at, keys->count,
			      &keys->capacity, keys->count + 1, sizeof(*grown));

	if (!grown)
		return st_error_memory(f->model->diag);
	keys->at = grown;
	grown[keys->count++] = *key;
	return ST_OK;
}

/* A section of the family file as declarations. */
static enum st_status
declare(const struct family *f, const char *section, int derived)
{
	const struct st_yaml *map = st_yaml_get(f->tree, section);

	for (size_t i = 0; map && i < map->count; i++) {
		const struct st_yaml_item *item = &map->items[i];
		struct st_model_key key = {.name = item->key,
					   .otherwise = item->value,
					   .declared = item->loc,
					   .derived = derived};

		if (strcmp(item->value->text, "required") == 0 && !derived)
			key.otherwise = NULL;
		ST_TRY(add_key(f, &key));
	}
	return ST_OK;
}

static int
is_listed(const struct family *f, const char *name)
{
	size_t length = strlen(name);
	const char *at = length ? strstr(not_graph, name) : NULL;

	while (at && (at[-1] != ' ' || at[length] != ' '))
		at = strstr(at + 1, name);
	if (at && !strchr(name, ' '))
		return 1;
	for (size_t i = 0; f->ignored && i < f->ignored->count; i++)
		if (strcmp(f->ignored->items[i].value->text, name) == 0)
			return 1;
	return 0;
}

static int
has_group(const struct st_yaml *map, const char *path)
{
	size_t length = strlen(path);

	for (size_t i = 0; map && i < map->count; i++)
		if (strncmp(map->items[i].key, path, length) == 0 &&
		    map->items[i].key[length] == '.')
			return 1;
	return 0;
}

static enum st_status
fail_unknown(const struct family *f, const char *path, struct st_loc loc)
{
	size_t n = 0, most = f->model->keys.count + 2;
	const char **list;

	most += f->aliases ? f->aliases->count : 0;
	most += f->only ? f->only->count : 0;
	list = st_arena_array(f->model->arena, most, sizeof(*list));
	if (!list)
		return st_error_memory(f->model->diag);
	for (size_t i = 0; i < f->model->keys.count; i++)
		if (!f->model->keys.at[i].derived)
			list[n++] = f->model->keys.at[i].name;
	for (size_t i = 0; f->aliases && i < f->aliases->count; i++)
		list[n++] = f->aliases->items[i].key;
	for (size_t i = 0; f->only && i < f->only->count; i++)
		list[n++] = f->only->items[i].key;
	list[n] = NULL;
	return st_net_unknown(f->model->diag, loc, "key", path, list);
}

/* A key that only one value is built for; not stating it is that value. */
static enum st_status
check_only(const struct family *f, const char *path, const struct st_yaml *want,
	   const struct st_yaml *node)
{
	int numbers = node->kind == ST_YAML_INT || node->kind == ST_YAML_FLOAT;
	int same = numbers && (want->kind == ST_YAML_INT ||
			       want->kind == ST_YAML_FLOAT)
			   ? node->f == want->f
			   : node->kind == want->kind &&
				     strcmp(node->text, want->text) == 0;
	const char *only = want->text[0] ? want->text : "null";

	if (node->kind == ST_YAML_NULL || same)
		return ST_OK;
	return st_error(f->model->diag, ST_EINPUT, node->loc,
			"%s%s%s is not supported, only %s: it would change "
			"the mathematics (--set model.%s=%s overrides it)",
			path, node->text[0] ? " " : "", node->text, only, path,
			only);
}

static enum st_status
state_key(const struct family *f, struct st_model_key *key, const char *path,
	  const struct st_yaml_item *item)
{
	const struct st_yaml *node = item->value, *old = key->stated;

	if (node->kind == ST_YAML_NULL)
		return ST_OK;
	if (node->kind == ST_YAML_LIST || node->kind == ST_YAML_MAP)
		return st_error(f->model->diag, ST_EINPUT, node->loc,
				"%s: want a single value, not %s", key->name,
				st_yaml_kind_name(node->kind));
	if (old && old->level == node->level) {
		st_error(f->model->diag, ST_EINPUT, item->loc,
			 "'%s' is given already, under another name: '%s' is "
			 "the same",
			 key->name, path);
		st_note(f->model->diag, old->loc, "the other one");
		return ST_EINPUT;
	}
	if (!old || old->level < node->level)
		key->stated = node;
	return ST_OK;
}

static enum st_status read_keys(const struct family *f, const char *group,
				const struct st_yaml *map);

static enum st_status
read_key(const struct family *f, const char *group, const char *path,
	 const struct st_yaml_item *item)
{
	struct st_model_key *key = find_key(f, path);
	const struct st_yaml *only = st_yaml_get(f->only, path);
	const struct st_yaml *around = st_yaml_get(f->only, group);

	if (item->value->kind == ST_YAML_MAP &&
	    (has_group(f->aliases, path) || has_group(f->only, path)))
		return read_keys(f, path, item->value);
	if (key)
		return state_key(f, key, path, item);
	if (only)
		return check_only(f, path, only, item->value);
	if (is_listed(f, path) ||
	    (strcmp(path, "pruned_heads") == 0 && item->value->count == 0))
		return ST_OK;
	if (around)
		return st_error(f->model->diag, ST_EINPUT, item->loc,
				"%s: %s is not supported, only %s", path, group,
				around->text[0] ? around->text : "null");
	return fail_unknown(f, path, item->loc);
}

/* A net with layers of its own may call its numbers as it likes. */
static enum st_status
read_own_key(const struct family *f, const struct st_yaml_item *item)
{
	struct st_model_key key = {.name = item->key,
				   .stated = item->value,
				   .declared = item->loc};

	if (item->value->kind >= ST_YAML_LIST ||
	    item->value->kind == ST_YAML_NULL)
		return st_error(f->model->diag, ST_EINPUT, item->value->loc,
				"%s: want a single value, not %s", item->key,
				st_yaml_kind_name(item->value->kind));
	return add_key(f, &key);
}

/* Goes on after an error, so that one run shows them all. */
static enum st_status
read_keys(const struct family *f, const char *group, const struct st_yaml *map)
{
	enum st_status first = ST_OK;

	for (size_t i = 0; i < map->count; i++) {
		const struct st_yaml_item *item = &map->items[i];
		int eras = strcmp(item->key, "dtype") == 0 ||
			   strcmp(item->key, "torch_dtype") == 0;
		enum st_status status = ST_OK;
		const char *path = item->key;

		if (group[0])
			path = st_arena_printf(f->model->arena, "%s.%s", group,
					       item->key);
		if (!path)
			return st_error_memory(f->model->diag);
		if (eras && item->value->kind != ST_YAML_NULL)
			f->model->dtype = item->value;
		else if (!eras && strcmp(path, "model_type") != 0)
			status = f->tree ? read_key(f, group, path, item)
					 : read_own_key(f, item);
		if (first == ST_OK)
			first = status;
	}
	return first;
}

static enum st_status
check_required(const struct family *f)
{
	for (size_t i = 0; i < f->model->keys.count; i++) {
		const struct st_model_key *key = &f->model->keys.at[i];
		const char *also = NULL;

		if (key->stated || key->otherwise)
			continue;
		for (size_t a = 0; f->aliases && a < f->aliases->count; a++)
			if (strcmp(f->aliases->items[a].value->text,
				   key->name) == 0)
				also = f->aliases->items[a].key;
		return st_error(f->model->diag, ST_EINPUT, f->model->model_loc,
				"model: key '%s' is missing%s%s%s", key->name,
				also ? " (or '" : "", also ? also : "",
				also ? "')" : "");
	}
	return ST_OK;
}

/* ---- the file ---- */

static const char *
try_directory(const struct family *f, const char *dir, const char *name)
{
	const char *path =
		st_arena_printf(f->model->arena, "%s/%s.yaml", dir, name);

	return path && access(path, R_OK) == 0 ? path : NULL;
}

static const char *
find_file(const struct family *f, const char *name)
{
	const char *const *search = f->model->search;
	const char *beside =
		st_net_beside(f->model->arena, f->model->path, "../families");
	const char *path = beside ? try_directory(f, beside, name) : NULL;

	for (; !path && search && *search; search++)
		path = try_directory(f, *search, name);
	return path;
}

/* Where it was looked for, and what may have been meant. */
static enum st_status
unknown_family(const struct family *f, const struct st_yaml *type)
{
	struct st_arena *arena = f->model->arena;
	const char *near = st_net_nearest(
		arena, type->text,
		st_net_beside(arena, f->model->path, "../families"), NULL);
	struct st_buffer places;

	st_buffer_init(&places, arena);
	st_buffer_puts(&places, "../families beside the net");
	for (const char *const *at = f->model->search; at && *at; at++) {
		st_buffer_printf(&places, ", %s", *at);
		near = st_net_nearest(arena, type->text, *at, near);
	}
	if (arena->failed)
		return st_error_memory(f->model->diag);
	return st_error(f->model->diag, ST_EINPUT, type->loc,
			"no family '%s': there is no %s.yaml in %s%s%s%s",
			type->text, type->text, places.text,
			near ? "; did you mean '" : "", near ? near : "",
			near ? "'?" : "");
}

static enum st_status
section(const struct family *f, const char *name, enum st_yaml_kind kind,
	const struct st_yaml **out)
{
	*out = st_yaml_get(f->tree, name);
	if (*out && (*out)->kind != kind)
		return st_error(f->model->diag, ST_EINPUT, (*out)->loc,
				"%s: want %s", name, st_yaml_kind_name(kind));
	return ST_OK;
}

static enum st_status
check_sections(const struct family *f)
{
	static const char *const sections[] = {
		"family",  "keys", "aliases", "only", "ignored",
		"longest", "let",  "layers",  NULL,
	};

	for (size_t i = 0; i < f->tree->count; i++) {
		size_t s = 0;

		while (sections[s] &&
		       strcmp(sections[s], f->tree->items[i].key) != 0)
			s++;
		if (!sections[s])
			return st_net_unknown(f->model->diag,
					      f->tree->items[i].loc, "section",
					      f->tree->items[i].key, sections);
	}
	return ST_OK;
}

static enum st_status
read_tree(struct family *f)
{
	const struct st_yaml *unused;

	if (!f->tree || f->tree->kind != ST_YAML_MAP)
		return fail(f, f->tree ? f->tree->loc : st_no_loc(),
			    "a family file must be a mapping", "");
	ST_TRY(check_sections(f));
	ST_TRY(section(f, "keys", ST_YAML_MAP, &unused));
	ST_TRY(section(f, "let", ST_YAML_MAP, &unused));
	ST_TRY(section(f, "aliases", ST_YAML_MAP, &f->aliases));
	ST_TRY(section(f, "only", ST_YAML_MAP, &f->only));
	ST_TRY(section(f, "ignored", ST_YAML_LIST, &f->ignored));
	ST_TRY(section(f, "layers", ST_YAML_LIST, &f->model->layers));
	if (!f->model->layers)
		return fail(f, f->tree->loc, "the family has no layers", "");
	ST_TRY(declare(f, "keys", 0));
	return declare(f, "let", 1);
}

static enum st_status
read_file(struct family *f, const struct st_yaml *type)
{
	struct st_yaml *tree;
	const char *path;

	if (!type)
		return st_error(f->model->diag, ST_EINPUT, f->model->model_loc,
				"the net needs model.model_type or a list of "
				"layers");
	if (type->kind != ST_YAML_STRING || strchr(type->text, '/') ||
	    type->text[0] == '.' || strlen(type->text) > LONGEST_NAME)
		return fail(f, type->loc, "model_type: want a name", "");
	path = find_file(f, type->text);
	if (!path)
		return unknown_family(f, type);
	ST_TRY(st_yaml_read(f->model->arena, f->model->diag, path, type->loc,
			    &tree));
	f->tree = tree;
	f->model->family = type->text;
	return read_tree(f);
}

/* A misspelt key of a net with its own layers is one that no layer reads. */
static enum st_status
check_used(const struct family *f)
{
	st_expr_mark(f->model, f->model->layers);
	for (size_t i = 0; i < f->model->keys.count; i++)
		if (!f->model->keys.at[i].used)
			return fail(f, f->model->keys.at[i].declared,
				    "no layer reads the key ",
				    f->model->keys.at[i].name);
	return ST_OK;
}

static void
check_longest(const struct family *f)
{
	const struct st_yaml *longest = st_yaml_get(f->tree, "longest");
	int64_t seq = f->model->settings[ST_SET_seq_len].i, most;

	if (longest &&
	    st_expr_count(f->model, longest, "longest", &most) == ST_OK &&
	    seq > most)
		st_warn(f->model->diag,
			st_setting_loc(f->model, ST_SET_seq_len),
			"seq_len %lld is longer than %s %lld", (long long)seq,
			longest->text, (long long)most);
}

enum st_status
st_family_read(struct st_model *model)
{
	struct family f = {.model = model};
	const struct st_yaml *keys = st_yaml_get(model->root, "model");
	const struct st_yaml *own = st_yaml_get(model->root, "layers");

	if (keys && keys->kind == ST_YAML_NULL)
		keys = NULL;
	if (keys && keys->kind != ST_YAML_MAP)
		return fail(&f, keys->loc, "model: want a mapping, not ",
			    st_yaml_kind_name(keys->kind));
	model->layers = own;
	if (!own)
		ST_TRY(read_file(&f, st_yaml_get(keys, "model_type")));
	if (keys)
		ST_TRY(read_keys(&f, "", keys));
	ST_TRY(st_layers_check(model));
	if (own)
		ST_TRY(check_used(&f));
	ST_TRY(check_required(&f));
	check_longest(&f);
	return st_layers_vocabulary(model);
}
