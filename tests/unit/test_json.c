/* The JSON reader's limits and the writer's output. */

#include "runtime/json.h"

#include <criterion/criterion.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fixture {
	struct st_arena arena;
	struct st_diag diag;
	struct st_json_reader reader;
};

static void
begin(struct fixture *f, const char *text, size_t length)
{
	st_arena_init(&f->arena, NULL);
	st_diag_init(&f->diag, &f->arena);
	st_json_reader_init(&f->reader, &f->diag,
			    st_diag_add_source(&f->diag, "x", NULL, 0), 0, text,
			    length);
}

/* One letter a token, for a whole text; '!' for an error. */
static void
spell(struct st_json_reader *reader, char *out, size_t size)
{
	static const char letters[] = ".!nft1sk{}[]";
	size_t used = 0;

	do {
		st_json_next(reader);
		if (used + 1 < size)
			out[used++] = letters[reader->token];
	} while (reader->token != ST_JSON_END &&
		 reader->token != ST_JSON_ERROR);
	out[used] = '\0';
}

Test(json, tokens)
{
	static const struct {
		const char *text, *tokens;
	} rows[] = {
		{"{}", "{}."},
		{" [ ] ", "[]."},
		{"null", "n."},
		{"[true,false,null]", "[tfn]."},
		{"{\"a\":[1,{\"a\":\"b\"}],\"b\":{}}", "{k[1{ks}]k{}}."},
		{"\t\r\n 7", "1."},
		/* One key in two objects is no duplicate. */
		{"[{\"a\":1},{\"a\":1}]", "[{k1}{k1}]."},
		{"{\"a\":{\"a\":{\"a\":0}},\"b\":0}", "{k{k{k1}}k1}."},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fixture f;
		char out[64];

		begin(&f, rows[i].text, strlen(rows[i].text));
		spell(&f.reader, out, sizeof(out));
		cr_expect_str_eq(out, rows[i].tokens, "%s", rows[i].text);
		cr_expect_eq(f.diag.count, 0);
		st_arena_finish(&f.arena);
	}
}

