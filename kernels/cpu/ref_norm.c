/*
 * Reference: layer norm and RMS norm.
 *
 * With n = (x - mean) rstd and g = w dy, both norms have
 *   dx = rstd (g - mean(g) - n mean(g n)),
 * where RMS norm has no mean to subtract: n = x rstd, and no mean(g).
 */

#include "kernels/cpu/ref.h"

#include <math.h>

/* mean of (x - shift)^power over one row */
static double
moment(struct ref x, int64_t c, double shift, int power)
{
	double sum = 0;

	for (int64_t j = 0; j < c; j++) {
		double d = get(x, j) - shift;

		sum += power == 1 ? d : d * d;
	}
	return sum / (double)c;
}

int
st_ref_layernorm(const struct st_kernel *k)
{
	struct ref w = ref_of(k, 1), b = ref_of(k, 2), y = ref_of(k, 3);
	struct ref means = ref_wide(k, 4), rstds = ref_wide(k, 5);
	int64_t c = k->norm.c;

	if (!ref_supports(k->dtype))
		return ST_KERNEL_EDTYPE;
	for (int64_t i = 0; i < k->norm.rows; i++) {
		struct ref x = ref_from(ref_of(k, 0), i * c);
		double mean = moment(x, c, 0, 1);
		double rstd = 1 / sqrt(moment(x, c, mean, 2) +
				       k->norm.epsilon);

		for (int64_t j = 0; j < c; j++)
			put(y, i * c + j,
			    (get(x, j) - mean) * rstd * get(w, j) + get(b, j));
		put(means, i, mean);
		put(rstds, i, rstd);
	}
	return ST_KERNEL_OK;
}

int
st_ref_rmsnorm(const struct st_kernel *k)
{
	struct ref w = ref_of(k, 1), y = ref_of(k, 2), rstds = ref_wide(k, 3);
	int64_t c = k->norm.c;

	if (!ref_supports(k->dtype))
		return ST_KERNEL_EDTYPE;
	for (int64_t i = 0; i < k->norm.rows; i++) {
		struct ref x = ref_from(ref_of(k, 0), i * c);
		double rstd = 1 / sqrt(moment(x, c, 0, 2) + k->norm.epsilon);

		for (int64_t j = 0; j < c; j++)
			put(y, i * c + j, get(x, j) * rstd * get(w, j));
		put(rstds, i, rstd);
	}
	return ST_KERNEL_OK;
}

struct norm_grad {
	struct ref x, w, mean, rstd, dy; /* mean.at NULL: RMS norm */
	struct ref dx, dw, db;           /* db.at NULL likewise */
	int64_t rows, c;
};

static double
normalised(const struct norm_grad *n, int64_t row, int64_t j)
{
	double mean = n->mean.at ? get(n->mean, row) : 0;

	return (get(n->x, row * n->c + j) - mean) * get(n->rstd, row);
}

/* One column over all rows. */
static void
grad_parameters(const struct norm_grad *n, int64_t j)
{
	double dw = 0, db = 0;

	for (int64_t i = 0; i < n->rows; i++) {
		double dy = get(n->dy, i * n->c + j);

		dw += dy * normalised(n, i, j);
		db += dy;
	}
	put(n->dw, j, dw);
	if (n->db.at)
		put(n->db, j, db);
}

static void
grad_row(const struct norm_grad *n, int64_t row)
{
	int64_t c = n->c, at = row * c;
	double g_mean = 0, gn_mean = 0;

	for (int64_t j = 0; j < c; j++) {
		double g = get(n->w, j) * get(n->dy, at + j);

		g_mean += g / (double)c;
		gn_mean += g * normalised(n, row, j) / (double)c;
	}
	if (!n->mean.at)
		g_mean = 0;
	for (int64_t j = 0; j < c; j++) {
		double g = get(n->w, j) * get(n->dy, at + j);

		put(n->dx, at + j,
		    get(n->rstd, row) *
			    (g - g_mean - normalised(n, row, j) * gn_mean));
	}
}

/* Columns first: dx may lie over x or dy. */
static int
norm_grad(const struct norm_grad *n)
{
	if (!ref_supports(n->x.dtype))
		return ST_KERNEL_EDTYPE;
	for (int64_t j = 0; j < n->c; j++)
		grad_parameters(n, j);
	for (int64_t i = 0; i < n->rows; i++)
		grad_row(n, i);
	return ST_KERNEL_OK;
}

int
st_ref_layernorm_grad(const struct st_kernel *k)
{
	struct norm_grad n = {
		.x = ref_of(k, 0), .w = ref_of(k, 1), .mean = ref_wide(k, 2),
		.rstd = ref_wide(k, 3), .dy = ref_of(k, 4), .dx = ref_of(k, 5),
		.dw = ref_of(k, 6), .db = ref_of(k, 7),
		.rows = k->norm.rows, .c = k->norm.c,
	};

	return norm_grad(&n);
}

int
st_ref_rmsnorm_grad(const struct st_kernel *k)
{
	struct norm_grad n = {
		.x = ref_of(k, 0), .w = ref_of(k, 1), .rstd = ref_wide(k, 2),
		.dy = ref_of(k, 3), .dx = ref_of(k, 4), .dw = ref_of(k, 5),
		.rows = k->norm.rows, .c = k->norm.c,
	};

	return norm_grad(&n);
}
