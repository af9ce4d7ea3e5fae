/* YAML text to a located tree.  The only file that sees libyaml. */

#include "models/yaml.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <yaml.h>

struct reader {
	struct st_arena *arena;
	struct st_diag *diag;
	yaml_parser_t parser;
	uint32_t source;
	const char *text;
	size_t length, skip;
	/* libyaml counts characters, locations count bytes: the cursor. */
	size_t at_char, at_byte, line_start;
	uint32_t line;
	size_t nodes;
};

static void
rewind_cursor(struct reader *r)
{
	const char *text = r->text;

	r->at_char = 0;
	r->at_byte = r->skip;
	r->line = 1;
	r->line_start = 0;
	for (size_t i = 0; i < r->skip; i++)
		if (text[i] == '\n') {
			r->line++;
			r->line_start = i + 1;
		}
}

static size_t
width(unsigned char lead)
{
	return lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

static void
step_cursor(struct reader *r)
{
	size_t bytes = width((unsigned char)r->text[r->at_byte]);

	if (r->text[r->at_byte] == '\n') {
		r->line++;
		r->line_start = r->at_byte + 1;
	}
	if (bytes > r->length - r->at_byte)
		bytes = r->length - r->at_byte;
	r->at_byte += bytes;
	r->at_char++;
}

static struct st_loc
cursor_loc(const struct reader *r)
{
	struct st_loc loc = st_no_loc();

	loc.source = r->source;
	loc.line = r->line;
	loc.column = (uint32_t)(r->at_byte - r->line_start) + 1;
	return loc;
}

static struct st_loc
locate(struct reader *r, size_t index)
{
	if (index < r->at_char)
		rewind_cursor(r);
	while (r->at_char < index && r->at_byte < r->length)
		step_cursor(r);
	return cursor_loc(r);
}

static struct st_loc
locate_byte(struct reader *r, size_t offset)
{
	rewind_cursor(r);
	while (r->at_byte < offset + r->skip && r->at_byte < r->length)
		step_cursor(r);
	return cursor_loc(r);
}

/* From one mark to another, the rest of the line at most. */
static struct st_loc
locate_span(struct reader *r, const yaml_mark_t *from, const yaml_mark_t *to)
{
	struct st_loc loc = locate(r, from->index);
	size_t start = r->at_byte;

	while (r->at_char < to->index && r->at_byte < r->length &&
	       r->text[r->at_byte] != '\n')
		step_cursor(r);
	loc.length = (uint32_t)(r->at_byte - start);
	return loc;
}

static enum st_status
fail(struct reader *r, const yaml_mark_t *at, const char *what)
{
	return st_error(r->diag, ST_EINPUT, locate(r, at->index), "%s", what);
}

static enum st_status
fail_syntax(struct reader *r)
{
	const yaml_parser_t *p = &r->parser;
	const char *problem = p->problem ? p->problem : "syntax error";

	if (p->error == YAML_MEMORY_ERROR)
		return st_error_memory(r->diag);
	if (p->error == YAML_READER_ERROR)
		return st_error(r->diag, ST_EINPUT,
				locate_byte(r, p->problem_offset), "YAML: %s",
				problem);
	st_error(r->diag, ST_EINPUT, locate(r, p->problem_mark.index),
		 "YAML: %s", problem);
	if (p->context)
		st_note(r->diag, locate(r, p->context_mark.index), "%s",
			p->context);
	return ST_EINPUT;
}

static enum st_status
next_event(struct reader *r, yaml_event_t *event)
{
	if (!yaml_parser_parse(&r->parser, event))
		return fail_syntax(r);
	return ST_OK;
}

/* [-+]? digits [. digits] [e [-+]? digits], some digit before the e. */
static int
is_number(const char *text, int *whole)
{
	const char *digits = "0123456789";
	size_t before, after = 0;

	text += *text == '-' || *text == '+';
	before = strspn(text, digits);
	text += before;
	*whole = *text == '\0';
	if (*text == '.') {
		after = strspn(text + 1, digits);
		text += after + 1;
	}
	if (before + after == 0)
		return 0;
	if (*text == 'e' || *text == 'E') {
		text++;
		text += *text == '-' || *text == '+';
		before = strspn(text, digits);
		text += before;
		if (before == 0)
			return 0;
	}
	return *text == '\0';
}

static int
is_one_of(const char *text, const char *const words[3])
{
	return strcmp(text, words[0]) == 0 || strcmp(text, words[1]) == 0 ||
	       strcmp(text, words[2]) == 0;
}

static void
set_number(struct st_yaml *node, int whole)
{
	node->kind = ST_YAML_FLOAT;
	node->f = strtod(node->text, NULL);
	if (!whole)
		return;
	errno = 0;
	node->i = strtoll(node->text, NULL, 10);
	if (errno == 0)
		node->kind = ST_YAML_INT;
}

/* YAML 1.2, core schema. */
static void
set_type(struct st_yaml *node)
{
	static const char *const yes[] = {"true", "True", "TRUE"};
	static const char *const no[] = {"false", "False", "FALSE"};
	static const char *const null[] = {"null", "Null", "NULL"};
	const char *text = node->text;
	int whole;

	node->kind = ST_YAML_STRING;
	if (*text == '\0' || strcmp(text, "~") == 0 || is_one_of(text, null)) {
		node->kind = ST_YAML_NULL;
	} else if (is_one_of(text, yes) || is_one_of(text, no)) {
		node->kind = ST_YAML_BOOL;
		node->i = is_one_of(text, yes);
	} else if (is_number(text, &whole)) {
		set_number(node, whole);
	}
}

static enum st_status
new_node(struct reader *r, const yaml_event_t *event, struct st_yaml **out)
{
	struct st_yaml *node;

	if (++r->nodes > ST_YAML_MAX_NODES)
		return fail(r, &event->start_mark,
			    "the file holds too many values");
	node = st_arena_alloc(r->arena, sizeof(*node));
	if (!node)
		return st_error_memory(r->diag);
	node->text = "";
	*out = node;
	return ST_OK;
}

static enum st_status
read_scalar(struct reader *r, const yaml_event_t *event, struct st_yaml *node)
{
	const char *text = (const char *)event->data.scalar.value;
	size_t length = event->data.scalar.length;

	if (event->data.scalar.anchor)
		return fail(r, &event->start_mark, "anchors are not allowed");
	if (event->data.scalar.tag)
		return fail(r, &event->start_mark, "tags are not allowed");
	if (memchr(text, '\0', length))
		return fail(r, &event->start_mark,
			    "a string holds a zero byte");
	node->loc = locate_span(r, &event->start_mark, &event->end_mark);
	node->text = st_arena_strndup(r->arena, text, length);
	if (!node->text)
		return st_error_memory(r->diag);
	node->kind = ST_YAML_STRING;
	if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
		set_type(node);
	return ST_OK;
}

static enum st_status read_node(struct reader *r, yaml_event_t *event,
				int depth, struct st_yaml **out);

static enum st_status
read_list(struct reader *r, struct st_yaml *node, int depth)
{
	for (;;) {
		struct st_yaml_item item = {NULL, st_no_loc(), NULL};
		yaml_event_t event;
		enum st_status status;

		ST_TRY(next_event(r, &event));
		if (event.type == YAML_SEQUENCE_END_EVENT) {
			yaml_event_delete(&event);
			return ST_OK;
		}
		status = read_node(r, &event, depth + 1, &item.value);
		yaml_event_delete(&event);
		ST_TRY(status);
		if (st_yaml_add(r->arena, node, &item))
			return st_error_memory(r->diag);
	}
}

static enum st_status
read_key(struct reader *r, const yaml_event_t *event, struct st_yaml *map,
	 struct st_yaml_item *item)
{
	struct st_yaml key = {.text = ""};
	const struct st_yaml_item *same;

	if (event->type != YAML_SCALAR_EVENT)
		return fail(r, &event->start_mark, "a key must be a word");
	if (map->count == ST_YAML_MAX_KEYS)
		return fail(r, &event->start_mark,
			    "the mapping has too many keys");
	ST_TRY(read_scalar(r, event, &key));
	item->key = key.text;
	item->loc = key.loc;
	same = st_yaml_find(map, item->key);
	if (!same)
		return ST_OK;
	st_error(r->diag, ST_EINPUT, item->loc, "key '%s' is given twice",
		 item->key);
	st_note(r->diag, same->loc, "first given here");
	return ST_EINPUT;
}

static enum st_status
read_map(struct reader *r, struct st_yaml *node, int depth)
{
	for (;;) {
		struct st_yaml_item item = {NULL, st_no_loc(), NULL};
		yaml_event_t event;
		enum st_status status;

		ST_TRY(next_event(r, &event));
		if (event.type == YAML_MAPPING_END_EVENT) {
			yaml_event_delete(&event);
			return ST_OK;
		}
		status = read_key(r, &event, node, &item);
		yaml_event_delete(&event);
		ST_TRY(status);
		ST_TRY(next_event(r, &event));
		status = read_node(r, &event, depth + 1, &item.value);
		yaml_event_delete(&event);
		ST_TRY(status);
		if (st_yaml_add(r->arena, node, &item))
			return st_error_memory(r->diag);
	}
}

static enum st_status
check_collection(struct reader *r, const yaml_event_t *event, int depth)
{
	int list = event->type == YAML_SEQUENCE_START_EVENT;

	if (depth >= ST_YAML_MAX_DEPTH)
		return fail(r, &event->start_mark, "nested too deeply");
	if (list ? event->data.sequence_start.anchor != NULL
		 : event->data.mapping_start.anchor != NULL)
		return fail(r, &event->start_mark, "anchors are not allowed");
	if (list ? event->data.sequence_start.tag != NULL
		 : event->data.mapping_start.tag != NULL)
		return fail(r, &event->start_mark, "tags are not allowed");
	return ST_OK;
}

static enum st_status
read_node(struct reader *r, yaml_event_t *event, int depth,
	  struct st_yaml **out)
{
	ST_TRY(new_node(r, event, out));
	if (event->type == YAML_ALIAS_EVENT)
		return fail(r, &event->start_mark, "aliases are not allowed");
	if (event->type == YAML_SCALAR_EVENT)
		return read_scalar(r, event, *out);
	ST_TRY(check_collection(r, event, depth));
	(*out)->loc = locate(r, event->start_mark.index);
	if (event->type == YAML_SEQUENCE_START_EVENT) {
		(*out)->kind = ST_YAML_LIST;
		return read_list(r, *out, depth);
	}
	(*out)->kind = ST_YAML_MAP;
	return read_map(r, *out, depth);
}

/* Takes the next event and checks only that there is no second document. */
static enum st_status
read_document(struct reader *r, struct st_yaml **root)
{
	for (int documents = 0;;) {
		yaml_event_t event;
		yaml_event_type_t type;
		enum st_status status = ST_OK;

		ST_TRY(next_event(r, &event));
		type = event.type;
		if (type == YAML_DOCUMENT_START_EVENT && documents++)
			status = fail(r, &event.start_mark,
				      "a second document is not allowed");
		else if (type != YAML_STREAM_START_EVENT &&
			 type != YAML_STREAM_END_EVENT &&
			 type != YAML_DOCUMENT_START_EVENT &&
			 type != YAML_DOCUMENT_END_EVENT)
			status = read_node(r, &event, 0, root);
		yaml_event_delete(&event);
		ST_TRY(status);
		if (type == YAML_STREAM_END_EVENT)
			return ST_OK;
	}
}

/* What someone gives instead of YAML; NULL for everything else. */
static const char *
other_kind(const char *text, size_t length)
{
	static const char ir[] = "stretto-ir ";

	/* The length of a header, whose upper half is 0, and the header. */
	if (length > 8 && memcmp(text + 4, "\0\0\0\0{", 5) == 0)
		return "safetensors";
	while (length && (*text == '#' || *text == '\n')) {
		const char *end = memchr(text, '\n', length);
		size_t line = end ? (size_t)(end - text) + 1 : length;

		text += line;
		length -= line;
	}
	return length >= sizeof(ir) - 1 && memcmp(text, ir, sizeof(ir) - 1) == 0
		       ? "IR text"
		       : NULL;
}

enum st_status
st_yaml_parse(struct st_arena *arena, struct st_diag *diag, uint32_t source,
	      size_t skip, struct st_yaml **root)
{
	const struct st_source *file = &diag->sources[source];
	struct reader r = {.arena = arena,
			   .diag = diag,
			   .source = source,
			   .text = file->text,
			   .length = file->length,
			   .skip = skip};
	struct st_loc start = {source, 1, 1, 0, 0};
	const char *other = other_kind(file->text + skip, file->length - skip);
	enum st_status status;

	*root = NULL;
	if (other)
		return st_error(diag, ST_EINPUT, start,
				"this looks like %s, not like YAML", other);
	if (file->length - skip > ST_YAML_MAX_BYTES)
		return st_error(diag, ST_EINPUT, start,
				"the file is larger than 1 MiB");
	if (!yaml_parser_initialize(&r.parser))
		return st_error_memory(diag);
	yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&r.parser,
				     (const unsigned char *)file->text + skip,
				     file->length - skip);
	rewind_cursor(&r);
	status = read_document(&r, root);
	yaml_parser_delete(&r.parser);
	return status;
}

