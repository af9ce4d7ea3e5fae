/* The tree that a YAML document becomes, and its printing. */

#include "models/yaml.h"

#include <string.h>
#include <strings.h>

struct st_yaml_item *
st_yaml_find(const struct st_yaml *map, const char *key)
{
	if (!map || map->kind != ST_YAML_MAP)
		return NULL;
	for (size_t i = 0; i < map->count; i++)
		if (strcmp(map->items[i].key, key) == 0)
			return &map->items[i];
	return NULL;
}

struct st_yaml *
st_yaml_get(const struct st_yaml *map, const char *key)
{
	const struct st_yaml_item *item = st_yaml_find(map, key);

	return item ? item->value : NULL;
}

int
st_yaml_add(struct st_arena *arena, struct st_yaml *parent,
	    const struct st_yaml_item *item)
{
	struct st_yaml_item *items = st_arena_grow(
		arena, parent->items, parent->count, &parent->capacity,
		parent->count + 1, sizeof(*items));

	if (!items)
		return -1;
	parent->items = items;
	items[parent->count++] = *item;
	return 0;
}

const char *
st_yaml_kind_name(enum st_yaml_kind kind)
{
	static const char *const names[] = {
		"nothing",  "true or false", "a whole number", "a number",
		"a string", "a list",        "a mapping",
	};

	return names[kind];
}

/* May the character stand in a double-quoted string as it is?  Control
 * characters, line breaks and the byte order mark may not. */
static int
is_plain(uint32_t c)
{
	return (c >= ' ' && c < 0x7f && c != '"' && c != '\\') ||
	       (c >= 0xa0 && c != 0x2028 && c != 0x2029 && c != 0xfeff &&
		(c < 0xd800 || (c >= 0xe000 && c < 0xfffe)));
}

/* Takes one character of UTF-8 that libyaml has checked. */
static uint32_t
take(const char **text)
{
	const unsigned char *at = (const unsigned char *)*text;
	int more = at[0] < 0xc0 ? 0 : at[0] < 0xe0 ? 1 : at[0] < 0xf0 ? 2 : 3;
	uint32_t c = at[0] < 0x80 ? at[0] : at[0] & (0x3fu >> more);
	int used = 1;

	for (; more > 0 && (at[used] & 0xc0) == 0x80; more--)
		c = c << 6 | (at[used++] & 0x3fu);
	*text += used;
	return c;
}

/* May the text stand without quotes?  Words, paths and formulas may, if they
 * begin with a letter and are not true, false or null. */
static int
is_word(const char *text)
{
	static const char *const typed[] = {"true", "false", "null"};
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
				      "ABCDEFGHIJKLMNOPQRSTUVWXYZ_";
	size_t length = strlen(text);

	for (int i = 0; i < 3; i++)
		if (strcasecmp(text, typed[i]) == 0)
			return 0;
	if (length == 0 || !strchr(letters, text[0]) || text[length - 1] == ' ')
		return 0;
	for (size_t i = 0; i < length; i++)
		if (!strchr(letters, text[i]) &&
		    !strchr("0123456789./- *()", text[i]))
			return 0;
	return 1;
}

void
st_yaml_print_string(struct st_buffer *out, const char *text)
{
	if (is_word(text)) {
		st_buffer_puts(out, text);
		return;
	}
	st_buffer_puts(out, "\"");
	while (*text) {
		const char *start = text;
		uint32_t c = take(&text);

		if (is_plain(c))
			st_buffer_add(out, start, (size_t)(text - start));
		else if (c == '"' || c == '\\')
			st_buffer_printf(out, "\\%c", (char)c);
		else
			st_buffer_printf(out, "\\U%08x", c);
	}
	st_buffer_puts(out, "\"");
}

static void
print_items(struct st_buffer *out, const struct st_yaml *node)
{
	int map = node->kind == ST_YAML_MAP;

	st_buffer_puts(out, map ? "{" : "[");
	for (size_t i = 0; i < node->count; i++) {
		st_buffer_puts(out, i ? ", " : "");
		if (map) {
			st_yaml_print_string(out, node->items[i].key);
			st_buffer_puts(out, ": ");
		}
		st_yaml_print(out, node->items[i].value);
	}
	st_buffer_puts(out, map ? "}" : "]");
}

void
st_yaml_print(struct st_buffer *out, const struct st_yaml *node)
{
	switch (node->kind) {
	case ST_YAML_NULL: st_buffer_puts(out, "null"); break;
	case ST_YAML_BOOL:
		st_buffer_puts(out, node->i ? "true" : "false");
		break;
	case ST_YAML_INT:
		st_buffer_printf(out, "%lld", (long long)node->i);
		break;
	case ST_YAML_FLOAT: st_buffer_puts(out, node->text); break;
	case ST_YAML_STRING: st_yaml_print_string(out, node->text); break;
	default: print_items(out, node); break;
	}
}
