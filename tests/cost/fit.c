/*
 * Fits the forms of the cost model to half of the sizes that were measured,
 * judges them on the other half, and prints what is left; README.md says
 * what the data are.  Run it in the root of the repository.
 *
 * Least absolute relative error throughout: times span four decades, and
 * single rows of public tables are wrong.
 */

#include "models/machine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 8192, MAX_SIZES = 64 };

/* A product or a collective. */
struct row {
	double flop, bytes, us;
	int half; /* 0 or 1: of those that are fitted and judged in turn */
};

struct errors {
	double at[MAX_ROWS];
	size_t count;
};

static int passed, failed;

static void
die(const char *what, const char *why)
{
	fprintf(stderr, "fit: %s: %s\n", what, why);
	exit(1);
}

/* ---- errors ---- */

static void
add_error(struct errors *errors, double have, double want)
{
	errors->at[errors->count++] = fabs(have - want) / want;
}

static int
compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Share `part` of the errors is at most this. */
static double
quantile(struct errors *errors, double part)
{
	size_t at = (size_t)(part * (double)errors->count);

	qsort(errors->at, errors->count, sizeof(errors->at[0]), compare);
	return errors->at[at < errors->count ? at : errors->count - 1];
}

static void
print_errors(const char *what, struct errors *errors)
{
	printf("%-44s %6.1f %6.1f %6.1f %6zu", what,
	       100 * quantile(errors, 0.5), 100 * quantile(errors, 0.9),
	       100 * quantile(errors, 1), errors->count);
}

static void
judge(const char *what, struct errors *errors, double median, double most)
{
	int good = quantile(errors, 0.5) <= median &&
		   quantile(errors, 0.9) <= most;

	print_errors(what, errors);
	printf("  %s %g/%g\n", good ? "within" : "MISSES", 100 * median,
	       100 * most);
	passed += good;
	failed += !good;
}

/* ---- products ---- */

struct product {
	double start_us, tflops, gb_per_s;
};

static double
product_us(const struct product *p, const struct row *row)
{
	double compute = row->flop / p->tflops * 1e-6;
	double memory = row->bytes / p->gb_per_s * 1e-3;

	return p->start_us + (compute > memory ? compute : memory);
}

static double
product_error(const struct product *p, const struct row *rows, size_t n,
	      int half)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		if (half < 0 || rows[i].half == half)
			sum += fabs(product_us(p, &rows[i]) - rows[i].us) /
			       rows[i].us;
	return sum;
}

/* Takes the step if it helps. */
static int
try_step(struct product *p, double *constant, double factor, double *best,
	 const struct row *rows, size_t n, int half)
{
	double before = *constant, sum;

	*constant *= factor;
	sum = product_error(p, rows, n, half);
	if (sum < *best) {
		*best = sum;
		return 1;
	}
	*constant = before;
	return 0;
}

/* One constant after the other, in steps that shrink; half -1 is all. */
static void
fit_product(struct product *p, const struct row *rows, size_t n, int half)
{
	double *constants[] = {&p->start_us, &p->tflops};
	double best = product_error(p, rows, n, half);

	for (double step = 0.3; step > 1e-4;) {
		int better = 0;

		for (int i = 0; i < 2; i++)
			better |= try_step(p, constants[i], 1 + step, &best,
					   rows, n, half) ||
				  try_step(p, constants[i], 1 / (1 + step),
					   &best, rows, n, half);
		if (!better)
			step /= 2;
	}
}

/* Place of a value among the distinct ones that were seen. */
static int
place_of(double value, double sizes[MAX_SIZES], int *count)
{
	int i = 0;

	while (i < *count && sizes[i] != value)
		i++;
	if (i == MAX_SIZES)
		die("sizes", "too many");
	if (i == *count)
		sizes[(*count)++] = value;
	return i;
}

