#ifndef ST_YAML_H
#define ST_YAML_H

/*
 * A YAML document as a tree whose nodes know where they stand.
 *
 * Plain scalars are typed as YAML 1.2's core schema says (true, null, 12,
 * 1e-5; `no` and `yes` are strings), except that octal, hexadecimal and
 * non-finite numbers stay strings.  JSON is read as the subset of YAML that
 * it is.  Refused: anchors, aliases, tags, several documents, equal keys in
 * one mapping, and what exceeds the caps below.
 */

#include "ir/diag.h"
#include "ir/text.h"

enum {
	ST_YAML_MAX_BYTES = 1 << 20,
	ST_YAML_MAX_DEPTH = 64,
	ST_YAML_MAX_NODES = 1 << 16,
	ST_YAML_MAX_KEYS = 1024, /* of one mapping */
};

enum st_yaml_kind {
	ST_YAML_NULL,
	ST_YAML_BOOL,
	ST_YAML_INT,
	ST_YAML_FLOAT,
	ST_YAML_STRING,
	ST_YAML_LIST,
	ST_YAML_MAP,
};

struct st_yaml_item {
	const char *key;   /* NULL in a list */
	struct st_loc loc; /* of the key */
	struct st_yaml *value;
};

struct st_yaml {
	enum st_yaml_kind kind;
	int level; /* of two spellings of a key, the higher wins */
	struct st_loc loc;
	const char *text; /* of a scalar, without quotes; else "" */
	int64_t i;        /* BOOL, INT */
	double f;         /* INT, FLOAT */
	struct st_yaml_item *items;
	size_t count, capacity;
};

/* The document that starts after `skip` bytes of a source that
 * st_diag_add_source knows.  An empty one is NULL. */
enum st_status st_yaml_parse(struct st_arena *arena, struct st_diag *diag,
			     uint32_t source, size_t skip,
			     struct st_yaml **root);

/* The same for a regular file; `from` is where it was asked for. */
enum st_status st_yaml_read(struct st_arena *arena, struct st_diag *diag,
			    const char *path, struct st_loc from,
			    struct st_yaml **root);

/* A plain scalar that stands in no file. */
struct st_yaml *st_yaml_plain(struct st_arena *arena, const char *text);

/* Item of a mapping, or NULL; the value of one, or NULL. */
struct st_yaml_item *st_yaml_find(const struct st_yaml *map, const char *key);
struct st_yaml *st_yaml_get(const struct st_yaml *map, const char *key);

/* Adds to a list (key NULL) or mapping; returns -1 without memory. */
int st_yaml_add(struct st_arena *arena, struct st_yaml *parent,
		const struct st_yaml_item *item);

/* "a mapping", "a string" and so on. */
const char *st_yaml_kind_name(enum st_yaml_kind kind);

/* In flow style, so that it reads back as the same tree. */
void st_yaml_print(struct st_buffer *out, const struct st_yaml *node);
void st_yaml_print_string(struct st_buffer *out, const char *text);

#endif
