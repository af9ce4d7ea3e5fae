/* Reference: kernels that move or make elements without arithmetic. */

#include "kernels/cpu/ref.h"

#include <string.h>

int
st_ref_fill(const struct st_kernel *k)
{
	struct ref y = ref_of(k, 0);

	for (int64_t i = 0; i < k->elementwise.count; i++)
		put(y, i, k->elementwise.factor);
	return ST_KERNEL_OK;
}

static size_t
bytes(const struct st_kernel *k)
{
	return (size_t)k->elementwise.count *
	       st_dtype_size((enum st_dtype)k->dtype);
}

int
st_ref_copy(const struct st_kernel *k)
{
	if (k->ptr[0] != k->ptr[1] && k->elementwise.count > 0)
		memcpy(k->ptr[1], k->ptr[0], bytes(k));
	return ST_KERNEL_OK;
}

int
st_ref_only(const struct st_kernel *k)
{
	if (k->elementwise.keep)
		return st_ref_copy(k);
	if (k->elementwise.count > 0)
		memset(k->ptr[1], 0, bytes(k));
	return ST_KERNEL_OK;
}

int
st_ref_cast(const struct st_kernel *k)
{
	struct ref x = {k->ptr[0], k->cast.from};
	struct ref y = {k->ptr[1], k->cast.to};

	if (!ref_supports(y.dtype))
		return ST_KERNEL_EDTYPE;
	if (!ref_supports(x.dtype) && x.dtype != ST_I32)
		return ST_KERNEL_EDTYPE;
	for (int64_t i = 0; i < k->cast.count; i++)
		put(y, i, get(x, i));
	return ST_KERNEL_OK;
}

int
st_ref_slice(const struct st_kernel *k)
{
	const struct st_slice_args *a = &k->slice;
	int64_t row = a->r * a->size;
	const char *x = k->ptr[0];
	char *y = k->ptr[1];

	if (row <= 0)
		return ST_KERNEL_OK;
	for (int64_t p = 0; p < a->p; p++) {
		for (int64_t i = 0; i < a->n; i++, y += row) {
			int64_t from = a->at + i;

			if (from < a->q)
				memcpy(y, x + (p * a->q + from) * row,
				       (size_t)row);
			else
				memset(y, 0, (size_t)row);
		}
	}
	return ST_KERNEL_OK;
}

int
st_ref_unslice(const struct st_kernel *k)
{
	const struct st_slice_args *a = &k->slice;
	int64_t row = a->r * a->size;
	const char *x = k->ptr[0];
	char *y = k->ptr[1];

	if (row <= 0)
		return ST_KERNEL_OK;
	for (int64_t p = 0; p < a->p; p++) {
		for (int64_t q = 0; q < a->q; q++, y += row) {
			int64_t from = q - a->at;

			if (from >= 0 && from < a->n)
				memcpy(y, x + (p * a->n + from) * row,
				       (size_t)row);
			else
				memset(y, 0, (size_t)row);
		}
	}
	return ST_KERNEL_OK;
}
