/* Numbers and words in family files: literals, key names, small formulas. */

#include "models/net.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_EXPR = 256 };

struct expr {
	const struct st_model *model;
	const struct st_yaml *node;
	const char *what;
	const char *at;
	struct st_loc culprit; /* last value that the net states */
};

static int
is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static int
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Length of the name at the start of text, 0 if there is none. */
static size_t
name_length(const char *text)
{
	size_t n = 0;

	if (!is_letter(text[0]))
		return 0;
	while (is_letter(text[n]) || is_digit(text[n]) || text[n] == '.')
		n++;
	return n;
}

/* Where to point: at the net if a value of it takes part, else here. */
static enum st_status
fail(const struct expr *e, const char *what, const char *text)
{
	struct st_diag *diag = e->model->diag;
	int away = e->culprit.source != 0 &&
		   memcmp(&e->culprit, &e->node->loc, sizeof(e->culprit)) != 0;

	st_error(diag, ST_EINPUT, away ? e->culprit : e->node->loc, "%s: %s%s",
		 e->what, what, text);
	if (away)
		st_note(diag, e->node->loc, "needed here");
	return ST_EINPUT;
}

/* A fault of the formula, not of the numbers in it. */
static enum st_status
fail_formula(struct expr *e, const char *what, const char *text)
{
	e->culprit = st_no_loc();
	return fail(e, what, text);
}

static enum st_status product(struct expr *e, double *value);
static enum st_status number_of(struct expr *e, const struct st_yaml *node,
				int is_formula, double *value);

static enum st_status
key_number(struct expr *e, struct st_model_key *key, double *value)
{
	const char *what = e->what;
	enum st_status status;

	if (key->busy)
		return fail_formula(e, "depends on itself through ", key->name);
	key->used = 1;
	key->busy = 1;
	if (key->stated) {
		e->culprit = key->stated->loc;
		e->what = key->name;
		status = number_of(e, key->stated, 0, value);
	} else {
		status = number_of(e, key->otherwise, 1, value);
	}
	e->what = what;
	key->busy = 0;
	return status;
}

static enum st_status
name(struct expr *e, double *value)
{
	size_t length = name_length(e->at);
	struct st_model_key *key = st_family_key(e->model, e->at, length);
	const char *text;

	if (key) {
		e->at += length;
		return key_number(e, key, value);
	}
	text = st_arena_strndup(e->model->arena, e->at, length);
	return fail_formula(e, "no such key: ", text ? text : "");
}

static void
skip_blanks(struct expr *e)
{
	e->at += strspn(e->at, " ");
}

static enum st_status
factor(struct expr *e, double *value)
{
	int root = strncmp(e->at, "sqrt", 4) == 0 && !is_letter(e->at[4]) &&
		   e->at[4 + strspn(e->at + 4, " ")] == '(';

	if (root)
		e->at += 4;
	skip_blanks(e);
	if (*e->at == '(') {
		e->at++;
		ST_TRY(product(e, value));
		if (*e->at != ')')
			return fail_formula(e, "want ')' in ", e->node->text);
		e->at++;
	} else if (is_digit(*e->at)) {
		char *end;

		*value = strtod(e->at, &end);
		e->at = end;
	} else if (is_letter(*e->at)) {
		ST_TRY(name(e, value));
	} else {
		return fail_formula(e, "want a number or a key in ",
				    e->node->text);
	}
	if (root)
		*value = sqrt(*value);
	skip_blanks(e);
	return ST_OK;
}

/* Products and quotients, from left to right. */
static enum st_status
product(struct expr *e, double *value)
{
	skip_blanks(e);
	ST_TRY(factor(e, value));
	while (*e->at == '*' || *e->at == '/') {
		char sign = *e->at++;
		double right;

		skip_blanks(e);
		ST_TRY(factor(e, &right));
		*value = sign == '*' ? *value * right : *value / right;
	}
	return ST_OK;
}

static enum st_status
formula(struct expr *e, const struct st_yaml *node, double *value)
{
	const struct st_yaml *outer = e->node;
	const char *at = e->at;

	if (strlen(node->text) > LONGEST_EXPR)
		return fail_formula(e, "the formula is too long", "");
	e->node = node;
	e->at = node->text;
	ST_TRY(product(e, value));
	if (*e->at)
		return fail_formula(e, "want '*', '/' or the end in ",
				    node->text);
	e->node = outer;
	e->at = at;
	return ST_OK;
}

static enum st_status
number_of(struct expr *e, const struct st_yaml *node, int is_formula,
	  double *value)
{
	if (!node)
		return fail(e, "has no value", "");
	if (node->kind == ST_YAML_INT || node->kind == ST_YAML_FLOAT) {
		*value = node->f;
		return isfinite(node->f)
			       ? ST_OK
			       : fail(e, "the number is too large", "");
	}
	if (node->kind == ST_YAML_STRING && is_formula)
		return formula(e, node, value);
	return fail(e, "want a number, not ",
		    node->kind == ST_YAML_STRING
			    ? node->text
			    : st_yaml_kind_name(node->kind));
}

