/* The vector functions one by one, at the level this file is built for. */

#include "kernels/cpu/vector.h"

#include <criterion/criterion.h>

/* Units in the last place of the correctly rounded value. */
static double
ulps(float got, double want)
{
	float near = (float)want;

	return fabs((double)got - want) /
	       ((double)nextafterf(fabsf(near), INFINITY) -
		fabs((double)near));
}

Test(kernels_vector, exp_within_one_and_a_half_ulp)
{
	double worst = 0;

	for (float x = -87.3f; x < 88.3f; x += 0.000173f) {
		vfloat y = vexp(vsplat(x));
		double error = ulps(y[LANES - 1], exp((double)x));

		worst = error > worst ? error : worst;
	}
	cr_expect(worst <= 1.5, "%.3f ulp", worst);
}

Test(kernels_vector, exp_at_the_ends)
{
	static const float x[] = {-INFINITY, -1e30f, -200, -88, 89, 200, 1e30f,
				  INFINITY};

	for (int i = 0; i < 8; i++) {
		vfloat y = vexp(vsplat(x[i]));

		cr_expect_eq(y[0], i < 4 ? 0 : INFINITY, "%g: %g",
			     (double)x[i], (double)y[0]);
	}
	cr_expect(isnan(vexp(vsplat(NAN))[0]));
	cr_expect_eq(vexp(vsplat(0))[0], 1);
}

Test(kernels_vector, partial_loads_and_stores)
{
	float x[LANES], y[LANES];

	for (int left = -1; left <= LANES; left++) {
		for (int i = 0; i < LANES; i++) {
			x[i] = (float)(i + 1);
			y[i] = -1;
		}
		vstore(y, vload_or(x, left, 9), left);
		for (int i = 0; i < LANES; i++) {
			cr_expect_eq(y[i], i < left ? x[i] : -1);
			cr_expect_eq(vload_or(x, left, 9)[i],
				     i < left ? x[i] : 9);
		}
	}
}
