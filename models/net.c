/* Includes, --set and hf_config: several texts become one tree. */

#include "models/net.h"

#include <dirent.h>
#include <string.h>

enum { MAX_INCLUDES = 8 };

struct merger {
	struct st_model *model;
	int level; /* of the text that is being read */
};

const char *
st_net_beside(struct st_arena *arena, const char *file, const char *path)
{
	const char *slash = strrchr(file, '/');

	if (path[0] == '/' || !slash)
		return path;
	return st_arena_printf(arena, "%.*s/%s", (int)(slash - file), file,
			       path);
}

/* Of equal ones the first by name: folders have no order. */
static const char *
nearer(const char *word, const char *a, const char *b)
{
	const char *list[3] = {a ? a : b, a ? b : NULL, NULL};

	if (!b)
		return a;
	if (a && strcmp(b, a) < 0) {
		list[0] = b;
		list[1] = a;
	}
	return st_nearest(word, list);
}

const char *
st_net_nearest(struct st_arena *arena, const char *word, const char *folder,
	       const char *best)
{
	DIR *dir = folder ? opendir(folder) : NULL;
	const struct dirent *entry;

	while (dir && (entry = readdir(dir)) != NULL) {
		size_t length = strlen(entry->d_name);

		if (length > 5 &&
		    strcmp(entry->d_name + length - 5, ".yaml") == 0)
			best = nearer(word, best,
				      st_arena_strndup(arena, entry->d_name,
						       length - 5));
	}
	if (dir)
		closedir(dir);
	return best;
}

enum st_status
st_net_unknown(struct st_diag *diag, struct st_loc loc, const char *what,
	       const char *word, const char *const *list)
{
	const char *near = st_nearest(word, list);

	if (near)
		return st_error(diag, ST_EINPUT, loc,
				"unknown %s '%s'; did you mean '%s'?", what,
				word, near);
	return st_error(diag, ST_EINPUT, loc, "unknown %s '%s'", what, word);
}

static void
stamp(struct st_yaml *node, int level)
{
	node->level = level;
	for (size_t i = 0; i < node->count; i++)
		stamp(node->items[i].value, level);
}

/* Puts one value over another; mappings are joined key by key. */
static enum st_status
put(struct merger *m, struct st_yaml *base, const struct st_yaml_item *item)
{
	struct st_yaml_item *old = st_yaml_find(base, item->key);

	if (!old) {
		if (st_yaml_add(m->model->arena, base, item))
			return st_error_memory(m->model->diag);
		return ST_OK;
	}
	if (old->value->kind != ST_YAML_MAP ||
	    item->value->kind != ST_YAML_MAP) {
		old->value = item->value;
		old->loc = item->loc;
		return ST_OK;
	}
	for (size_t i = 0; i < item->value->count; i++)
		ST_TRY(put(m, old->value, &item->value->items[i]));
	return ST_OK;
}

static enum st_status read_file(struct merger *m, const char *path,
				struct st_loc from, int depth,
				struct st_yaml *base);

static enum st_status
include_one(struct merger *m, const char *path, const struct st_yaml *name,
	    int depth, struct st_yaml *base)
{
	if (name->kind != ST_YAML_STRING)
		return st_error(m->model->diag, ST_EINPUT, name->loc,
				"include: want a path or a list of paths");
	if (depth >= MAX_INCLUDES)
		return st_error(m->model->diag, ST_EINPUT, name->loc,
				"include: nested too deeply");
	path = st_net_beside(m->model->arena, path, name->text);
	if (!path)
		return st_error_memory(m->model->diag);
	return read_file(m, path, name->loc, depth + 1, base);
}

static enum st_status
include(struct merger *m, const char *path, const struct st_yaml *names,
	int depth, struct st_yaml *base)
{
	if (!names || names->kind == ST_YAML_NULL)
		return ST_OK;
	if (names->kind != ST_YAML_LIST)
		return include_one(m, path, names, depth, base);
	for (size_t i = 0; i < names->count; i++)
		ST_TRY(include_one(m, path, names->items[i].value, depth,
				   base));
	return ST_OK;
}

