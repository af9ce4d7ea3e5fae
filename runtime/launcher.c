/* Rank, size and meeting point from the environment. */

#include "runtime/launcher.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* What a launcher calls things; NULL: it does not say. */
struct names {
	const char *source, *rank, *size, *local_rank, *local_size;
	/* Must be set besides rank and size, or the launcher is another. */
	const char *witness;
};

/* First match wins; a launcher inside another one is the nearer. */
static const struct names launchers[] = {
	{"stretto", "STRETTO_RANK", "STRETTO_WORLD_SIZE", "STRETTO_LOCAL_RANK",
	 "STRETTO_LOCAL_WORLD_SIZE", NULL},
	{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
	 "LOCAL_WORLD_SIZE"},
	{"enroot", "RANK", "WORLD_SIZE", "LOCAL_RANK", NULL,
	 "SLURM_STEP_NUM_TASKS"},
	{"environment", "RANK", "WORLD_SIZE", "LOCAL_RANK", NULL, NULL},
	{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
	 "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", NULL},
	{"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
	 NULL},
	{"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL,
	 "SLURM_STEP_NUM_TASKS"},
};

struct search {
	struct st_launcher *launcher;
	struct st_diag *diag;
	st_launcher_get *get;
	void *user;
};

static const char *
get_environment(void *user, const char *name)
{
	(void)user;
	return getenv(name);
}

static const char *
get(const struct search *search, const char *name)
{
	return name ? search->get(search->user, name) : NULL;
}

/* A decimal number in [least, largest], digits only. */
static enum st_status
get_number(const struct search *search, const char *name, int64_t least,
	   int64_t largest, int *number)
{
	const char *text = get(search, name), *c = text;
	int64_t value = 0;

	while (*c >= '0' && *c <= '9' && value <= INT32_MAX)
		value = value * 10 + (*c++ - '0');
	if (c == text || *c != '\0' || value > INT32_MAX)
		return st_error(search->diag, ST_EINPUT, st_no_loc(),
				"%s is '%.40s', want a number", name, text);
	if (value < least || value > largest)
		return st_error(search->diag, ST_EINPUT, st_no_loc(),
				"%s is %lld, want %lld to %lld", name,
				(long long)value, (long long)least,
				(long long)largest);
	*number = (int)value;
	return ST_OK;
}

static enum st_status
missing(const struct search *search, const char *absent, const char *present)
{
	return st_error(search->diag, ST_EINPUT, st_no_loc(),
			"%s is set and %s is not", present, absent);
}

/* Does the environment speak this launcher's words?  Names of our own must
 * come as a pair; others may be there for other reasons. */
static bool
matches(const struct search *search, const struct names *names)
{
	bool rank = get(search, names->rank), size = get(search, names->size);

	if (names == launchers)
		return rank || size;
	return rank && size && (!names->witness || get(search, names->witness));
}

static enum st_status
read_ranks(const struct search *search, const struct names *names)
{
	struct st_launcher *launcher = search->launcher;

	launcher->source = names->source;
	if (!get(search, names->rank))
		return missing(search, names->rank, names->size);
	if (!get(search, names->size))
		return missing(search, names->size, names->rank);
	launcher->rank_from = names->rank;
	launcher->size_from = names->size;
	ST_TRY(get_number(search, names->size, 1, INT32_MAX, &launcher->size));
	ST_TRY(get_number(search, names->rank, 0, launcher->size - 1,
			  &launcher->rank));
	if (get(search, names->local_size))
		ST_TRY(get_number(search, names->local_size, 1, launcher->size,
				  &launcher->local_size));
	if (!get(search, names->local_rank))
		return ST_OK;
	launcher->local_rank_from = names->local_rank;
	return get_number(search, names->local_rank, 0,
			  (launcher->local_size > 0 ? launcher->local_size
						    : launcher->size) -
				  1,
			  &launcher->local_rank);
}

/* Hosts of a Slurm list. */

