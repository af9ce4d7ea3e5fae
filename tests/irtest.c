/*
 * Golden IR tests.
 *
 * usage: irtest [--accept] STRETTO FILE...
 *
 * A file is IR text whose comments hold directives; those after a `run`
 * belong to it, up to the next one.  A comment of one word and a colon that
 * is none of them is an error.
 *
 *   # run: opt --passes=grad %s     arguments of the program; %s is the file
 *   # check: TEXT      a line holds TEXT, after the last match
 *   # next: TEXT       the line after the last match holds TEXT
 *   # not: TEXT        no line between the matches around it holds TEXT
 *   # order: %a < %b   values are defined in this order
 *   # count: N TEXT    exactly N lines hold TEXT
 *   # equal:           the output is this file without its comments
 *   # golden: FILE     the output is FILE, byte by byte; --accept writes it
 *   # error: TEXT      stderr begins with the line TEXT; %s is the file
 *   # exit: N          exit status, if not 0
 *
 * Blanks count as one.  [[NAME]] stands for a name of the IR: the first use
 * takes what is there, later ones must agree; a `run` forgets them.
 */

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_LINES = 20000, MOST_NAMES = 16, MOST_NOTS = 64, LONGEST = 4096 };

struct text {
	char *bytes; /* as read */
	size_t length;
	char *squeezed; /* what the lines point into */
	char *line[MOST_LINES];
	int lines;
};

/* What a [[NAME]] stands for. */
struct capture {
	char name[32], value[128];
};

static const char *program, *path;
static int passed, failed, accept;

static struct text output, errors;
static struct capture captures[MOST_NAMES];
static int status, at; /* at: line after the last match */

static void
fail(int line, const char *what, const char *text)
{
	failed++;
	printf("%s:%d: %s: %s\n", path, line, what, text);
}

/* Blanks become one, those at the ends vanish. */
static void
squeeze(char *text)
{
	char *to = text;

	for (char *from = text; *from; from++) {
		int blank = isspace((unsigned char)*from);

		if (blank && (to == text || to[-1] == ' '))
			continue;
		*to++ = blank ? ' ' : *from;
	}
	if (to > text && to[-1] == ' ')
		to--;
	*to = '\0';
}

static void
forget(struct text *text)
{
	free(text->bytes);
	free(text->squeezed);
	memset(text, 0, sizeof(*text));
}

/* The bytes of a file, with a 0 behind them; NULL if there is none. */
static char *
read_file(const char *name, size_t *length)
{
	FILE *f = fopen(name, "rb");
	size_t capacity = 1 << 16, n;
	char *bytes = f ? malloc(capacity + 1) : NULL, *more;

	*length = 0;
	while (bytes && (n = fread(bytes + *length, 1, capacity - *length,
				   f)) > 0) {
		*length += n;
		if (*length < capacity)
			continue;
		capacity *= 2;
		more = realloc(bytes, capacity + 1);
		if (!more)
			free(bytes);
		bytes = more;
	}
	if (bytes)
		bytes[*length] = '\0';
	if (f)
		fclose(f);
	return bytes;
}

static void
read_text(struct text *text, const char *file)
{
	forget(text);
	text->bytes = read_file(file, &text->length);
	text->squeezed = text->bytes ? strdup(text->bytes) : NULL;
	if (!text->squeezed)
		return;
	for (char *s = strtok(text->squeezed, "\n");
	     s && text->lines < MOST_LINES; s = strtok(NULL, "\n")) {
		squeeze(s);
		text->line[text->lines++] = s;
	}
}

/* The capture of "NAME]]..." and what follows it; NULL if it is none. */
static struct capture *
find_capture(const char *pattern, const char **rest)
{
	size_t n = strspn(pattern, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");

	if (n == 0 || n >= sizeof(captures[0].name) ||
	    strncmp(pattern + n, "]]", 2) != 0)
		return NULL;
	*rest = pattern + n + 2;
	for (int i = 0; i < MOST_NAMES; i++) {
		struct capture *c = &captures[i];

		if (!c->name[0])
			memcpy(c->name, pattern, n);
		if (strlen(c->name) == n && !strncmp(c->name, pattern, n))
			return c;
	}
	return NULL;
}

/* Takes the name at `s`, or compares; its length, 0 if it does not fit. */
static size_t
take_name(struct capture *c, const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz"
			     "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
			     "0123456789_./");

	if (n == 0 || n >= sizeof(c->value))
		return 0;
	if (!c->value[0])
		memcpy(c->value, s, n);
	return strlen(c->value) == n && !strncmp(c->value, s, n) ? n : 0;
}

