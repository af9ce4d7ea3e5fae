#ifndef ST_LEX_H
#define ST_LEX_H

/* Tokens of the IR text.  Blanks and newlines separate; '#' starts a
 * comment that runs to the end of its line. */

#include "ir/diag.h"

enum st_token_kind {
	ST_TOKEN_END,
	ST_TOKEN_WORD,   /* letters, digits, '_', '.', '/' after a letter */
	ST_TOKEN_VALUE,  /* %name */
	ST_TOKEN_ENTRY,  /* @name */
	ST_TOKEN_NUMBER, /* integer or float */
	ST_TOKEN_STRING,
	ST_TOKEN_PUNCT,  /* one character, or "->" */
	ST_TOKEN_BAD,
};

struct st_token {
	enum st_token_kind kind;
	const char *text; /* without the sigil or quotes */
	size_t length;
	struct st_loc loc;
	char punct; /* '>' for "->" */
	const char *fault; /* of a bad token */
};

struct st_lexer {
	const char *at, *end, *line_start;
	uint32_t source, line;
};

/* Stands behind leading blanks and comments afterwards. */
void st_lexer_init(struct st_lexer *lexer, const struct st_diag *diag,
		   uint32_t source);
struct st_token st_lex(struct st_lexer *lexer);

#endif