/* What a text says goes over what it includes. */
static enum st_status
take(struct merger *m, const char *path, struct st_yaml *tree, int depth,
     struct st_yaml *base)
{
	ST_TRY(include(m, path, st_yaml_get(tree, "include"), depth, base));
	stamp(tree, ++m->level);
	for (size_t i = 0; i < tree->count; i++)
		if (strcmp(tree->items[i].key, "include") != 0)
			ST_TRY(put(m, base, &tree->items[i]));
	return ST_OK;
}

static enum st_status
want_map(struct merger *m, const struct st_yaml *tree, struct st_loc loc)
{
	if (tree && tree->kind == ST_YAML_MAP)
		return ST_OK;
	return st_error(m->model->diag, ST_EINPUT, tree ? tree->loc : loc,
			"want a mapping of keys to values");
}

static enum st_status
read_file(struct merger *m, const char *path, struct st_loc from, int depth,
	  struct st_yaml *base)
{
	struct st_yaml *tree;

	ST_TRY(st_yaml_read(m->model->arena, m->model->diag, path, from,
			    &tree));
	ST_TRY(want_map(m, tree, from));
	return take(m, path, tree, depth, base);
}

static enum st_status
read_net(struct merger *m, const struct st_model_source *source,
	 struct st_yaml *base)
{
	struct st_model *model = m->model;
	struct st_loc loc = {0, 1, 1, 0, 0};
	struct st_yaml *tree;

	if (source->text) {
		loc.source = st_diag_add_source(model->diag, source->path,
						source->text, source->length);
		if (!loc.source)
			return st_error_memory(model->diag);
		ST_TRY(st_yaml_parse(model->arena, model->diag, loc.source, 0,
				     &tree));
	} else {
		ST_TRY(st_yaml_read(model->arena, model->diag, source->path,
				    st_no_loc(), &tree));
		loc.source = (uint32_t)model->diag->source_count - 1;
	}
	model->root_loc = loc;
	ST_TRY(want_map(m, tree, loc));
	return take(m, source->path, tree, 0, base);
}

/* Wraps a value into mappings: "a.b" and 3 give {a: {b: 3}}. */
static enum st_status
wrap(struct merger *m, const char *path, size_t length, struct st_loc loc,
     struct st_yaml *value, struct st_yaml_item *out)
{
	const char *dot = memchr(path, '.', length);
	size_t first = dot ? (size_t)(dot - path) : length;
	struct st_yaml_item inner;

	if (first == 0 || first + 1 == length)
		return st_error(m->model->diag, ST_EINPUT, loc,
				"want KEY.KEY=VALUE");
	out->key = st_arena_strndup(m->model->arena, path, first);
	out->loc = loc;
	out->value = value;
	if (!out->key)
		return st_error_memory(m->model->diag);
	if (!dot)
		return ST_OK;
	loc.column += (uint32_t)first + 1;
	loc.length -= (uint32_t)first + 1;
	ST_TRY(wrap(m, dot + 1, length - first - 1, loc, value, &inner));
	out->value = st_arena_alloc(m->model->arena, sizeof(*out->value));
	if (!out->value || st_yaml_add(m->model->arena, out->value, &inner))
		return st_error_memory(m->model->diag);
	out->value->kind = ST_YAML_MAP;
	out->value->text = "";
	out->value->loc = loc;
	return ST_OK;
}

