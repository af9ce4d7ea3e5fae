/* Arguments of the layer that is being lowered. */

#include "models/lower.h"

#include <string.h>

int64_t
st_lower_count(struct st_lowering *l, const struct st_yaml *node,
	       const char *what)
{
	int64_t value = 1;

	if (!st_lower_failed(l))
		l->b.status = st_expr_count(l->model, node, what, &value);
	return value;
}

double
st_lower_number(struct st_lowering *l, const char *arg, double low, double high)
{
	double value = 0;

	if (!st_lower_failed(l))
		l->b.status = st_expr_number(l->model, st_lower_arg(l, arg),
					     arg, low, high, &value);
	return value;
}

int
st_lower_flag(struct st_lowering *l, const char *arg, int otherwise)
{
	const struct st_yaml *node = st_lower_arg(l, arg);

	if (node && !st_lower_failed(l))
		l->b.status = st_expr_flag(l->model, node, arg, &otherwise);
	return otherwise;
}

int
st_lower_word(struct st_lowering *l, const char *arg, const char *const *words)
{
	const struct st_yaml *node = st_lower_arg(l, arg);
	int index = 0;

	if (node && !st_lower_failed(l))
		l->b.status = st_expr_word(l->model, node, arg, words, &index);
	return st_lower_failed(l) ? 0 : index;
}

enum st_cut
st_lower_cut(struct st_lowering *l)
{
	static const char *const words[] = {"none", "column", "row",
					    "vocabulary", NULL};

	return (enum st_cut)st_lower_word(l, "cut", words);
}

/* Standard deviation of random weights: `std`, else the key
 * initializer_range, else 0.02. */
double
st_lower_std(struct st_lowering *l)
{
	static const char range[] = "initializer_range";
	const struct st_yaml *node = st_lower_arg(l, "std");
	double value = 0.02;
	struct st_yaml *implied;

	if (!node && st_family_key(l->model, range, sizeof(range) - 1)) {
		implied = st_yaml_plain(l->model->arena, range);
		if (!implied) {
			l->b.status = st_error_memory(l->model->diag);
			return value;
		}
		implied->loc = l->at;
		node = implied;
	}
	if (node && !st_lower_failed(l))
		l->b.status =
			st_expr_number(l->model, node, "std", 0, 1e6, &value);
	return value;
}

/* Base of the parameters' names: `param`, else the layer's name. */
const char *
st_lower_base(const struct st_lowering *l)
{
	const struct st_yaml *param = st_lower_arg(l, "param");

	return param ? param->text : l->name;
}

/* Adds an extent of the stated factors, behind `fused` of them; returns the
 * index of the first stated one: that is what a cut falls on. */
int
st_lower_extent(struct st_lowering *l, struct st_type *type, const char *arg,
		int64_t fused)
{
	const struct st_yaml *node = st_lower_arg(l, arg);
	int list = node->kind == ST_YAML_LIST;
	size_t n = list ? node->count : 1;
	int first, joined = fused > 1;

	if (joined && st_type_add_extent(type, fused))
		st_lower_fail(l, "too many factors", "");
	first = type->factors;
	if (n == 0)
		st_lower_fail(l, arg, ": the list is empty");
	for (size_t i = 0; i < n && !st_lower_failed(l); i++) {
		int64_t size = st_lower_count(
			l, list ? node->items[i].value : node, arg);

		if (joined ? st_type_join_factor(type, size)
			   : st_type_add_extent(type, size))
			st_lower_fail(l, "too many factors", "");
		joined = 1;
	}
	return first;
}
