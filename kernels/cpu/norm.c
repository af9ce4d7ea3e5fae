/*
 * Layer norm and RMS norm.  A row is read from memory once and then from the
 * nearest cache; the gradient works on blocks of rows that lie in the next
 * one, because parameters want sums over columns and inputs over rows.
 */

#include "kernels/cpu/vector.h"

enum {
	VECTORS = 4, /* of columns at a time */
	ROWS = 32,   /* of a block */
};

/* Sum of x - shift, or of its square, over a row. */
INLINE float
deviation(const float *x, int64_t c, float shift, int square)
{
	vfloat even = {0}, odd = {0};

	for (int64_t j = 0; j < c; j += 2 * LANES) {
		vfloat a = vload_or(x + j, c - j, shift) - shift;
		vfloat b = vload_or(x + j + LANES, c - j - LANES, shift) -
			   shift;

		even += square ? a * a : a;
		odd += square ? b * b : b;
	}
	return vsum(even + odd);
}

static void
layernorm_row(const float *x, const float *w, const float *b, float *y,
	      float *mean, float *rstd, int64_t c, float epsilon)
{
	float m = deviation(x, c, 0, 0) / (float)c;
	float s = 1 / sqrtf(deviation(x, c, m, 1) / (float)c + epsilon);

	ANY_ORDER
	for (int64_t j = 0; j < c; j++)
		y[j] = (x[j] - m) * s * w[j] + b[j];
	*mean = m;
	*rstd = s;
}

static void
rmsnorm_row(const float *x, const float *w, float *y, float *rstd, int64_t c,
	    float epsilon)
{
	float s = 1 / sqrtf(deviation(x, c, 0, 1) / (float)c + epsilon);

	ANY_ORDER
	for (int64_t j = 0; j < c; j++)
		y[j] = x[j] * s * w[j];
	*rstd = s;
}

int
FAST(layernorm)(const struct st_kernel *k)
{
	const float *x = k->ptr[0];
	float *y = k->ptr[3], *mean = k->ptr[4], *rstd = k->ptr[5];
	int64_t c = k->norm.c;

	for (int64_t i = 0; i < k->norm.rows; i++)
		layernorm_row(x + i * c, k->ptr[1], k->ptr[2], y + i * c,
			      mean + i, rstd + i, c, (float)k->norm.epsilon);
	return ST_KERNEL_OK;
}

int
FAST(rmsnorm)(const struct st_kernel *k)
{
	const float *x = k->ptr[0];
	float *y = k->ptr[2], *rstd = k->ptr[3];
	int64_t c = k->norm.c;

	for (int64_t i = 0; i < k->norm.rows; i++)
		rmsnorm_row(x + i * c, k->ptr[1], y + i * c, rstd + i, c,
			    (float)k->norm.epsilon);
	return ST_KERNEL_OK;
}

struct norm_grad {
	const float *x, *w, *mean, *rstd, *dy; /* mean NULL: RMS norm */
	float *dx, *dw, *db;                   /* db NULL likewise */
	int64_t rows, c;
};

/* Adds rows [first, end) of VECTORS vectors of columns from j on to dw and
 * db: the sums stay in registers. */
static void
grad_columns(const struct norm_grad *n, int64_t first, int64_t end, int64_t j)
{
	vfloat dw[VECTORS] = {{0}}, db[VECTORS] = {{0}};

	for (int64_t i = first; i < end; i++) {
		const float *x = n->x + i * n->c, *dy = n->dy + i * n->c;
		float mean = n->mean ? n->mean[i] : 0, rstd = n->rstd[i];

		for (int v = 0; v < VECTORS; v++) {
			int64_t at = j + v * LANES, left = n->c - at;
			vfloat d = vload(dy + at, left);

			dw[v] += d * ((vload(x + at, left) - mean) * rstd);
			db[v] += d;
		}
	}
	for (int v = 0; v < VECTORS; v++) {
		int64_t at = j + v * LANES, left = n->c - at;

		vstore(n->dw + at, dw[v] + vload(n->dw + at, left), left);
		if (n->db)
			vstore(n->db + at, db[v] + vload(n->db + at, left),
			       left);
	}
}

static void
grad_row(const struct norm_grad *n, int64_t row)
{
	const float *x = n->x + row * n->c, *dy = n->dy + row * n->c;
	const float *w = n->w;
	float *dx = n->dx + row * n->c;
	float mean = n->mean ? n->mean[row] : 0, rstd = n->rstd[row];
	vfloat g_sum = {0}, gn_sum = {0};
	float g_mean, gn_mean;

	for (int64_t j = 0; j < n->c; j += LANES) {
		int64_t left = n->c - j;
		vfloat g = vload(w + j, left) * vload(dy + j, left);

		g_sum += g;
		gn_sum += g * ((vload(x + j, left) - mean) * rstd);
	}
	g_mean = n->mean ? vsum(g_sum) / (float)n->c : 0;
	gn_mean = vsum(gn_sum) / (float)n->c;
	ANY_ORDER
	for (int64_t j = 0; j < n->c; j++)
		dx[j] = rstd * (w[j] * dy[j] - g_mean -
				(x[j] - mean) * rstd * gn_mean);
}

/* Columns of a block before its rows: dx may lie over x or dy. */
static void
norm_grad(const struct norm_grad *n)
{
	memset(n->dw, 0, (size_t)n->c * sizeof(float));
	if (n->db)
		memset(n->db, 0, (size_t)n->c * sizeof(float));
	for (int64_t i = 0; i < n->rows; i += ROWS) {
		int64_t end = n->rows - i < ROWS ? n->rows : i + ROWS;

		for (int64_t j = 0; j < n->c; j += VECTORS * LANES)
			grad_columns(n, i, end, j);
		for (int64_t row = i; row < end; row++)
			grad_row(n, row);
	}
}

int
FAST(layernorm_grad)(const struct st_kernel *k)
{
	struct norm_grad n = {
		.x = k->ptr[0], .w = k->ptr[1], .mean = k->ptr[2],
		.rstd = k->ptr[3], .dy = k->ptr[4], .dx = k->ptr[5],
		.dw = k->ptr[6], .db = k->ptr[7],
		.rows = k->norm.rows, .c = k->norm.c,
	};

	norm_grad(&n);
	return ST_KERNEL_OK;
}

int
FAST(rmsnorm_grad)(const struct st_kernel *k)
{
	struct norm_grad n = {
		.x = k->ptr[0], .w = k->ptr[1], .rstd = k->ptr[2],
		.dy = k->ptr[3], .dx = k->ptr[4], .dw = k->ptr[5],
		.rows = k->norm.rows, .c = k->norm.c,
	};

	norm_grad(&n);
	return ST_KERNEL_OK;
}
