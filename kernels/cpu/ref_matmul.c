/* Reference: matrix product. */

#include "kernels/cpu/ref.h"

int
st_ref_matmul(const struct st_kernel *k)
{
	const struct st_matmul_args *g = &k->matmul;
	struct ref a = ref_of(k, 0), b = ref_of(k, 1), c = ref_of(k, 2);
	int64_t a_row = g->trans_a ? 1 : g->lda;
	int64_t a_col = g->trans_a ? g->lda : 1;
	int64_t b_row = g->trans_b ? 1 : g->ldb;
	int64_t b_col = g->trans_b ? g->ldb : 1;

	if (!ref_supports(k->dtype))
		return ST_KERNEL_EDTYPE;
	for (int64_t i = 0; i < g->m; i++) {
		for (int64_t j = 0; j < g->n; j++) {
			int64_t at = i * g->ldc + j;
			double sum = g->accumulate ? get(c, at) : 0;

			for (int64_t l = 0; l < g->k; l++)
				sum += get(a, i * a_row + l * a_col) *
				       get(b, l * b_row + j * b_col);
			put(c, at, sum);
		}
	}
	return ST_KERNEL_OK;
}