/* Sizes first appear in rising order, so their places alternate. */
static size_t
read_products(const char *path, int sustained, struct row *rows)
{
	FILE *file = fopen(path, "r");
	double sizes_n[MAX_SIZES], sizes_k[MAX_SIZES], m, n, k, us[2];
	int count_n = 0, count_k = 0;
	char line[256];
	size_t count = 0;

	if (!file || !fgets(line, sizeof(line), file))
		die(path, "cannot be read");
	while (fgets(line, sizeof(line), file)) {
		struct row *row = &rows[count++];

		if (count > MAX_ROWS ||
		    sscanf(line, "%lf,%lf,%lf,%lf,%lf", &m, &n, &k, &us[0],
			   &us[1]) != 5)
			die(path, line);
		row->flop = 2 * m * n * k;
		row->bytes = 2 * (m * n + m * k + n * k);
		row->us = us[sustained];
		row->half = (place_of(n, sizes_n, &count_n) +
			     place_of(k, sizes_k, &count_k)) % 2;
	}
	fclose(file);
	return count;
}

static void
test_products(const struct st_machine *machine, int sustained)
{
	static struct row rows[MAX_ROWS];
	static struct errors fitted, shipped;
	struct product file = {machine->matmul_start_us,
			       machine->matmul_tflops[ST_BF16],
			       machine->memory_gb_per_s};
	struct product all = file;
	size_t n = read_products("tests/cost/gemm-h200-bf16.csv", sustained,
				 rows);
	const char *what = sustained ? "sustained" : "in bursts";
	char label[64];

	fitted.count = shipped.count = 0;
	for (int half = 0; half < 2; half++) {
		struct product p = file;

		fit_product(&p, rows, n, half);
		for (size_t i = 0; i < n; i++)
			if (rows[i].half != half)
				add_error(&fitted, product_us(&p, &rows[i]),
					  rows[i].us);
	}
	snprintf(label, sizeof(label), "matmul bf16, %s", what);
	judge(label, &fitted, 0.05, 0.15);
	fit_product(&all, rows, n, -1);
	printf("  all rows: %.1f us, %.0f TFLOP/s; file: %.1f us, %.0f\n",
	       all.start_us, all.tflops, file.start_us, file.tflops);
	if (!sustained)
		return;
	for (size_t i = 0; i < n; i++)
		add_error(&shipped, product_us(&file, &rows[i]), rows[i].us);
	judge("matmul bf16, as the machine file says", &shipped, 0.05, 0.15);
}

/* ---- collectives ---- */

/* a + b*S + c*sqrt(S), or the lesser of that and a line. */
struct curve {
	double a, b, c, small_a, small_b;
};

static double
curve_us(const struct curve *curve, double bytes)
{
	double us = curve->a + curve->b * bytes + curve->c * sqrt(bytes);
	double small = curve->small_a + curve->small_b * bytes;

	return curve->small_b > 0 && small < us ? small : us;
}

static double
curve_error(const struct curve *curve, const struct row *rows, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += fabs(curve_us(curve, rows[i].bytes) - rows[i].us) /
		       rows[i].us;
	return sum;
}

static void
keep_better(struct curve *best, double *least, const struct curve *curve,
	    const struct row *rows, size_t n)
{
	double sum;

	if (curve->a < 0 || curve->b <= 0 || curve->c < 0)
		return;
	sum = curve_error(curve, rows, n);
	if (sum < *least) {
		*least = sum;
		*best = *curve;
	}
}

/* A least absolute error is reached by a line through two of the points. */
static struct curve
fit_line(const struct row *rows, size_t n)
{
	struct curve best = {0};
	double least = HUGE_VAL;

	for (size_t i = 0; i < n; i++)
		for (size_t j = i + 1; j < n; j++) {
			struct curve line = {0};

			line.b = (rows[j].us - rows[i].us) /
				 (rows[j].bytes - rows[i].bytes);
			line.a = rows[i].us - line.b * rows[i].bytes;
			keep_better(&best, &least, &line, rows, n);
		}
	return best;
}