static enum st_status
read_set(struct merger *m, const char *text, struct st_yaml *base)
{
	struct st_model *model = m->model;
	size_t length = strcspn(text, "="), all = strlen(text);
	struct st_loc loc = {0, 1, 1, (uint32_t)length, 0};
	struct st_yaml_item item;
	struct st_yaml *value;

	loc.source = st_diag_add_source(model->diag, "--set", text, all);
	if (!loc.source)
		return st_error_memory(model->diag);
	if (length == all)
		return st_error(model->diag, ST_EINPUT, loc,
				"want KEY.KEY=VALUE");
	if (memchr(text, '\n', length))
		return st_error(model->diag, ST_EINPUT, loc,
				"a key holds a line break");
	ST_TRY(st_yaml_parse(model->arena, model->diag, loc.source, length + 1,
			     &value));
	if (!value)
		value = st_yaml_plain(model->arena, "");
	if (!value)
		return st_error_memory(model->diag);
	ST_TRY(wrap(m, text, length, loc, value, &item));
	if (strcmp(item.key, "include") == 0)
		return st_error(model->diag, ST_EINPUT, loc,
				"include: only a file can include another");
	stamp(item.value, ++m->level);
	return put(m, base, &item);
}

/* The keys of an unmodified config.json go under those of `model`. */
static enum st_status
read_hf_config(struct merger *m, struct st_yaml *root)
{
	struct st_model *model = m->model;
	struct st_yaml_item *own = st_yaml_find(root, "model");
	struct st_yaml *path, *tree;
	const char *file;

	if (!own || own->value->kind != ST_YAML_MAP)
		return ST_OK;
	path = st_yaml_get(own->value, "hf_config");
	if (!path || path->kind == ST_YAML_NULL)
		return ST_OK;
	if (path->kind != ST_YAML_STRING)
		return st_error(model->diag, ST_EINPUT, path->loc,
				"hf_config: want a path");
	file = st_net_beside(model->arena, model->path, path->text);
	if (!file)
		return st_error_memory(model->diag);
	ST_TRY(st_yaml_read(model->arena, model->diag, file, path->loc, &tree));
	ST_TRY(want_map(m, tree, path->loc));
	for (size_t i = 0; i < own->value->count; i++)
		if (strcmp(own->value->items[i].key, "hf_config") != 0)
			ST_TRY(put(m, tree, &own->value->items[i]));
	tree->loc = own->value->loc;
	own->value = tree;
	return ST_OK;
}

/* One message for the first word that is no section. */
static enum st_status
check_sections(struct st_model *model, const struct st_yaml *root)
{
	static const char *const sections[] = {
		"stretto",     "include",  "model",   "layers",
		"parallelism", "training", "overlap", "capture",
		"target",      "report",   NULL,
	};
	const struct st_yaml *version = st_yaml_get(root, "stretto");

	for (size_t i = 0; i < root->count; i++) {
		const char *key = root->items[i].key;
		size_t s = 0;

		while (sections[s] && strcmp(sections[s], key) != 0)
			s++;
		if (strcmp(key, "moe") == 0)
			return st_error(model->diag, ST_EINFEASIBLE,
					root->items[i].loc,
					"moe: experts are not supported yet");
		if (!sections[s])
			return st_net_unknown(model->diag, root->items[i].loc,
					      "section", key, sections);
	}
	if (!version)
		return st_error(model->diag, ST_EINPUT, model->root_loc,
				"the line 'stretto: 1' is missing");
	if (version->kind != ST_YAML_INT || version->i != 1)
		return st_error(model->diag, ST_EINPUT, version->loc,
				"stretto: version %s is not known; this "
				"program reads version 1",
				version->text[0] ? version->text : "null");
	return ST_OK;
}

enum st_status
st_net_read(struct st_model *model, const struct st_model_source *source)
{
	struct merger m = {.model = model};
	struct st_yaml *root = st_arena_alloc(model->arena, sizeof(*root));
	const struct st_yaml_item *own;

	if (!root)
		return st_error_memory(model->diag);
	root->kind = ST_YAML_MAP;
	root->text = "";
	ST_TRY(read_net(&m, source, root));
	for (size_t i = 0; i < source->set_count; i++)
		ST_TRY(read_set(&m, source->sets[i], root));
	ST_TRY(check_sections(model, root));
	ST_TRY(read_hf_config(&m, root));
	own = st_yaml_find(root, "model");
	model->model_loc = own ? own->loc : model->root_loc;
	model->root = root;
	return ST_OK;
}
