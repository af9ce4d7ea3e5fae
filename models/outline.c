/* Lists of layers: is every one of them complete and well spelt? */

#include "models/net.h"

#include <string.h>

enum { LONGEST_NAME = 128 };

static enum st_status
fail(struct st_model *model, struct st_loc loc, const char *what,
     const char *name)
{
	return st_error(model->diag, ST_EINPUT, loc, "%s%s", what, name);
}

struct kind {
	const char *name, *required, *optional;
};

static const struct kind kinds[] = {
#define LAYER(name, required, optional) {#name, required, optional},
#include "models/layers.def"
};

enum {
#define LAYER(name, ...) KIND_##name,
#include "models/layers.def"
	KINDS
};

const struct st_yaml_item *
st_layer_kind(const struct st_yaml *layer, int *kind)
{
	for (*kind = 0; *kind < KINDS; (*kind)++) {
		const struct st_yaml_item *item =
			st_yaml_find(layer, kinds[*kind].name);

		if (item)
			return item;
	}
	return NULL;
}

static int
has_word(const char *words, const char *word)
{
	size_t length = strlen(word);
	const char *at = length ? strstr(words, word) : NULL;

	while (at && ((at != words && at[-1] != ' ') ||
		      (at[length] != ' ' && at[length] != '\0')))
		at = strstr(at + 1, word);
	return at != NULL;
}

/* Words of two lists as an array for "did you mean". */
static enum st_status
fail_argument(struct st_model *model, const struct kind *kind,
	      const struct st_yaml_item *item)
{
	const char *both[] = {kind->required, kind->optional};
	const char *list[16];
	size_t n = 0;

	for (int i = 0; i < 2; i++)
		for (const char *at = both[i]; *at;) {
			size_t length = strcspn(at, " ");

			list[n] = st_arena_strndup(model->arena, at, length);
			if (!list[n++])
				return st_error_memory(model->diag);
			at += length + (at[length] == ' ');
		}
	list[n] = NULL;
	return st_net_unknown(model->diag, item->loc, "argument of a layer",
			      item->key, list);
}

static enum st_status
check_name(struct st_model *model, const struct st_yaml *node)
{
	const char *text = node->text;
	size_t length = strlen(text);

	if (node->kind == ST_YAML_STRING && length && length <= LONGEST_NAME &&
	    strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			 "0123456789_.") == length &&
	    !strchr("0123456789.", text[0]))
		return ST_OK;
	return fail(model, node->loc,
		    "a name must begin with a letter and hold letters, "
		    "digits, '_' and '.' only",
		    "");
}

static enum st_status check_layers(struct st_model *model,
				   const struct st_yaml *list, int depth);

static enum st_status
check_arguments(struct st_model *model, const struct kind *kind,
		const struct st_yaml *layer, struct st_loc loc)
{
	for (size_t i = 0; i < layer->count; i++) {
		const struct st_yaml_item *item = &layer->items[i];

		if (strcmp(item->key, kind->name) != 0 &&
		    !has_word(kind->required, item->key) &&
		    !has_word(kind->optional, item->key))
			return fail_argument(model, kind, item);
		if (item->value->kind == ST_YAML_NULL)
			return fail(model, item->loc, "no value for ",
				    item->key);
		if (strcmp(item->key, "name") == 0 ||
		    strcmp(item->key, "param") == 0 ||
		    strcmp(item->key, "tied_to") == 0)
			ST_TRY(check_name(model, item->value));
	}
	for (const char *at = kind->required; *at;) {
		size_t length = strcspn(at, " ");
		const char *word = st_arena_strndup(model->arena, at, length);

		if (!word)
			return st_error_memory(model->diag);
		if (!st_yaml_find(layer, word))
			return st_error(model->diag, ST_EINPUT, loc,
					"%s: argument '%s' is missing",
					kind->name, word);
		at += length + (at[length] == ' ');
	}
	return ST_OK;
}

static enum st_status
fail_kind(struct st_model *model, const struct st_yaml *layer)
{
	const char *list[KINDS + 1];

	for (int i = 0; i < KINDS; i++)
		list[i] = kinds[i].name;
	list[KINDS] = NULL;
	if (layer->count == 0)
		return fail(model, layer->loc, "the layer says no kind", "");
	return st_net_unknown(model->diag, layer->items[0].loc, "kind of layer",
			      layer->items[0].key, list);
}

static enum st_status
check_layer(struct st_model *model, const struct st_yaml *layer, int depth,
	    int last)
{
	const struct st_yaml_item *item;
	int kind;

	if (layer->kind != ST_YAML_MAP)
		return fail(model, layer->loc,
			    "a layer is a mapping, such as {rmsnorm: norm, "
			    "...}, not ",
			    st_yaml_kind_name(layer->kind));
	item = st_layer_kind(layer, &kind);
	if (!item)
		return fail_kind(model, layer);
	ST_TRY(check_arguments(model, &kinds[kind], layer, item->loc));
	if (kind != KIND_repeat)
		ST_TRY(check_name(model, item->value));
	if ((kind == KIND_cross_entropy) != (depth == 0 && last))
		return fail(model, item->loc,
			    "layers end with cross_entropy, and have it "
			    "nowhere else",
			    "");
	if (kind == KIND_repeat || kind == KIND_residual)
		return check_layers(model, st_yaml_get(layer, "layers"),
				    depth + 1);
	return ST_OK;
}

static enum st_status
check_layers(struct st_model *model, const struct st_yaml *list, int depth)
{
	if (list->kind != ST_YAML_LIST || list->count == 0)
		return fail(model, list->loc, "layers: want a list of layers",
			    "");
	for (size_t i = 0; i < list->count; i++)
		ST_TRY(check_layer(model, list->items[i].value, depth,
				   i + 1 == list->count));
	return ST_OK;
}

/* Rows of the first embedding. */
static const struct st_yaml *
find_rows(const struct st_yaml *list)
{
	const struct st_yaml *rows = NULL;

	for (size_t i = 0; list && !rows && i < list->count; i++) {
		const struct st_yaml *layer = list->items[i].value;

		rows = st_yaml_find(layer, "embedding")
			       ? st_yaml_get(layer, "rows")
			       : find_rows(st_yaml_get(layer, "layers"));
	}
	return rows;
}

enum st_status
st_layers_check(struct st_model *model)
{
	const struct st_yaml *rows;

	ST_TRY(check_layers(model, model->layers, 0));
	rows = find_rows(model->layers);
	if (!rows)
		return fail(model, model->layers->loc,
			    "layers: there is no embedding", "");
	return ST_OK;
}

enum st_status
st_layers_vocabulary(struct st_model *model)
{
	return st_expr_count(model, find_rows(model->layers), "rows",
			     &model->vocab_size);
}
