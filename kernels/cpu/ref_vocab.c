/* Reference: embedding and cross-entropy over a slice of a vocabulary. */

#include "kernels/cpu/ref.h"
#include "kernels/cpu/vocab.h"

#include <math.h>

int
st_ref_embedding(const struct st_kernel *k)
{
	const struct st_vocab_args *a = &k->vocab;
	const int32_t *tokens = k->ptr[0];
	struct ref w = ref_of(k, 1), x = ref_of(k, 2);

	if (!ref_supports(k->dtype))
		return ST_KERNEL_EDTYPE;
	if (vocab_check(a, tokens))
		return ST_KERNEL_ERANGE;
	for (int64_t r = 0; r < a->t * a->b; r++) {
		int64_t row = vocab_row(a, tokens, r);

		for (int64_t j = 0; j < a->c; j++)
			put(x, r * a->c + j,
			    row < 0 ? 0 : get(w, row * a->c + j));
	}
	return ST_KERNEL_OK;
}

/* The one reference that rounds as it sums: rows of dw are found by the
 * tokens, so that a sum in double would need a table of the same size. */
int
st_ref_embedding_grad(const struct st_kernel *k)
{
	const struct st_vocab_args *a = &k->vocab;
	const int32_t *tokens = k->ptr[0];
	struct ref dx = ref_of(k, 1), dw = ref_of(k, 2);

	if (!ref_supports(k->dtype))
		return ST_KERNEL_EDTYPE;
	if (vocab_check(a, tokens))
		return ST_KERNEL_ERANGE;
	for (int64_t i = 0; i < a->v * a->c; i++)
		put(dw, i, 0);
	for (int64_t r = 0; r < a->t * a->b; r++) {
		int64_t row = vocab_row(a, tokens, r);

		for (int64_t j = 0; row >= 0 && j < a->c; j++)
			put(dw, row * a->c + j,
			    get(dw, row * a->c + j) + get(dx, r * a->c + j));
	}
	return ST_KERNEL_OK;
}

int
st_ref_xent_max(const struct st_kernel *k)
{
	const struct st_vocab_args *a = &k->vocab;
	struct ref logits = ref_of(k, 0), m = ref_wide(k, 1);

	if (!ref_supports(k->dtype))
		return ST_KERNEL_EDTYPE;
	for (int64_t r = 0; r < a->t * a->b; r++) {
		double most = -INFINITY;

		for (int64_t j = 0; j < vocab_valid(a); j++) {
			double logit = get(logits, r * a->v + j);

			if (logit > most || logit != logit)
				most = logit;
		}
		put(m, r, most);
	}
	return ST_KERNEL_OK;
}

int
st_ref_xent_sum(const struct st_kernel *k)
{
	const struct st_vocab_args *a = &k->vocab;
	const int32_t *targets = k->ptr[1];
	struct ref logits = ref_of(k, 0), m = ref_wide(k, 2);
	struct ref s = ref_wide(k, 3), z = ref_wide(k, 4);

	if (!ref_supports(k->dtype))
		return ST_KERNEL_EDTYPE;
	if (vocab_check(a, targets))
		return ST_KERNEL_ERANGE;
	for (int64_t r = 0; r < a->t * a->b; r++) {
		int64_t target = vocab_row(a, targets, r);
		double most = get(m, r), sum = 0;

		for (int64_t j = 0; j < vocab_valid(a); j++)
			if (most != -INFINITY)
				sum += exp(get(logits, r * a->v + j) - most);
		put(s, r, sum);
		put(z, r, target < 0 ? 0 : get(logits, r * a->v + target));
	}
	return ST_KERNEL_OK;
}

int
st_ref_xent_loss(const struct st_kernel *k)
{
	const struct st_vocab_args *a = &k->vocab;
	struct ref m = ref_of(k, 0), s = ref_of(k, 1), z = ref_of(k, 2);
	double sum = 0;

	if (!ref_supports(k->dtype))
		return ST_KERNEL_EDTYPE;
	for (int64_t r = 0; r < a->t * a->b; r++)
		sum += get(m, r) + log(get(s, r)) - get(z, r);
	put(ref_of(k, 3), 0, a->factor * sum);
	return ST_KERNEL_OK;
}

static double
softmax(double logit, double m, double s)
{
	return s > 0 ? exp(logit - m) / s : s;
}

int
st_ref_xent_grad(const struct st_kernel *k)
{
	const struct st_vocab_args *a = &k->vocab;
	const int32_t *targets = k->ptr[1];
	struct ref logits = ref_of(k, 0), dlogits = ref_of(k, 4);
	struct ref m = ref_wide(k, 2), s = ref_wide(k, 3);

	if (!ref_supports(k->dtype))
		return ST_KERNEL_EDTYPE;
	if (vocab_check(a, targets))
		return ST_KERNEL_ERANGE;
	for (int64_t r = 0; r < a->t * a->b; r++) {
		int64_t target = vocab_row(a, targets, r);

		for (int64_t j = 0; j < a->v; j++) {
			int64_t at = r * a->v + j;
			double p = softmax(get(logits, at), get(m, r),
					   get(s, r));

			if (j == target)
				p -= 1;
			if (j >= vocab_valid(a))
				p = 0;
			put(dlogits, at, a->factor * p);
		}
	}
	return ST_KERNEL_OK;
}
