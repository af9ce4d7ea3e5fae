/* Splits IR text into tokens. */

#include "ir/lex.h"

#include <string.h>

static void
skip_blanks(struct st_lexer *lexer)
{
	while (lexer->at < lexer->end) {
		char c = *lexer->at;

		if (c == '#') {
			while (lexer->at < lexer->end && *lexer->at != '\n')
				lexer->at++;
		} else if (c == '\n') {
			lexer->at++;
			lexer->line++;
			lexer->line_start = lexer->at;
		} else if (c == ' ' || c == '\t' || c == '\r') {
			lexer->at++;
		} else {
			break;
		}
	}
}

void
st_lexer_init(struct st_lexer *lexer, const struct st_diag *diag,
	      uint32_t source)
{
	const struct st_source *file = &diag->sources[source];

	lexer->at = lexer->line_start = file->text;
	lexer->end = file->text + file->length;
	lexer->source = source;
	lexer->line = 1;
	skip_blanks(lexer);
}

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

static int
is_name(char c)
{
	return is_letter(c) || is_digit(c) || c == '.' || c == '/';
}

/* Words stop at '/', so that "8/tp" and "u8" need no blanks; names do not. */
static void
take_name(struct st_lexer *lexer, struct st_token *token, int slash)
{
	token->text = lexer->at;
	while (lexer->at < lexer->end && is_name(*lexer->at) &&
	       (slash || *lexer->at != '/'))
		lexer->at++;
	token->length = (size_t)(lexer->at - token->text);
}

static void
take_number(struct st_lexer *lexer, struct st_token *token)
{
	token->kind = ST_TOKEN_NUMBER;
	token->text = lexer->at;
	lexer->at++;
	while (lexer->at < lexer->end &&
	       (is_digit(*lexer->at) || *lexer->at == '.' ||
		*lexer->at == 'e' ||
		((*lexer->at == '-' || *lexer->at == '+') &&
		 lexer->at[-1] == 'e')))
		lexer->at++;
	token->length = (size_t)(lexer->at - token->text);
}

static void
take_string(struct st_lexer *lexer, struct st_token *token)
{
	token->kind = ST_TOKEN_STRING;
	token->text = ++lexer->at;
	while (lexer->at < lexer->end && *lexer->at != '"' &&
	       *lexer->at != '\n') {
		if (*lexer->at == '\\' && lexer->end - lexer->at > 1)
			lexer->at++;
		lexer->at++;
	}
	token->length = (size_t)(lexer->at - token->text);
	if (lexer->at >= lexer->end || *lexer->at != '"') {
		token->kind = ST_TOKEN_BAD;
		token->fault = "the string does not end on its line";
		return;
	}
	lexer->at++;
}

static void
take_sigil(struct st_lexer *lexer, struct st_token *token,
	   enum st_token_kind kind)
{
	lexer->at++;
	token->kind = kind;
	take_name(lexer, token, 1);
	if (token->length == 0) {
		token->kind = ST_TOKEN_BAD;
		token->fault = "a name must follow";
	}
}

static void
take(struct st_lexer *lexer, struct st_token *token)
{
	char c = *lexer->at;
	char next = lexer->end - lexer->at > 1 ? lexer->at[1] : '\0';

	if (is_letter(c)) {
		token->kind = ST_TOKEN_WORD;
		take_name(lexer, token, 0);
	} else if (is_digit(c) || (c == '-' && is_digit(next))) {
		take_number(lexer, token);
	} else if (lexer->end - lexer->at >= 4 &&
		   memcmp(lexer->at, "-inf", 4) == 0) {
		token->kind = ST_TOKEN_NUMBER;
		token->text = lexer->at;
		token->length = 4;
		lexer->at += 4;
	} else if (c == '%') {
		take_sigil(lexer, token, ST_TOKEN_VALUE);
	} else if (c == '@' && !is_digit(next)) {
		take_sigil(lexer, token, ST_TOKEN_ENTRY);
	} else if (c == '"') {
		take_string(lexer, token);
	} else if (c == '-' && next == '>') {
		token->kind = ST_TOKEN_PUNCT;
		token->punct = '>';
		lexer->at += 2;
	} else if (strchr("=:,()[]{}*+/<>!@", c) && c != '\0') {
		token->kind = ST_TOKEN_PUNCT;
		token->punct = c;
		lexer->at++;
	} else {
		token->kind = ST_TOKEN_BAD;
		token->fault = "this character has no place here";
		lexer->at++;
	}
}

struct st_token
st_lex(struct st_lexer *lexer)
{
	struct st_token token;
	const char *start;

	memset(&token, 0, sizeof(token));
	skip_blanks(lexer);
	start = lexer->at;
	token.loc.source = lexer->source;
	token.loc.line = lexer->line;
	token.loc.column = (uint32_t)(start - lexer->line_start) + 1;
	if (lexer->at < lexer->end)
		take(lexer, &token);
	token.loc.length = (uint32_t)(lexer->at - start);
	if (token.kind != ST_TOKEN_STRING && token.kind != ST_TOKEN_VALUE &&
	    token.kind != ST_TOKEN_ENTRY && token.kind != ST_TOKEN_NUMBER &&
	    token.kind != ST_TOKEN_WORD) {
		token.text = start;
		token.length = (size_t)(lexer->at - start);
	}
	return token;
}