Test(json, refuses)
{
	static const struct {
		const char *text, *message;
	} rows[] = {
		{"", "x:0: error: expected a value, found end of text\n"},
		{"[1,]", "x:3: error: expected a value, found ']'\n"},
		{"[1 2]", "x:3: error: expected ',' or ']', found '2'\n"},
		{"{\"a\":1,}",
		 "x:7: error: expected a key in quotes, found '}'\n"},
		{"{\"a\" 1}", "x:5: error: expected ':', found '1'\n"},
		{"[1}", "x:2: error: expected ',' or ']', found '}'\n"},
		{"01", "x:0: error: number begins with a zero\n"},
		{"-", "x:1: error: expected a digit, found end of text\n"},
		{"+1", "x:0: error: expected a value, found '+'\n"},
		{"1.", "x:2: error: expected a digit, found end of text\n"},
		{".5", "x:0: error: expected a value, found '.'\n"},
		{"1e", "x:2: error: expected a digit, found end of text\n"},
		{"1e400",
		 "x:0: error: number is outside the range of a double\n"},
		{"-1e400",
		 "x:0: error: number is outside the range of a double\n"},
		{"NaN", "x:0: error: expected a value, found 'N'\n"},
		{"nul", "x:0: error: expected a value, found 'n'\n"},
		{"1 1", "x:2: error: expected end of text, found '1'\n"},
		{"{\"a\":1,\"\\u0061\":1}",
		 "x:7: error: key 'a' appears twice\n"},
		/* The outer object's keys survive the inner one's end. */
		{"{\"a\":{\"b\":1},\"a\":1}",
		 "x:13: error: key 'a' appears twice\n"},
		{"\"\\ud83d\"", "x:1: error: lone high surrogate\n"},
		{"\"\\ud83d\\u0041\"", "x:1: error: lone high surrogate\n"},
		{"\"\\ude00\"", "x:1: error: lone low surrogate\n"},
		{"\"\\u12g4\"",
		 "x:1: error: expected four hex digits after \\u\n"},
		{"\"\\u12", "x:0: error: string without an end\n"},
		{"\"\\", "x:0: error: string without an end\n"},
		{"\"\\\"", "x:0: error: string without an end\n"},
		{"\"\\v\"", "x:1: error: unknown escape\n"},
		{"\"\x01\"", "x:1: error: control character in string\n"},
		{"\"a\xff\"", "x:2: error: string is not UTF-8\n"},
		{"\"\xf4\x90\x80\x80\"", "x:1: error: string is not UTF-8\n"},
		{"\"\xe2\x82\"", "x:1: error: string is not UTF-8\n"},
		{"\xef\xbb\xbf{}",
		 "x:0: error: expected a value, found byte 0xef\n"},
		{"[1 /* */]", "x:3: error: expected ',' or ']', found '/'\n"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fixture f;
		char out[64];

		begin(&f, rows[i].text, strlen(rows[i].text));
		spell(&f.reader, out, sizeof(out));
		cr_assert_eq(f.diag.count, 1, "%s", rows[i].text);
		cr_expect_str_eq(st_diag_render(&f.diag, 0), rows[i].message);
		cr_expect_eq(f.reader.status, ST_EINPUT);
		/* Final: no second message. */
		cr_expect_eq(st_json_next(&f.reader), ST_JSON_ERROR);
		cr_expect_eq(f.diag.count, 1);
		st_arena_finish(&f.arena);
	}
}

Test(json, depth)
{
	char text[2 * ST_JSON_DEPTH + 2], out[2 * ST_JSON_DEPTH + 4];
	struct fixture f;

	memset(text, '[', ST_JSON_DEPTH);
	memset(text + ST_JSON_DEPTH, ']', ST_JSON_DEPTH);
	begin(&f, text, 2 * ST_JSON_DEPTH);
	spell(&f.reader, out, sizeof(out));
	cr_expect_eq(f.diag.count, 0);
	cr_expect_eq(strlen(out), 2 * ST_JSON_DEPTH + 1);
	st_arena_finish(&f.arena);

	memset(text, '[', sizeof(text));
	begin(&f, text, ST_JSON_DEPTH + 1);
	spell(&f.reader, out, sizeof(out));
	cr_assert_eq(f.diag.count, 1);
	cr_expect_str_eq(st_diag_render(&f.diag, 0),
			 "x:64: error: nested more than 64 levels deep\n");
	st_arena_finish(&f.arena);
}

Test(json, strings)
{
	static const struct {
		const char *text, *value;
		size_t length;
	} rows[] = {
		{"\"\"", "", 0},
		{"\"plain\"", "plain", 5},
		{"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8},
		{"\"\\u0000\"", "\0", 1},
		{"\"\\u00e9\\u20AC\"", "\xc3\xa9\xe2\x82\xac", 5},
		{"\"\\ud83d\\ude00!\"", "\xf0\x9f\x98\x80!", 5},
		{"\"\xf0\x9f\x98\x80\"", "\xf0\x9f\x98\x80", 4},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fixture f;

		begin(&f, rows[i].text, strlen(rows[i].text));
		cr_expect_eq(st_json_next(&f.reader), ST_JSON_STRING);
		cr_assert_eq(f.reader.length, rows[i].length, "%s",
			     rows[i].text);
		cr_expect_eq(
			memcmp(f.reader.string, rows[i].value, rows[i].length),
			0, "%s", rows[i].text);
		st_arena_finish(&f.arena);
	}
}

Test(json, numbers)
{
	static const struct {
		const char *text;
		double number;
		int64_t integer;
		bool whole;
	} rows[] = {
		{"0", 0, 0, true},
		{"-0", -0.0, 0, true},
		{"12", 12, 12, true},
		{"9223372036854775807", 0x1p63, INT64_MAX, true},
		{"-9223372036854775808", -0x1p63, INT64_MIN, true},
		{"9223372036854775808", 0x1p63, 0, false},
		{"-9223372036854775809", -0x1p63, 0, false},
		{"99999999999999999999999", 1e23, 0, false},
		{"1.5", 1.5, 0, false},
		{"1e2", 100, 0, false},
		{"-2.5E-1", -0.25, 0, false},
		{"5e-324", 0x1p-1074, 0, false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fixture f;

		begin(&f, rows[i].text, strlen(rows[i].text));
		cr_expect_eq(st_json_next(&f.reader), ST_JSON_NUMBER);
		cr_expect_eq(f.reader.number, rows[i].number, "%s",
			     rows[i].text);
		cr_expect_eq(signbit(f.reader.number), signbit(rows[i].number));
		cr_expect_eq(f.reader.integer, rows[i].integer, "%s",
			     rows[i].text);
		cr_expect_eq(f.reader.whole, rows[i].whole, "%s", rows[i].text);
		st_arena_finish(&f.arena);
	}
}

/* The table of keys grows, shrinks with each object, and forgets nothing. */
Test(json, many_keys)
{
	enum { KEYS = 5000 };
	char *text = malloc(KEYS * 40);
	struct fixture f;
	size_t used = 0, keys = 0;
	int wrote;

	cr_assert(text);
	text[used++] = '{';
	for (int i = 0; i < KEYS; i++) {
		wrote = snprintf(text + used, 40,
				 "\"k%d\":{\"a\":0,\"k%d\":1},", i, i);
		used += (size_t)wrote;
	}
	memcpy(text + used, "\"k7\":1}", 7);
	begin(&f, text, used + 7);
	while (st_json_next(&f.reader) != ST_JSON_ERROR)
		keys += f.reader.token == ST_JSON_KEY;
	cr_expect_eq(keys, 3 * KEYS);
	cr_assert_eq(f.diag.count, 1);
	cr_expect_eq(f.diag.messages[0].loc.offset, used);
	cr_expect_str_eq(f.diag.messages[0].text, "key 'k7' appears twice");
	st_arena_finish(&f.arena);
	free(text);
}

Test(json, skip_and_expect)
{
	static const char text[] = "{\"a\":[1,{\"x\":[]}],\"b\":2}";
	struct fixture f;

	begin(&f, text, sizeof(text) - 1);
	cr_expect_eq(st_json_expect(&f.reader, ST_JSON_OBJECT, "top"), ST_OK);
	cr_expect_eq(st_json_next(&f.reader), ST_JSON_KEY);
	cr_expect(st_json_is(&f.reader, "a"));
	cr_expect_eq(st_json_skip(&f.reader), ST_OK);
	cr_expect_eq(st_json_next(&f.reader), ST_JSON_KEY);
	cr_expect(st_json_is(&f.reader, "b"));
	cr_expect_eq(st_json_expect(&f.reader, ST_JSON_STRING, "b"), ST_EINPUT);
	cr_assert_eq(f.diag.count, 1);
	cr_expect_str_eq(st_diag_render(&f.diag, 0),
			 "x:22: error: b: expected string, found number\n");
	st_arena_finish(&f.arena);
}

Test(json, writer)
{
	struct st_arena arena;
	struct st_buffer buffer = {.arena = &arena};
	struct st_json_writer w;

	st_arena_init(&arena, NULL);
	st_json_writer_init(&w, st_json_put_buffer, &buffer);
	st_json_begin_object(&w);
	st_json_key(&w, "a\"b");
	st_json_begin_array(&w);
	st_json_integer(&w, INT64_MIN);
	st_json_boolean(&w, true);
	st_json_boolean(&w, false);
	st_json_null(&w);
	st_json_string(&w, "\n\t\\\x01\x7f\xc3\xa9\xff\xe2\x82");
	st_json_string_n(&w, "a\0b", 3);
	st_json_begin_object(&w);
	st_json_end_object(&w);
	st_json_end_array(&w);
	st_json_key(&w, "n");
	st_json_number(&w, NAN);
	st_json_end_object(&w);
	st_json_newline(&w);
	st_json_integer(&w, 1);
	cr_expect_eq(st_json_writer_finish(&w), ST_OK);
	cr_expect_str_eq(buffer.text,
			 "{\"a\\\"b\":[-9223372036854775808,true,false,null,"
			 "\"\\n\\t\\\\\\u0001\\u007f\xc3\xa9"
			 "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\","
			 "\"a\\u0000b\",{}],\"n\":null}\n1");
	st_arena_finish(&arena);
}

static int
refuse(void *user, const char *text, size_t length)
{
	int *calls = user;

	(void)text;
	(void)length;
	return ++*calls == 2;
}

Test(json, writer_reports_refusal)
{
	struct st_json_writer w;
	int calls = 0;

	st_json_writer_init(&w, refuse, &calls);
	st_json_string(&w, "x");
	st_json_string(&w, "y");
	cr_expect_eq(calls, 2);
	cr_expect_eq(st_json_writer_finish(&w), ST_EDEVICE);
}

static const char *
print_number(struct st_arena *arena, double value)
{
	struct st_buffer buffer = {.arena = arena};
	struct st_json_writer w;

	st_json_writer_init(&w, st_json_put_buffer, &buffer);
	st_json_number(&w, value);
	return st_json_writer_finish(&w) == ST_OK ? buffer.text : "";
}

Test(json, shortest_numbers)
{
	static const struct {
		double value;
		const char *text;
	} rows[] = {
		{0.1, "0.1"},
		{1e21, "1e+21"},
		{-0.0, "-0"},
		{3, "3"},
		{0.1 + 0.2, "0.30000000000000004"},
		{1.0 / 3, "0.3333333333333333"},
		{5e-324, "5e-324"},
		{1.7976931348623157e308, "1.7976931348623157e+308"},
	};
	struct st_arena arena;
	uint64_t bits = 1;

	st_arena_init(&arena, NULL);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		cr_expect_str_eq(print_number(&arena, rows[i].value),
				 rows[i].text);
	for (int i = 0; i < 20000; i++) {
		const char *text;
		struct fixture f;
		double value;

		bits = bits * 6364136223846793005u + 1442695040888963407u;
		memcpy(&value, &bits, sizeof(value));
		if (!isfinite(value))
			continue;
		text = print_number(&arena, value);
		begin(&f, text, strlen(text));
		st_json_next(&f.reader);
		cr_assert_eq(f.reader.token, ST_JSON_NUMBER, "%s", text);
		cr_assert_eq(memcmp(&f.reader.number, &value, 8), 0, "%s",
			     text);
		st_arena_finish(&f.arena);
	}
	st_arena_finish(&arena);
}

/* A host program may have set a locale with a decimal comma. */
Test(json, locale)
{
	struct st_arena arena;
	struct fixture f;

	if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") &&
	    !setlocale(LC_NUMERIC, "fr_FR.UTF-8"))
		cr_skip_test("no locale with a decimal comma");
	st_arena_init(&arena, NULL);
	cr_expect_str_eq(print_number(&arena, 1.5), "1.5");
	begin(&f, "-2.25e1", 7);
	st_json_next(&f.reader);
	cr_expect_eq(f.reader.number, -22.5);
	st_arena_finish(&f.arena);
	st_arena_finish(&arena);
}