/* Does the line hold the pattern from `s` on?  Takes names on the way. */
static int
match_here(const char *s, const char *pattern)
{
	while (*pattern) {
		struct capture *c = NULL;
		const char *rest;
		size_t n;

		if (strncmp(pattern, "[[", 2) == 0)
			c = find_capture(pattern + 2, &rest);
		if (!c) {
			if (*s++ != *pattern++)
				return 0;
			continue;
		}
		n = take_name(c, s);
		if (n == 0)
			return 0;
		s += n;
		pattern = rest;
	}
	return 1;
}

static int
holds(const char *line, const char *pattern)
{
	struct capture keep[MOST_NAMES];

	memcpy(keep, captures, sizeof(captures));
	for (; *line; line++) {
		if (match_here(line, pattern))
			return 1;
		memcpy(captures, keep, sizeof(captures));
	}
	return 0;
}

static void
run(char *arguments)
{
	char command[LONGEST], *mark = strstr(arguments, "%s");
	const char *dir = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
	char out[256], err[256];

	snprintf(out, sizeof(out), "%s/irtest.%ld.out", dir, (long)getpid());
	snprintf(err, sizeof(err), "%s/irtest.%ld.err", dir, (long)getpid());
	if (mark)
		snprintf(command, sizeof(command), "%s %.*s%s%s >%s 2>%s",
			 program, (int)(mark - arguments), arguments, path,
			 mark + 2, out, err);
	else
		snprintf(command, sizeof(command), "%s %s >%s 2>%s", program,
			 arguments, out, err);
	status = system(command);
	status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
	read_text(&output, out);
	read_text(&errors, err);
	remove(out);
	remove(err);
	memset(captures, 0, sizeof(captures));
	at = 0;
}

static int
find(const char *pattern, int from)
{
	for (int i = from; i < output.lines; i++)
		if (holds(output.line[i], pattern))
			return i;
	return -1;
}

/* The line that defines a value: "%a = ..." or "%a, %b = ...". */
static int
find_definition(const char *value)
{
	size_t n = strlen(value);

	for (int i = 0; i < output.lines; i++) {
		const char *equal = strstr(output.line[i], " = ");
		const char *s = output.line[i];

		while (equal && (s = strstr(s, value)) != NULL && s < equal) {
			if (s[n] == ' ' || s[n] == ',')
				return i;
			s++;
		}
	}
	return -1;
}

static void
check_order(int line, char *list)
{
	int last = -1;

	for (char *s = strtok(list, " <"); s; s = strtok(NULL, " <")) {
		int here = find_definition(s);

		if (here < 0)
			fail(line, "order: not defined", s);
		else if (here <= last)
			fail(line, "order: stands too early", s);
		else
			passed++;
		last = here;
	}
}

static void
check_count(int line, char *text)
{
	char *rest;
	long want = strtol(text, &rest, 10), have = 0;

	while (*rest == ' ')
		rest++;
	for (int i = 0; i < output.lines; i++)
		have += strstr(output.line[i], rest) != NULL;
	if (have == want) {
		passed++;
		return;
	}
	failed++;
	printf("%s:%d: count: %ld lines hold '%s', want %ld\n", path, line,
	       have, rest, want);
}

static void
check_equal(int line, const struct text *file)
{
	int n = 0;

	for (int i = 0; i < file->lines; i++) {
		if (file->line[i][0] == '#' || !file->line[i][0])
			continue;
		if (n >= output.lines ||
		    strcmp(file->line[i], output.line[n]) != 0) {
			fail(line, "equal: differs at", file->line[i]);
			return;
		}
		n++;
	}
	if (n == output.lines)
		passed++;
	else
		fail(line, "equal: more output", output.line[n]);
}

static void
check_golden(int line, const char *name)
{
	size_t length;
	char *want = read_file(name, &length);
	FILE *f;

	if (want && length == output.length &&
	    memcmp(want, output.bytes, length) == 0) {
		passed++;
	} else if (!accept) {
		fail(line, want ? "golden: differs; ninja accept writes it"
				: "golden: none; ninja accept writes it",
		     name);
	} else if (status == 0 && (f = fopen(name, "wb")) != NULL) {
		fwrite(output.bytes, 1, output.length, f);
		fclose(f);
		passed++;
		printf("wrote %s\n", name);
	} else {
		fail(line, "golden: cannot be written", name);
	}
	free(want);
}