struct hosts {
	struct st_diag *diag;
	const char *name, *list, *at;
	char *first;
	size_t length; /* of first so far */
	bool keep;     /* still in the first host */
};

static enum st_status
fail_hosts(const struct hosts *hosts, const char *text)
{
	struct st_loc loc = {0, 1, 0, 1, 0};

	loc.source = st_diag_add_source(hosts->diag, hosts->name, hosts->list,
					strlen(hosts->list));
	loc.column = (uint32_t)(hosts->at - hosts->list) + 1;
	return st_error(hosts->diag, ST_EINPUT, loc, "%s", text);
}

static bool
is_host_character(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	       (c >= 'A' && c <= 'Z') || c == '.' || c == '-' || c == '_';
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static enum st_status
keep(struct hosts *hosts, const char *text, size_t length)
{
	if (!hosts->keep)
		return ST_OK;
	if (hosts->length + length >= ST_HOST_LENGTH)
		return fail_hosts(hosts, "name of the host is too long");
	memcpy(hosts->first + hosts->length, text, length);
	hosts->length += length;
	hosts->first[hosts->length] = '\0';
	return ST_OK;
}

static enum st_status
read_index(struct hosts *hosts, int64_t *index)
{
	const char *begin = hosts->at;

	*index = 0;
	while (is_digit(*hosts->at) && hosts->at - begin < 18)
		*index = *index * 10 + (*hosts->at++ - '0');
	if (is_digit(*hosts->at))
		return fail_hosts(hosts, "number of a host is too long");
	if (hosts->at == begin)
		return fail_hosts(hosts, "expected the number of a host");
	return ST_OK;
}

/* `[01-04,7]`: keeps 01, counts 5. */
static enum st_status
read_brackets(struct hosts *hosts, int64_t *count)
{
	int64_t low, high;
	const char *begin;
	bool first = true;

	*count = 0;
	do {
		begin = ++hosts->at;
		ST_TRY(read_index(hosts, &low));
		if (first)
			ST_TRY(keep(hosts, begin, (size_t)(hosts->at - begin)));
		first = false;
		high = low;
		if (*hosts->at == '-') {
			hosts->at++;
			ST_TRY(read_index(hosts, &high));
		}
		if (high < low)
			return fail_hosts(hosts, "range ends before it "
						 "begins");
		*count += high - low + 1;
	} while (*hosts->at == ',' && *count <= INT32_MAX);
	if (*count > INT32_MAX)
		return fail_hosts(hosts, "too many hosts");
	if (*hosts->at != ']')
		return fail_hosts(hosts, "expected ',' or ']'");
	hosts->at++;
	return ST_OK;
}

/* One item of the list: names and brackets in turn, which multiply. */
static enum st_status
read_item(struct hosts *hosts, int64_t *count)
{
	const char *begin = hosts->at;
	int64_t inner;

	*count = 1;
	while (is_host_character(*hosts->at) || *hosts->at == '[') {
		if (*hosts->at == '[') {
			ST_TRY(read_brackets(hosts, &inner));
			*count *= inner;
			if (*count > INT32_MAX)
				return fail_hosts(hosts, "too many hosts");
		} else {
			ST_TRY(keep(hosts, hosts->at, 1));
			hosts->at++;
		}
	}
	if (hosts->at == begin)
		return fail_hosts(hosts, "expected the name of a host");
	return ST_OK;
}

enum st_status
st_launcher_hosts(struct st_diag *diag, const char *name, const char *list,
		  char first[ST_HOST_LENGTH], int64_t *count)
{
	struct hosts hosts = {diag, name, list, list, first, 0, true};
	int64_t item;

	first[0] = '\0';
	*count = 0;
	for (;;) {
		ST_TRY(read_item(&hosts, &item));
		*count += item;
		if (*count > INT32_MAX)
			return fail_hosts(&hosts, "too many hosts");
		hosts.keep = false;
		if (*hosts.at == '\0')
			return ST_OK;
		if (*hosts.at != ',')
			return fail_hosts(&hosts, "expected ',' or the end");
		hosts.at++;
	}
}

/* Where to meet. */

static enum st_status
copy_address(const struct search *search, const char *name)
{
	struct st_launcher *launcher = search->launcher;
	const char *text = get(search, name);
	size_t length = strlen(text);

	if (length == 0 || length >= ST_HOST_LENGTH)
		return st_error(search->diag, ST_EINPUT, st_no_loc(),
				"%s has %zu characters, want 1 to %d", name,
				length, ST_HOST_LENGTH - 1);
	memcpy(launcher->address, text, length + 1);
	launcher->address_from = name;
	return ST_OK;
}

/* The formula that container hooks use, so that all ranks agree on a port
 * that two jobs of one host are unlikely to share. */
static enum st_status
derive_from_slurm(const struct search *search)
{
	static const char *const names[] = {"SLURM_STEP_NODELIST",
					    "SLURM_JOB_NODELIST"};
	static const char *const jobs[] = {"SLURM_JOB_ID", "SLURM_JOBID"};
	struct st_launcher *launcher = search->launcher;
	int64_t count;
	int job;

	for (size_t i = 0; i < 2 && !launcher->address[0]; i++) {
		const char *list = get(search, names[i]);

		if (!list)
			continue;
		ST_TRY(st_launcher_hosts(search->diag, names[i], list,
					 launcher->address, &count));
		launcher->address_from = names[i];
	}
	for (size_t i = 0; i < 2 && !launcher->port; i++) {
		if (!get(search, jobs[i]))
			continue;
		ST_TRY(get_number(search, jobs[i], 0, INT32_MAX, &job));
		launcher->port = 61000 + job % 4536;
		launcher->port_from = jobs[i];
	}
	return ST_OK;
}

static enum st_status
read_address(const struct search *search)
{
	static const char *const addresses[] = {"STRETTO_MASTER_ADDR",
						"MASTER_ADDR"};
	static const char *const ports[] = {"STRETTO_MASTER_PORT",
					    "MASTER_PORT"};
	struct st_launcher *launcher = search->launcher;

	for (size_t i = 0; i < 2 && !launcher->address[0]; i++)
		if (get(search, addresses[i]))
			ST_TRY(copy_address(search, addresses[i]));
	for (size_t i = 0; i < 2 && !launcher->port; i++) {
		if (!get(search, ports[i]))
			continue;
		ST_TRY(get_number(search, ports[i], 1, 65535, &launcher->port));
		launcher->port_from = ports[i];
	}
	if (get(search, "SLURM_STEP_NUM_TASKS"))
		return derive_from_slurm(search);
	return ST_OK;
}

/* A batch script sees the size of the job and is one process of it. */
static void
set_hint(const struct search *search)
{
	const char *tasks = get(search, "SLURM_NTASKS");

	if (!tasks || strcmp(tasks, "1") == 0 ||
	    get(search, "SLURM_STEP_NUM_TASKS"))
		return;
	search->launcher->hint = st_arena_printf(
		search->diag->arena,
		"SLURM_NTASKS is %.20s, but this process is not in a step of "
		"the job and counts as rank 0 of 1; start it with srun",
		tasks);
}

enum st_status
st_launcher_detect(struct st_launcher *launcher, struct st_diag *diag,
		   st_launcher_get *get_, void *user)
{
	struct search search = {launcher, diag, get_ ? get_ : get_environment,
				user};

	memset(launcher, 0, sizeof(*launcher));
	launcher->size = 1;
	launcher->local_rank = launcher->local_size = -1;
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		if (!matches(&search, &launchers[i]))
			continue;
		ST_TRY(read_ranks(&search, &launchers[i]));
		return read_address(&search);
	}
	launcher->source = "none";
	launcher->local_rank = 0;
	launcher->local_size = 1;
	set_hint(&search);
	return ST_OK;
}