/* Through three of them, as a parabola over sqrt(S); or a line. */
static struct curve
fit_root(const struct row *rows, size_t n)
{
	struct curve best = fit_line(rows, n);
	double least = curve_error(&best, rows, n);

	for (size_t i = 0; i < n; i++)
		for (size_t j = i + 1; j < n; j++)
			for (size_t k = j + 1; k < n; k++) {
				double x = sqrt(rows[i].bytes);
				double y = sqrt(rows[j].bytes);
				double z = sqrt(rows[k].bytes);
				double xy = (rows[j].us - rows[i].us) / (y - x);
				double yz = (rows[k].us - rows[j].us) / (z - y);
				struct curve curve = {0};

				curve.b = (yz - xy) / (z - x);
				curve.c = xy - curve.b * (x + y);
				curve.a = rows[i].us - curve.b * x * x -
					  curve.c * x;
				keep_better(&best, &least, &curve, rows, n);
			}
	return best;
}

/* Every place where the small messages may end. */
static struct curve
fit_two(const struct row *rows, size_t n)
{
	struct curve best = fit_line(rows, n);
	double least = curve_error(&best, rows, n);

	for (size_t end = 3; end + 2 <= n; end++) {
		struct curve small = fit_line(rows, end);
		struct curve both = fit_line(rows + end, n - end);

		both.small_a = small.a;
		both.small_b = small.b;
		if (small.b > 0)
			keep_better(&best, &least, &both, rows, n);
	}
	return best;
}

static size_t
read_collective(const char *path, const char *name, const char *dtype,
		int ranks, struct row *rows)
{
	FILE *file = fopen(path, "r");
	char line[256], op[32], type[16];
	size_t count = 0;
	double bytes, us;
	int n;

	if (!file || !fgets(line, sizeof(line), file))
		die(path, "cannot be read");
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%31[^,],%15[^,],%d,%lf,%lf", op, type, &n,
			   &bytes, &us) != 5)
			die(path, line);
		if (strcmp(op, name) != 0 || n != ranks ||
		    strcmp(type, dtype) != 0)
			continue;
		if (count == MAX_SIZES || (count && bytes <= rows[-1].bytes))
			die(path, "sizes do not rise");
		*rows++ = (struct row){0, bytes, us, (int)(count++ % 2)};
	}
	fclose(file);
	return count;
}

typedef struct curve fit_fn(const struct row *rows, size_t n);

/* Judges rows of at least `least` bytes by what the others say. */
static void
cross(fit_fn *fit, const struct row *rows, size_t n, double least,
      struct errors *errors)
{
	for (int half = 0; half < 2; half++) {
		struct row chosen[MAX_SIZES];
		struct curve curve;
		size_t count = 0;

		for (size_t i = 0; i < n; i++)
			if (rows[i].half == half)
				chosen[count++] = rows[i];
		curve = fit(chosen, count);
		for (size_t i = 0; i < n; i++)
			if (rows[i].half != half && rows[i].bytes >= least)
				add_error(errors,
					  curve_us(&curve, rows[i].bytes),
					  rows[i].us);
	}
}

/* Bytes on the busiest link for a byte of the buffer. */
static double
bus_factor(enum st_op op, int64_t ranks)
{
	double n = (double)ranks;

	return (op == ST_OP_all_reduce ? 2 : 1) * (n - 1) / n;
}

static struct curve
curve_of(const struct st_machine_form *form)
{
	double factor = bus_factor(form->op, form->ranks) * 1e-3;
	struct curve curve = {form->a_us, factor / form->bus_gb_per_s,
			      form->c_ns_per_sqrt_byte * 1e-3, 0, 0};

	if (form->small_bus_gb_per_s > 0) {
		curve.small_a = form->small_a_us;
		curve.small_b = factor / form->small_bus_gb_per_s;
	}
	return curve;
}

static void
print_curve(const char *who, const struct curve *curve, double factor,
	    const struct row *rows, size_t n)
{
	printf("    %-5s a %4.1f us, bus %3.0f GB/s, c %5.2f", who, curve->a,
	       factor * 1e-3 / curve->b, curve->c * 1e3);
	if (curve->small_b > 0)
		printf("; small a %4.1f us, bus %3.0f", curve->small_a,
		       factor * 1e-3 / curve->small_b);
	printf("; mean error %.1f %%\n",
	       100 * curve_error(curve, rows, n) / (double)n);
}