static void
check_error(int line, const char *text)
{
	char want[LONGEST];
	const char *mark = strstr(text, "%s");

	if (mark)
		snprintf(want, sizeof(want), "%.*s%s%s", (int)(mark - text),
			 text, path, mark + 2);
	else
		snprintf(want, sizeof(want), "%s", text);
	if (errors.lines && strcmp(errors.line[0], want) == 0)
		passed++;
	else
		fail(line, "error: stderr begins with",
		     errors.lines ? errors.line[0] : "nothing");
}

/* Lines forbidden until the next match, with where they were forbidden. */
static struct {
	const char *text;
	int line, from;
} nots[MOST_NOTS];
static int not_count;

static void
add_not(int line, const char *text)
{
	if (not_count == MOST_NOTS) {
		fail(line, "not: too many", text);
		return;
	}
	nots[not_count].text = text;
	nots[not_count].line = line;
	nots[not_count++].from = at;
}

static void
settle_nots(int end)
{
	for (int i = 0; i < not_count; i++) {
		int found = find(nots[i].text, nots[i].from);

		if (found >= 0 && found < end)
			fail(nots[i].line, "not: found", output.line[found]);
		else
			passed++;
	}
	not_count = 0;
}

static void
check_line(int line, const char *text, int next)
{
	int found = next ? (at < output.lines && holds(output.line[at], text)
				    ? at
				    : -1)
			 : find(text, at);

	settle_nots(found < 0 ? output.lines : found);
	if (found < 0) {
		fail(line, next ? "next: not there" : "check: not found",
		     text);
		printf("  in line %d of the output: %s\n", at + 1,
		       at < output.lines ? output.line[at] : "(its end)");
		return;
	}
	passed++;
	at = found + 1;
}

static int wanted_exit, exit_line;

static void
end_run(void)
{
	if (!exit_line)
		return;
	settle_nots(output.lines);
	if (status == wanted_exit)
		passed++;
	else {
		failed++;
		printf("%s:%d: exit: %d, want %d: %s\n", path, exit_line,
		       status, wanted_exit,
		       errors.lines ? errors.line[0] : "");
	}
	exit_line = 0;
}

static void
directive(int line, char *word, char *text, const struct text *file)
{
	if (strcmp(word, "run") == 0) {
		end_run();
		run(text);
		wanted_exit = 0;
		exit_line = line;
	} else if (strcmp(word, "check") == 0) {
		check_line(line, text, 0);
	} else if (strcmp(word, "next") == 0) {
		check_line(line, text, 1);
	} else if (strcmp(word, "not") == 0) {
		add_not(line, text);
	} else if (strcmp(word, "order") == 0) {
		check_order(line, text);
	} else if (strcmp(word, "count") == 0) {
		check_count(line, text);
	} else if (strcmp(word, "equal") == 0) {
		check_equal(line, file);
	} else if (strcmp(word, "golden") == 0) {
		check_golden(line, text);
	} else if (strcmp(word, "error") == 0) {
		check_error(line, text);
	} else if (strcmp(word, "exit") == 0) {
		wanted_exit = atoi(text);
	} else {
		fail(line, "no such directive", word);
	}
}

/* Is the line "# word: text"?  Ends the word and returns the text. */
static char *
split(char *line)
{
	char *colon;

	if (strncmp(line, "# ", 2) != 0 || !islower((unsigned char)line[2]))
		return NULL;
	colon = strchr(line, ':');
	if (!colon || strcspn(line + 2, " ") < (size_t)(colon - line - 2))
		return NULL;
	*colon = '\0';
	return colon + 1 + (colon[1] == ' ');
}

/* Reads the lines again: `file` has lost the blank ones, which count. */
static void
test_file(void)
{
	static struct text file;
	int number = 0, before = passed + failed;
	char *copy, *rest, *text;
	size_t length;

	read_text(&file, path);
	copy = read_file(path, &length);
	rest = copy;
	if (!copy)
		fail(0, "cannot open", path);
	while (rest && *rest) {
		char *line = rest;

		rest = strchr(rest, '\n');
		if (rest)
			*rest++ = '\0';
		number++;
		squeeze(line);
		text = split(line);
		if (text)
			directive(number, line + 2, text, &file);
	}
	end_run();
	if (passed + failed == before)
		fail(0, "checks nothing", path);
	forget(&file);
	free(copy);
}

int
main(int argc, char **argv)
{
	int first = 1;

	if (argc > 1 && strcmp(argv[1], "--accept") == 0) {
		accept = 1;
		first++;
	}
	if (argc < first + 2)
		return 2;
	program = argv[first];
	for (int i = first + 1; i < argc; i++) {
		path = argv[i];
		test_file();
	}
	forget(&output);
	forget(&errors);
	printf("%d passed, %d failed, 0 skipped\n", passed, failed);
	return failed != 0 || passed == 0;
}
