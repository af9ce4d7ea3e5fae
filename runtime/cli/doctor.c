/* stretto doctor: what is here, and what will bite. */

#include "runtime/cli/cli.h"
#include "runtime/launcher.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"

static void
print_threads(void)
{
	static const char *const names[] = {
		"OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS", "OMP_NUM_THREADS"};
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	printf("%-14s%ld\n", "cores", cores);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = getenv(names[i]);

		if (value && strcmp(value, "1") != 0)
			printf("%-14s%s=%s: a rank is a thread; threads of "
			       "the library will fight with ranks\n",
			       "warning", names[i], value);
	}
}

static const char *
from_environment(void *user, const char *name)
{
	(void)user;
	return getenv(name);
}

static enum st_status
run(struct cli *cli, int argc, char **argv)
{
	const struct cli_usage usage = {"doctor", "[options]",
					"stretto doctor\n", 0};
	struct st_launcher launcher;
	int done;

	ST_TRY(cli_parse(cli, &usage, NULL, argc, argv, &done));
	if (done)
		return ST_OK;
	printf("%-14s%s\n", "stretto", ST_VERSION);
	printf("%-14s%s\n", "compiler", ST_COMPILER);
	printf("%-14s%s\n", "CBLAS", ST_BLAS);
	printf("%-14s%s\n", "CUDA",
	       ST_HAVE_NVCC ? "compiler " ST_CUDA_VERSION
			      " found; this version has no CUDA backend yet"
			    : "no compiler found");
	print_threads();
	ST_TRY(st_launcher_detect(&launcher, &cli->diag, from_environment,
				  NULL));
	printf("%-14s%s: rank %d of %d\n", "launcher", launcher.source,
	       launcher.rank, launcher.size);
	if (launcher.hint)
		printf("%-14s%s\n", "warning", launcher.hint);
	return ST_OK;
}

int
cli_doctor(int argc, char **argv)
{
	struct cli cli;
	enum st_status status = cli_begin(&cli);

	if (status == ST_OK)
		status = run(&cli, argc, argv);
	return cli_end(&cli, status);
}
