/* Reference: gradient clipping, schedules, AdamW, and initial values. */

#include "kernels/cpu/ref.h"

#include <math.h>

static const double PI = 3.14159265358979323846;

int
st_ref_sumsq(const struct st_kernel *k)
{
	struct ref g = ref_of(k, 0);
	double sum = 0;

	if (!ref_supports(k->dtype))
		return ST_KERNEL_EDTYPE;
	for (int64_t i = 0; i < k->optimizer.count; i++)
		sum += get(g, i) * get(g, i);
	put(ref_wide(k, 1), 0, sum);
	return ST_KERNEL_OK;
}

int
st_ref_clip(const struct st_kernel *k)
{
	double most = k->optimizer.max_norm;
	double norm, coefficient = 1;

	if (!ref_supports(k->dtype))
		return ST_KERNEL_EDTYPE;
	norm = sqrt(get(ref_of(k, 0), 0));
	if (most > 0 && !(most / (norm + 1e-6) >= 1))
		coefficient = most / (norm + 1e-6); /* NaN stays one */
	put(ref_of(k, 1), 0, coefficient);
	put(ref_of(k, 2), 0, norm);
	return ST_KERNEL_OK;
}

int
st_ref_step_count(const struct st_kernel *k)
{
	const int32_t *t = k->ptr[0];
	int32_t *next = k->ptr[1];

	*next = *t + 1;
	return ST_KERNEL_OK;
}

static double
rate(const struct st_optimizer_args *a, double t)
{
	double done;

	if (t < a->warmup)
		return a->rate * t / a->warmup;
	if (a->total <= 0)
		return a->rate;
	if (t >= a->total)
		return a->floor;
	done = (t - a->warmup) / (a->total - a->warmup);
	return a->floor + 0.5 * (a->rate - a->floor) * (1 + cos(PI * done));
}

int
st_ref_learning_rate(const struct st_kernel *k)
{
	const int32_t *t = k->ptr[0];

	if (!ref_supports(k->dtype))
		return ST_KERNEL_EDTYPE;
	put(ref_of(k, 1), 0, rate(&k->optimizer, *t));
	return ST_KERNEL_OK;
}

int
st_ref_adamw(const struct st_kernel *k)
{
	const struct st_optimizer_args *a = &k->optimizer;
	struct ref w = ref_of(k, 0), g = ref_of(k, 1), m = ref_of(k, 2);
	struct ref v = ref_of(k, 3);
	const int32_t *t = k->ptr[6];
	double coefficient, lr, m_bias, v_bias;

	if (!ref_supports(k->dtype))
		return ST_KERNEL_EDTYPE;
	coefficient = get(ref_of(k, 4), 0);
	lr = get(ref_of(k, 5), 0);
	m_bias = 1 - pow(a->beta1, *t);
	v_bias = 1 - pow(a->beta2, *t);
	for (int64_t i = 0; i < a->count; i++) {
		double gi = get(g, i) * coefficient, wi = get(w, i);
		double mi = a->beta1 * get(m, i) + (1 - a->beta1) * gi;
		double vi = a->beta2 * get(v, i) + (1 - a->beta2) * gi * gi;
		double step = mi / m_bias /
			      (sqrt(vi / v_bias) + a->epsilon);

		put(ref_of(k, 7), i, wi - lr * (step + a->decay * wi));
		put(ref_of(k, 8), i, mi);
		put(ref_of(k, 9), i, vi);
	}
	return ST_KERNEL_OK;
}

/* Value n (from 1) of the splitmix64 sequence that starts at state. */
static uint64_t
splitmix64(uint64_t state, uint64_t n)
{
	uint64_t z = state + n * 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* Box-Muller on two numbers of 53 bits; u is in (0, 1], v in [0, 1). */
static double
normal(uint64_t state)
{
	double u = (double)((splitmix64(state, 1) >> 11) + 1) * 0x1p-53;
	double v = (double)(splitmix64(state, 2) >> 11) * 0x1p-53;

	return sqrt(-2 * log(u)) * cos(2 * PI * v);
}

/* Global index of local element i, or -1 where it is padding. */
static int64_t
global_index(const struct st_random_args *a, int64_t i)
{
	int64_t index = 0;

	for (int32_t j = a->dims - 1; j >= 0; j--) {
		int64_t at = a->begin[j] + i % a->extent[j];

		if (at >= a->limit[j])
			return -1;
		index += at * a->stride[j];
		i /= a->extent[j];
	}
	return i > 0 ? -1 : index;
}

int
st_ref_random(const struct st_kernel *k)
{
	const struct st_random_args *a = &k->random;
	struct ref y = ref_of(k, 0);

	if (!ref_supports(k->dtype))
		return ST_KERNEL_EDTYPE;
	for (int64_t i = 0; i < a->count; i++) {
		int64_t index = global_index(a, a->first + i);
		uint64_t state = a->seed ^ a->stream ^ (uint64_t)index;

		put(y, i,
		    index < 0 ? 0 : a->mean + a->deviation * normal(state));
	}
	return ST_KERNEL_OK;
}
