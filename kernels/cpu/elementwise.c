/* Sums, scaling and filling, with and without broadcasting. */

#include "kernels/cpu/vector.h"

#include <assert.h>

enum {
	COLUMNS = 512, /* of a column sum: two tiles lie in the L1 cache */
	ROWS = 64,     /* added up before they meet the total */
	BLOCK = 4096,  /* of a row sum: floats before a double takes over */
};

static void
add_row(const float *a, const float *b, float *y, int64_t n)
{
	ANY_ORDER
	for (int64_t i = 0; i < n; i++)
		y[i] = a[i] + b[i];
}

static void
add_scalar(const float *a, float b, float *y, int64_t n)
{
	ANY_ORDER
	for (int64_t i = 0; i < n; i++)
		y[i] = a[i] + b;
}

static void
scale_row(const float *x, float factor, float *y, int64_t n)
{
	ANY_ORDER
	for (int64_t i = 0; i < n; i++)
		y[i] = factor * x[i];
}

static void
drop_middle(struct st_broadcast_args *s)
{
	s->q = s->p;
	s->sq = s->sp;
	s->p = 1;
	s->sp = 0;
}

/* The same walk with fewer and longer axes: those of extent one go, and two
 * that lie one behind the other become one.  A reduction may be merged like
 * that as well: both axes are kept or both are summed. */
static struct st_broadcast_args
merged(struct st_broadcast_args s)
{
	for (int i = 0; i < 2; i++) {
		if (s.r == 1) {
			s.r = s.q;
			s.sr = s.sq;
			drop_middle(&s);
		} else if (s.q == 1) {
			drop_middle(&s);
		} else if (s.sq == s.sr * s.r) {
			s.r *= s.q;
			drop_middle(&s);
		}
	}
	if (s.sp == s.sq * s.q) {
		s.q *= s.p;
		s.p = 1;
	}
	return s;
}

int
FAST(add)(const struct st_kernel *k)
{
	struct st_broadcast_args s = merged(k->broadcast);
	const float *a = k->ptr[0], *b = k->ptr[1];
	float *y = k->ptr[2];

	if (s.sr > 1)
		return st_ref_add(k);
	for (int64_t p = 0; p < s.p; p++) {
		for (int64_t q = 0; q < s.q; q++, a += s.r, y += s.r) {
			const float *row = b + p * s.sp + q * s.sq;

			if (s.sr == 1)
				add_row(a, row, y, s.r);
			else if (s.r > 0)
				add_scalar(a, *row, y, s.r);
		}
	}
	return ST_KERNEL_OK;
}

static double
row_sum(const float *x, int64_t n)
{
	double total = 0;

	for (int64_t first = 0; first < n; first += BLOCK) {
		int64_t end = n - first < BLOCK ? n : first + BLOCK;
		vfloat even = {0}, odd = {0};

		for (int64_t i = first; i < end; i += 2 * LANES) {
			even += vload(x + i, end - i);
			odd += vload(x + i + LANES, end - i - LANES);
		}
		total += (double)vsum(even + odd);
	}
	return total;
}

/* y[j] = sum over rows, which lie `stride` apart, of x[row][j]. */
static void
column_tile(const float *x, int64_t rows, int64_t stride, int64_t width,
	    float *y)
{
	float total[COLUMNS] = {0};

	for (int64_t first = 0; first < rows; first += ROWS) {
		int64_t end = rows - first < ROWS ? rows : first + ROWS;
		float part[COLUMNS] = {0};

		for (int64_t i = first; i < end; i++)
			for (int64_t j = 0; j < width; j++)
				part[j] += x[i * stride + j];
		for (int64_t j = 0; j < width; j++)
			total[j] += part[j];
	}
	memcpy(y, total, (size_t)width * sizeof(*y));
}

/* One element or one row of y.  After merging, at most one of p and q is
 * summed where r is kept. */
static void
reduce_at(const struct st_broadcast_args *s, const float *a, float *y)
{
	int64_t rows = !s->sq ? s->q : !s->sp ? s->p : 1;
	int64_t stride = !s->sq ? s->r : s->q * s->r;
	double sum = 0;

	if (s->sr == 0) {
		for (int64_t i = 0; i < rows; i++)
			sum += row_sum(a + i * stride, s->r);
		*y = (float)sum;
		return;
	}
	for (int64_t j = 0; j < s->r; j += COLUMNS)
		column_tile(a + j, rows, stride,
			    s->r - j < COLUMNS ? s->r - j : COLUMNS, y + j);
}

int
FAST(reduce_sum)(const struct st_kernel *k)
{
	struct st_broadcast_args s = merged(k->broadcast);
	int64_t pn = s.sp ? s.p : 1, qn = s.sq ? s.q : 1;
	const float *a = k->ptr[0];
	float *y = k->ptr[1];

	if (s.sr > 1 || s.p * s.q * s.r <= 0)
		return st_ref_reduce_sum(k);
	assert(s.sp || s.sq || s.p == 1);
	if (pn * qn * (s.sr ? s.r : 1) < s.count)
		memset(y, 0, (size_t)s.count * sizeof(*y));
	for (int64_t p = 0; p < pn; p++)
		for (int64_t q = 0; q < qn; q++)
			reduce_at(&s, a + (p * s.q + q) * s.r,
				  y + p * s.sp + q * s.sq);
	return ST_KERNEL_OK;
}

int
FAST(scale)(const struct st_kernel *k)
{
	scale_row(k->ptr[0], (float)k->elementwise.factor, k->ptr[1],
		  k->elementwise.count);
	return ST_KERNEL_OK;
}