/* The whole of a regular file, one byte beyond the cap at most. */
static enum st_status
read_file(struct st_arena *arena, struct st_diag *diag, const char *path,
	  struct st_loc from, char **text, size_t *length)
{
	FILE *file = fopen(path, "rb");
	struct stat about;
	size_t most = ST_YAML_MAX_BYTES + 1;
	enum st_status status = ST_OK;

	if (!file)
		return st_error(diag, ST_EINPUT, from, "cannot read '%s': %s",
				path, strerror(errno));
	*text = NULL;
	if (fstat(fileno(file), &about) || !S_ISREG(about.st_mode)) {
		status = st_error(diag, ST_EINPUT, from,
				  "cannot read '%s': not a regular file", path);
	} else {
		if (about.st_size < ST_YAML_MAX_BYTES)
			most = (size_t)about.st_size + 1;
		*text = st_arena_alloc(arena, most);
		if (!*text)
			status = st_error_memory(diag);
	}
	if (*text)
		*length = fread(*text, 1, most, file);
	if (*text && ferror(file))
		status = st_error(diag, ST_EINPUT, from, "cannot read '%s': %s",
				  path, strerror(errno));
	fclose(file);
	return status;
}

enum st_status
st_yaml_read(struct st_arena *arena, struct st_diag *diag, const char *path,
	     struct st_loc from, struct st_yaml **root)
{
	size_t length = 0;
	uint32_t source;
	char *text = NULL;

	*root = NULL;
	ST_TRY(read_file(arena, diag, path, from, &text, &length));
	source = st_diag_add_source(diag, path, text, length);
	if (!source)
		return st_error_memory(diag);
	return st_yaml_parse(arena, diag, source, 0, root);
}

struct st_yaml *
st_yaml_plain(struct st_arena *arena, const char *text)
{
	struct st_yaml *node = st_arena_alloc(arena, sizeof(*node));

	if (!node)
		return NULL;
	node->text = text;
	set_type(node);
	return node;
}
