/* Matrix product: whichever CBLAS the build has found. */

#include "kernels/cpu/cpu.h"

#include <cblas.h>

static void
product_f32(const struct st_matmul_args *g, const float *a, const float *b,
	    float *c)
{
	cblas_sgemm(CblasRowMajor, g->trans_a ? CblasTrans : CblasNoTrans,
		    g->trans_b ? CblasTrans : CblasNoTrans, (int)g->m,
		    (int)g->n, (int)g->k, 1, a, (int)g->lda, b, (int)g->ldb,
		    g->accumulate ? 1 : 0, c, (int)g->ldc);
}

static void
product_f64(const struct st_matmul_args *g, const double *a, const double *b,
	    double *c)
{
	cblas_dgemm(CblasRowMajor, g->trans_a ? CblasTrans : CblasNoTrans,
		    g->trans_b ? CblasTrans : CblasNoTrans, (int)g->m,
		    (int)g->n, (int)g->k, 1, a, (int)g->lda, b, (int)g->ldb,
		    g->accumulate ? 1 : 0, c, (int)g->ldc);
}

/* CBLAS stops the program over an extent that it finds illegal, and an empty
 * product with its strides may be one: that goes to the reference. */
int
st_cpu_matmul(const struct st_kernel *k)
{
	const struct st_matmul_args *g = &k->matmul;

	if (g->m <= 0 || g->n <= 0 || g->k <= 0)
		return st_ref_matmul(k);
	if (k->dtype == ST_F32)
		product_f32(g, k->ptr[0], k->ptr[1], k->ptr[2]);
	else if (k->dtype == ST_F64)
		product_f64(g, k->ptr[0], k->ptr[1], k->ptr[2]);
	else
		return st_ref_matmul(k);
	return ST_KERNEL_OK;
}
