/* Element-wise reduction over ranks, in the order of the ranks. */

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/vector.h"

/* Tiles: the accumulator stays in the nearest cache while each input is read
 * once, and out is written only after every input of the tile was read. */
enum { TILE = 1024 };

#define LARGER(x, y) ((y) > (x) || (y) != (y) ? (y) : (x))

#define DEFINE_REDUCE(name, stored, type, load, store)                     \
	static void                                                        \
	name(int reduction, void *out, const void *const *in, int n,       \
	     size_t first, size_t width)                                   \
	{                                                                  \
		const stored *x = (const stored *)in[0] + first;           \
		stored *y = (stored *)out + first;                         \
		type sum[TILE];                                            \
                                                                           \
		for (size_t i = 0; i < width; i++)                         \
			sum[i] = load(x[i]);                               \
		for (int j = 1; j < n; j++) {                              \
			x = (const stored *)in[j] + first;                 \
			if (reduction == ST_CPU_MAX)                       \
				for (size_t i = 0; i < width; i++)         \
					sum[i] = LARGER(sum[i],            \
							load(x[i]));       \
			else                                               \
				for (size_t i = 0; i < width; i++)         \
					sum[i] = sum[i] + load(x[i]);      \
		}                                                          \
		for (size_t i = 0; i < width; i++)                         \
			y[i] = store(sum[i]);                              \
	}

#define SAME(x) (x)
/* Sums of int32 are exact in int64 and wrap around once, at the end. */
#define WRAP(x) ((int32_t)(x))

DEFINE_REDUCE(reduce_f64, double, double, SAME, SAME)
DEFINE_REDUCE(reduce_f32, float, float, SAME, SAME)
DEFINE_REDUCE(reduce_bf16, uint16_t, float, bf16_to_float, bf16_from_float)
DEFINE_REDUCE(reduce_i32, int32_t, int64_t, SAME, WRAP)

int
FAST(reduce)(int dtype, int reduction, void *out, const void *const *in,
	      int n, size_t count)
{
	void (*tile)(int, void *, const void *const *, int, size_t, size_t);

	switch (dtype) {
	case ST_F64: tile = reduce_f64; break;
	case ST_F32: tile = reduce_f32; break;
	case ST_BF16: tile = reduce_bf16; break;
	case ST_I32: tile = reduce_i32; break;
	default: return ST_KERNEL_EDTYPE;
	}
	for (size_t i = 0; i < count; i += TILE)
		tile(reduction, out, in, n, i,
		     count - i < TILE ? count - i : TILE);
	return ST_KERNEL_OK;
}
