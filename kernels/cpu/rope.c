/*
 * Rotary embedding.  The angles of one position serve every sequence and
 * head.  Going to the next position is a rotation, done in double and begun
 * afresh every ANCHOR positions, so that sin and cos are seldom called and
 * their error stays far below a float's.
 */

#include "kernels/cpu/vector.h"

enum {
	PAIRS = 128, /* of a tile: heads of 256 channels in one pass */
	ANCHOR = 64,
};

struct angles {
	double turn[PAIRS];                     /* a position, in radians */
	double cos_turn[PAIRS], sin_turn[PAIRS];
	double cos_now[PAIRS], sin_now[PAIRS];
	float c[PAIRS], s[PAIRS];
};

static void
init_angles(struct angles *n, const struct st_rope_args *a, int64_t first,
	    int64_t width)
{
	for (int64_t i = 0; i < width; i++) {
		double turn = pow(a->theta, -2.0 * (double)(first + i) /
						    (double)a->d);

		n->turn[i] = a->inverse ? -turn : turn;
		n->cos_turn[i] = cos(turn);
		n->sin_turn[i] = sin(n->turn[i]);
	}
}

static void
anchor_angles(struct angles *n, int64_t position, int64_t width)
{
	for (int64_t i = 0; i < width; i++) {
		n->cos_now[i] = cos((double)position * n->turn[i]);
		n->sin_now[i] = sin((double)position * n->turn[i]);
	}
}

/* Leaves this position's angles in c and s and turns to the next. */
static void
turn_angles(struct angles *n, int64_t width)
{
	for (int64_t i = 0; i < width; i++) {
		double c = n->cos_now[i], s = n->sin_now[i];

		n->c[i] = (float)c;
		n->s[i] = (float)s;
		n->cos_now[i] = c * n->cos_turn[i] - s * n->sin_turn[i];
		n->sin_now[i] = s * n->cos_turn[i] + c * n->sin_turn[i];
	}
}

static void
rotate(const struct angles *n, const float *x, float *y, int64_t half,
       int64_t width)
{
	ANY_ORDER
	for (int64_t i = 0; i < width; i++) {
		float u = x[i], v = x[half + i];

		y[i] = u * n->c[i] - v * n->s[i];
		y[half + i] = v * n->c[i] + u * n->s[i];
	}
}

int
FAST(rope)(const struct st_kernel *k)
{
	const struct st_rope_args *a = &k->rope;
	const float *x = k->ptr[0];
	float *y = k->ptr[1];
	int64_t half = a->d / 2, heads = a->b * a->heads;
	struct angles n;

	for (int64_t i = 0; i < half; i += PAIRS) {
		int64_t width = half - i < PAIRS ? half - i : PAIRS;

		init_angles(&n, a, i, width);
		for (int64_t t = 0; t < a->t; t++) {
			if (t % ANCHOR == 0)
				anchor_angles(&n, t + a->start, width);
			turn_angles(&n, width);
			for (int64_t h = t * heads; h < (t + 1) * heads; h++)
				rotate(&n, x + h * a->d + i, y + h * a->d + i,
				       half, width);
		}
	}
	return ST_KERNEL_OK;
}
