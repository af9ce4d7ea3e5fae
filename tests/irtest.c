/*
 * Golden IR tests.
 *
 * usage: irtest STRETTO FILE...
 *
 * A file is IR text whose comments hold directives; those after a `run`
 * belong to it, up to the next one:
 *
 *   # run: opt --passes=grad %s     arguments of the program; %s is the file
 *   # check: TEXT      a line holds TEXT, after the last match
 *   # next: TEXT       the line after the last match holds TEXT
 *   # not: TEXT        no line between the matches around it holds TEXT
 *   # order: %a < %b   values are defined in this order
 *   # count: N TEXT    exactly N lines hold TEXT
 *   # equal:           the output is this file without its comments
 *   # error: TEXT      stderr begins with the line TEXT; %s is the file
 *   # exit: N          exit status, if not 0
 *
 * Blanks count as one.  [[X]] stands for a name: the first use takes what is
 * there, later ones must agree; a `run` forgets them.
 */

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_LINES = 20000, MOST_NAMES = 26, LONGEST = 4096 };

struct text {
	char *bytes;
	char *line[MOST_LINES];
	int lines;
};

static const char *program, *path;
static int passed, failed;

static struct text output, errors;
static char names[MOST_NAMES][128];
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
read_text(struct text *text, const char *file)
{
	FILE *f = fopen(file, "rb");
	size_t n;

	free(text->bytes);
	text->bytes = calloc(1, 1 << 24);
	text->lines = 0;
	if (!f || !text->bytes)
		return;
	n = fread(text->bytes, 1, (1 << 24) - 1, f);
	fclose(f);
	text->bytes[n] = '\0';
	for (char *s = strtok(text->bytes, "\n"); s && text->lines < MOST_LINES;
	     s = strtok(NULL, "\n")) {
		squeeze(s);
		text->line[text->lines++] = s;
	}
}

/* Does the line hold the pattern from `s` on?  Takes names on the way. */
static int
match_here(const char *s, const char *pattern)
{
	while (*pattern) {
		if (strncmp(pattern, "[[", 2) == 0 && pattern[3] == ']') {
			char *name = names[(pattern[2] - 'A') % MOST_NAMES];
			size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz"
					     "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
					     "0123456789_./");

			if (n == 0 || n >= sizeof(names[0]))
				return 0;
			if (!*name)
				memcpy(name, s, n);
			if (strlen(name) != n || strncmp(name, s, n) != 0)
				return 0;
			s += n;
			pattern += 5;
			continue;
		}
		if (*s++ != *pattern++)
			return 0;
	}
	return 1;
}

static int
holds(const char *line, const char *pattern)
{
	char keep[MOST_NAMES][128];

	memcpy(keep, names, sizeof(names));
	for (; *line; line++) {
		if (match_here(line, pattern))
			return 1;
		memcpy(names, keep, sizeof(names));
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
	memset(names, 0, sizeof(names));
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
} nots[64];
static int not_count;

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
	} else if (strcmp(word, "not") == 0 && not_count < 64) {
		nots[not_count].text = text;
		nots[not_count].line = line;
		nots[not_count++].from = at;
	} else if (strcmp(word, "order") == 0) {
		check_order(line, text);
	} else if (strcmp(word, "count") == 0) {
		check_count(line, text);
	} else if (strcmp(word, "equal") == 0) {
		check_equal(line, file);
	} else if (strcmp(word, "error") == 0) {
		check_error(line, text);
	} else if (strcmp(word, "exit") == 0) {
		wanted_exit = atoi(text);
	}
}

/* Blank lines are lost by strtok, so numbers are counted by hand. */
static void
test_file(void)
{
	static struct text file;
	static char raw[1 << 20];
	FILE *f = fopen(path, "rb");
	int number = 0, before = passed + failed;

	if (!f) {
		fail(0, "cannot open", path);
		return;
	}
	read_text(&file, path);
	while (fgets(raw, sizeof(raw), f)) {
		char *text = raw, *colon;

		number++;
		squeeze(text);
		if (strncmp(text, "# ", 2) != 0)
			continue;
		text += 2;
		colon = strchr(text, ':');
		if (!colon || strcspn(text, " ") < (size_t)(colon - text))
			continue;
		*colon = '\0';
		colon += 1 + (colon[1] == ' ');
		/* Directives outlive the line: nots are settled later. */
		directive(number, text, strdup(colon), &file);
	}
	end_run();
	fclose(f);
	if (passed + failed == before)
		fail(0, "checks nothing", path);
}

int
main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	program = argv[1];
	for (int i = 2; i < argc; i++) {
		path = argv[i];
		test_file();
	}
	free(output.bytes);
	free(errors.bytes);
	printf("%d passed, %d failed, 0 skipped\n", passed, failed);
	return failed != 0 || passed == 0;
}