static enum st_status
evaluate(struct expr *e, double *value)
{
	ST_TRY(number_of(e, e->node, 1, value));
	if (!isfinite(*value))
		return fail(e, "the result is no number", "");
	return ST_OK;
}

/* "head_dim = n_embd / n_head" where the net does not state head_dim. */
static void
describe(struct st_buffer *text, const struct expr *e)
{
	const char *formula = e->node->text;
	const struct st_model_key *key =
		st_family_key(e->model, formula, strlen(formula));

	st_buffer_init(text, e->model->arena);
	st_buffer_puts(text,
		       e->node->kind == ST_YAML_STRING ? formula : e->what);
	if (key && !key->stated && key->otherwise &&
	    key->otherwise->kind == ST_YAML_STRING)
		st_buffer_printf(text, " = %s", key->otherwise->text);
}

static enum st_status
fail_range(struct expr *e, double value, const char *want)
{
	struct st_buffer text;

	describe(&text, e);
	st_buffer_printf(&text, " is %.10g", value);
	e->what = text.text;
	return fail(e, "want ", want);
}

enum st_status
st_expr_number(const struct st_model *model, const struct st_yaml *expr,
	       const char *what, double low, double high, double *value)
{
	struct expr e = {.model = model, .node = expr, .what = what};
	const char *want;

	ST_TRY(evaluate(&e, value));
	if (*value >= low && *value <= high)
		return ST_OK;
	want = st_arena_printf(model->arena, "a number from %g to %g", low,
			       high);
	return fail_range(&e, *value, want ? want : "another number");
}

enum st_status
st_expr_count(const struct st_model *model, const struct st_yaml *expr,
	      const char *what, int64_t *value)
{
	struct expr e = {.model = model, .node = expr, .what = what};
	double x;

	ST_TRY(evaluate(&e, &x));
	if (x < 1 || x > 0x1p40 || x != floor(x))
		return fail_range(&e, x, "a whole number from 1 to 2^40");
	*value = (int64_t)x;
	return ST_OK;
}

/* The value that a word stands for: that of the key it names, or itself. */
static const struct st_yaml *
resolve(struct expr *e)
{
	const struct st_yaml *node = e->node;

	for (int hops = 0; hops < 8 && node->kind == ST_YAML_STRING; hops++) {
		struct st_model_key *key =
			st_family_key(e->model, node->text, strlen(node->text));

		if (!key)
			break;
		key->used = 1;
		e->what = key->name;
		if (key->stated) {
			e->culprit = key->stated->loc;
			return key->stated;
		}
		if (!key->otherwise)
			break;
		node = key->otherwise;
	}
	return node;
}

enum st_status
st_expr_flag(const struct st_model *model, const struct st_yaml *expr,
	     const char *what, int *value)
{
	struct expr e = {.model = model, .node = expr, .what = what};
	const struct st_yaml *node = resolve(&e);

	if (node->kind != ST_YAML_BOOL)
		return fail(&e, "want true or false", "");
	*value = node->i != 0;
	return ST_OK;
}

enum st_status
st_expr_word(const struct st_model *model, const struct st_yaml *expr,
	     const char *what, const char *const *words, int *index)
{
	struct expr e = {.model = model, .node = expr, .what = what};
	const struct st_yaml *node = resolve(&e);
	const char *near;

	for (*index = 0; words[*index]; (*index)++)
		if (strcmp(words[*index], node->text) == 0)
			return ST_OK;
	near = node->text[0] ? st_nearest(node->text, words) : NULL;
	if (near)
		near = st_arena_printf(model->arena,
				       "'%s' is not known; did you mean "
				       "'%s'?",
				       node->text, near);
	else
		near = st_arena_printf(model->arena, "'%s' is not supported",
				       node->text);
	return fail(&e, near ? near : "", "");
}

int
st_expr_is_one(const struct st_model *model, const char *text)
{
	size_t length = name_length(text);

	if (length == 0 || strncmp(text, "sqrt(", 5) == 0)
		return 1;
	return st_family_key(model, text, length) != NULL;
}

void
st_expr_mark(const struct st_model *model, const struct st_yaml *expr)
{
	const char *at = expr->text;

	for (size_t i = 0; i < expr->count; i++)
		st_expr_mark(model, expr->items[i].value);
	while (expr->kind == ST_YAML_STRING && *at) {
		size_t length = name_length(at);
		struct st_model_key *key = st_family_key(model, at, length);

		if (key)
			key->used = 1;
		at += length ? length : 1;
	}
}