struct kind {
	const char *name, *dtype; /* in the data */
	enum st_op op;
	double least; /* bytes; shorter rows are not judged */
	double most;  /* what 90 % may be off by the file; 0: not judged */
};

/* Of one kind, over all counts of ranks. */
static struct errors root_errors, two_errors, shipped_errors;

static void
test_form(const struct kind *kind, const struct st_machine_form *form)
{
	static struct errors own;
	struct row rows[MAX_SIZES];
	size_t n = read_collective("tests/cost/nccl-h200.csv", kind->name,
				   kind->dtype, (int)form->ranks, rows);
	struct curve file = curve_of(form), root = fit_root(rows, n);
	struct curve two = fit_two(rows, n);
	double factor = bus_factor(form->op, form->ranks);
	char label[64];

	own.count = 0;
	cross(fit_two, rows, n, kind->least, &own);
	snprintf(label, sizeof(label), "  %s, %s, %d ranks", kind->name,
		 kind->dtype, (int)form->ranks);
	print_errors(label, &own);
	printf("\n");
	if (kind->most > 0)
		print_curve("file", &file, factor, rows, n);
	print_curve("root", &root, factor, rows, n);
	print_curve("two", &two, factor, rows, n);
	cross(fit_two, rows, n, kind->least, &two_errors);
	cross(fit_root, rows, n, kind->least, &root_errors);
	for (size_t i = 0; i < n; i++)
		if (rows[i].bytes >= kind->least)
			add_error(&shipped_errors,
				  curve_us(&file, rows[i].bytes), rows[i].us);
}

static void
test_collective(const struct st_machine *machine, const struct kind *kind)
{
	char label[64];

	root_errors.count = two_errors.count = shipped_errors.count = 0;
	for (int i = 0; i < machine->form_count; i++)
		if (machine->forms[i].op == kind->op)
			test_form(kind, &machine->forms[i]);
	snprintf(label, sizeof(label), "%s, %s, two lines", kind->name,
		 kind->dtype);
	judge(label, &two_errors, 0.07, 0.15);
	snprintf(label, sizeof(label), "%s, %s, with a root", kind->name,
		 kind->dtype);
	print_errors(label, &root_errors);
	printf("  for comparison\n");
	snprintf(label, sizeof(label), "%s, as the machine file says",
		 kind->name);
	if (kind->most > 0)
		judge(label, &shipped_errors, 0.07, kind->most);
}

int
main(void)
{
	static const char *const search[] = {"models/families", NULL};
	/* The file holds all_to_all as fitted from 512 B on, where single
	 * rows are noise. */
	static const struct kind kinds[] = {
		{"all_gather", "half", ST_OP_all_gather, 0, 0.15},
		{"reduce_scatter", "half", ST_OP_reduce_scatter, 0, 0.15},
		{"all_reduce", "half", ST_OP_all_reduce, 0, 0.15},
		{"all_reduce", "int8", ST_OP_all_reduce, 0, 0},
		{"alltoall", "half", ST_OP_all_to_all, 1 << 18, 0.25},
	};
	struct st_machine machine;
	struct st_arena arena;
	struct st_diag diag;

	st_arena_init(&arena, NULL);
	st_diag_init(&diag, &arena);
	if (st_machine_load(&arena, &diag, "h200-sxm-8", search, &machine))
		die("h200-sxm-8", st_diag_render(&diag, 0));
	printf("%-44s %6s %6s %6s %6s\n", "error in %", "median", "p90", "max",
	       "rows");
	test_products(&machine, 1);
	test_products(&machine, 0);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		test_collective(&machine, &kinds[i]);
	st_arena_finish(&arena);
	printf("%d passed, %d failed, 0 skipped\n", passed, failed);
	return failed != 0;
}
