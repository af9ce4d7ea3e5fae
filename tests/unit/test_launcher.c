/* Environments of the known launchers, in and out of order. */

#include "runtime/launcher.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A NULL-terminated list of "NAME=value". */
static const char *
get_from_list(void *user, const char *name)
{
	size_t length = strlen(name);

	for (const char *const *at = user; *at; at++)
		if (strncmp(*at, name, length) == 0 && (*at)[length] == '=')
			return *at + length + 1;
	return NULL;
}

struct row {
	const char *environment[12];
	const char *source;
	int rank, size, local_rank, local_size;
	const char *address;
	int port;
};

static const struct row rows[] = {
	{{NULL}, "none", 0, 1, 0, 1, "", 0},
	{{"STRETTO_RANK=3", "STRETTO_WORLD_SIZE=8", "STRETTO_LOCAL_RANK=1",
	  "STRETTO_MASTER_ADDR=a", "STRETTO_MASTER_PORT=1", "RANK=0",
	  "WORLD_SIZE=2", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=b",
	  "MASTER_PORT=2"},
	 "stretto",
	 3,
	 8,
	 1,
	 -1,
	 "a",
	 1},
	{{"STRETTO_RANK=0", "STRETTO_WORLD_SIZE=1"},
	 "stretto",
	 0,
	 1,
	 -1,
	 -1,
	 "",
	 0},
	{{"RANK=9", "WORLD_SIZE=16", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=8",
	  "GROUP_RANK=1", "MASTER_ADDR=node-1.cluster", "MASTER_PORT=29500",
	  "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1"},
	 "torchrun",
	 9,
	 16,
	 1,
	 8,
	 "node-1.cluster",
	 29500},
	{{"RANK=9", "WORLD_SIZE=16", "LOCAL_RANK=1", "SLURM_STEP_NUM_TASKS=16",
	  "SLURM_PROCID=9", "MASTER_ADDR=n1", "MASTER_PORT=61005"},
	 "enroot",
	 9,
	 16,
	 1,
	 -1,
	 "n1",
	 61005},
	{{"RANK=1", "WORLD_SIZE=2"}, "environment", 1, 2, -1, -1, "", 0},
	/* RANK alone may mean anything. */
	{{"RANK=1"}, "none", 0, 1, 0, 1, "", 0},
	{{"OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=4",
	  "OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_LOCAL_SIZE=2",
	  "PMI_RANK=0", "PMI_SIZE=1", "SLURM_PROCID=0",
	  "SLURM_STEP_NUM_TASKS=1", "SLURM_STEP_NODELIST=h[7-9]",
	  "SLURM_JOB_ID=4537"},
	 "Open MPI",
	 2,
	 4,
	 0,
	 2,
	 "h7",
	 61001},
	{{"PMI_RANK=1", "PMI_SIZE=2", "MPI_LOCALRANKID=1"},
	 "PMI",
	 1,
	 2,
	 1,
	 -1,
	 "",
	 0},
	{{"SLURM_PROCID=3", "SLURM_NTASKS=4", "SLURM_STEP_NUM_TASKS=4",
	  "SLURM_LOCALID=1", "SLURM_STEP_NODELIST=n[01-02]",
	  "SLURM_JOB_ID=12345", "SLURM_JOB_NODELIST=m[1-9]"},
	 "Slurm",
	 3,
	 4,
	 1,
	 -1,
	 "n01",
	 61000 + 12345 % 4536},
	/* A batch script: eight tasks, one process. */
	{{"SLURM_PROCID=0", "SLURM_NTASKS=8", "SLURM_LOCALID=0",
	  "SLURM_JOB_ID=12345", "SLURM_JOB_NODELIST=n[1-2]"},
	 "none",
	 0,
	 1,
	 0,
	 1,
	 "",
	 0},
};

static enum st_status
detect(struct st_launcher *launcher, struct st_diag *diag,
       const char *const *environment)
{
	return st_launcher_detect(launcher, diag, get_from_list,
				  (void *)environment);
}

Test(launcher, environments)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];
		struct st_launcher launcher;
		struct st_arena arena;
		struct st_diag diag;

		st_arena_init(&arena, NULL);
		st_diag_init(&diag, &arena);
		cr_assert_eq(detect(&launcher, &diag, row->environment), ST_OK,
			     "row %zu", i);
		cr_expect_str_eq(launcher.source, row->source, "row %zu", i);
		cr_expect_eq(launcher.rank, row->rank, "row %zu", i);
		cr_expect_eq(launcher.size, row->size, "row %zu", i);
		cr_expect_eq(launcher.local_rank, row->local_rank, "row %zu",
			     i);
		cr_expect_eq(launcher.local_size, row->local_size, "row %zu",
			     i);
		cr_expect_str_eq(launcher.address, row->address, "row %zu", i);
		cr_expect_eq(launcher.port, row->port, "row %zu", i);
		st_arena_finish(&arena);
	}
}

Test(launcher, says_where_from)
{
	static const char *const environment[] = {"RANK=0",
						  "WORLD_SIZE=2",
						  "LOCAL_RANK=0",
						  "LOCAL_WORLD_SIZE=2",
						  "MASTER_ADDR=x",
						  "MASTER_PORT=5",
						  NULL};
	static const char *const batch[] = {"SLURM_NTASKS=8", NULL};
	static const char *const single[] = {"SLURM_NTASKS=1", NULL};
	struct st_launcher launcher;
	struct st_arena arena;
	struct st_diag diag;

	st_arena_init(&arena, NULL);
	st_diag_init(&diag, &arena);
	cr_assert_eq(detect(&launcher, &diag, environment), ST_OK);
	cr_expect_str_eq(launcher.rank_from, "RANK");
	cr_expect_str_eq(launcher.size_from, "WORLD_SIZE");
	cr_expect_str_eq(launcher.local_rank_from, "LOCAL_RANK");
	cr_expect_str_eq(launcher.address_from, "MASTER_ADDR");
	cr_expect_str_eq(launcher.port_from, "MASTER_PORT");
	cr_expect_null(launcher.hint);
	cr_assert_eq(detect(&launcher, &diag, batch), ST_OK);
	cr_assert(launcher.hint);
	cr_expect(strstr(launcher.hint, "SLURM_NTASKS is 8"));
	cr_assert_eq(detect(&launcher, &diag, single), ST_OK);
	cr_expect_null(launcher.hint);
	st_arena_finish(&arena);
}

Test(launcher, malformed)
{
	static const struct {
		const char *environment[8], *message;
	} bad[] = {
		{{"STRETTO_RANK=0"},
		 "STRETTO_RANK is set and STRETTO_WORLD_SIZE is not"},
		{{"STRETTO_WORLD_SIZE=2"},
		 "STRETTO_WORLD_SIZE is set and STRETTO_RANK is not"},
		{{"STRETTO_RANK=", "STRETTO_WORLD_SIZE=2"},
		 "STRETTO_RANK is '', want a number"},
		{{"STRETTO_RANK=1x", "STRETTO_WORLD_SIZE=2"},
		 "STRETTO_RANK is '1x', want a number"},
		{{"STRETTO_RANK= 1", "STRETTO_WORLD_SIZE=2"},
		 "STRETTO_RANK is ' 1', want a number"},
		{{"STRETTO_RANK=-1", "STRETTO_WORLD_SIZE=2"},
		 "STRETTO_RANK is '-1', want a number"},
		{{"STRETTO_RANK=0", "STRETTO_WORLD_SIZE=4294967297"},
		 "STRETTO_WORLD_SIZE is '4294967297', want a number"},
		{{"STRETTO_RANK=2", "STRETTO_WORLD_SIZE=2"},
		 "STRETTO_RANK is 2, want 0 to 1"},
		{{"STRETTO_RANK=0", "STRETTO_WORLD_SIZE=0"},
		 "STRETTO_WORLD_SIZE is 0, want 1 to 2147483647"},
		{{"RANK=0", "WORLD_SIZE=4", "LOCAL_RANK=2",
		  "LOCAL_WORLD_SIZE=2"},
		 "LOCAL_RANK is 2, want 0 to 1"},
		{{"RANK=0", "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=5"},
		 "LOCAL_WORLD_SIZE is 5, want 1 to 4"},
		{{"PMI_RANK=a", "PMI_SIZE=2"},
		 "PMI_RANK is 'a', want a number"},
		{{"RANK=0", "WORLD_SIZE=2", "MASTER_PORT=65536"},
		 "MASTER_PORT is 65536, want 1 to 65535"},
		{{"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR="},
		 "MASTER_ADDR has 0 characters, want 1 to 255"},
		{{"SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=2", "SLURM_JOB_ID=x"},
		 "SLURM_JOB_ID is 'x', want a number"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct st_launcher launcher;
		struct st_arena arena;
		struct st_diag diag;

		st_arena_init(&arena, NULL);
		st_diag_init(&diag, &arena);
		cr_expect_eq(detect(&launcher, &diag, bad[i].environment),
			     ST_EINPUT, "%s", bad[i].message);
		cr_assert_eq(diag.count, 1, "%s", bad[i].message);
		cr_expect_str_eq(diag.messages[0].text, bad[i].message);
		st_arena_finish(&arena);
	}
}

Test(launcher, real_environment)
{
	struct st_launcher launcher;
	struct st_arena arena;
	struct st_diag diag;

	st_arena_init(&arena, NULL);
	st_diag_init(&diag, &arena);
	cr_assert_eq(setenv("STRETTO_RANK", "5", 1), 0);
	cr_assert_eq(setenv("STRETTO_WORLD_SIZE", "6", 1), 0);
	cr_assert_eq(st_launcher_detect(&launcher, &diag, NULL, NULL), ST_OK);
	cr_expect_eq(launcher.rank, 5);
	st_arena_finish(&arena);
}

Test(launcher, hosts)
{
	static const struct {
		const char *list, *first;
		int64_t count;
	} good[] = {
		{"login1", "login1", 1},
		{"n[01-04,7]", "n01", 5},
		{"n[7],m[1-2]", "n7", 3},
		{"a,b,c-d.e_f", "a", 3},
		{"rack[1-2]node[003-005]-ib", "rack1node003-ib", 6},
		{"n[098-102]", "n098", 5},
		{"[1-3]", "1", 3},
		{"n[000000000000000001]", "n000000000000000001", 1},
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		char first[ST_HOST_LENGTH];
		struct st_arena arena;
		struct st_diag diag;
		int64_t count;

		st_arena_init(&arena, NULL);
		st_diag_init(&diag, &arena);
		cr_expect_eq(st_launcher_hosts(&diag, "L", good[i].list, first,
					       &count),
			     ST_OK, "%s", good[i].list);
		cr_expect_str_eq(first, good[i].first);
		cr_expect_eq(count, good[i].count, "%s", good[i].list);
		st_arena_finish(&arena);
	}
}

Test(launcher, bad_hosts)
{
	static const struct {
		const char *list, *message;
	} bad[] = {
		{"", "L:1:1: error: expected the name of a host\n"},
		{"a,", "L:1:3: error: expected the name of a host\n"},
		{",a", "L:1:1: error: expected the name of a host\n"},
		{"a b", "L:1:2: error: expected ',' or the end\n"},
		{"n]", "L:1:2: error: expected ',' or the end\n"},
		{"n[", "L:1:3: error: expected the number of a host\n"},
		{"n[]", "L:1:3: error: expected the number of a host\n"},
		{"n[1", "L:1:4: error: expected ',' or ']'\n"},
		{"n[1-]", "L:1:5: error: expected the number of a host\n"},
		{"n[1,]", "L:1:5: error: expected the number of a host\n"},
		{"n[4-1]", "L:1:6: error: range ends before it begins\n"},
		{"n[[1]]", "L:1:3: error: expected the number of a host\n"},
		{"n[1234567890123456789]",
		 "L:1:21: error: number of a host is too long\n"},
		{"n[0-999999999999]", "L:1:17: error: too many hosts\n"},
		{"a[1-99999]b[1-99999]", "L:1:21: error: too many hosts\n"},
		{"a[1-2000000000],b[1-2000000000]",
		 "L:1:32: error: too many hosts\n"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char first[ST_HOST_LENGTH];
		struct st_arena arena;
		struct st_diag diag;
		const char *text;
		int64_t count;

		st_arena_init(&arena, NULL);
		st_diag_init(&diag, &arena);
		cr_expect_eq(st_launcher_hosts(&diag, "L", bad[i].list, first,
					       &count),
			     ST_EINPUT, "%s", bad[i].list);
		cr_assert_eq(diag.count, 1, "%s", bad[i].list);
		text = st_diag_render(&diag, 0);
		cr_expect_eq(
			strncmp(text, bad[i].message, strlen(bad[i].message)),
			0, "%s", text);
		st_arena_finish(&arena);
	}
}

/* No list, however long or odd, writes beyond the name's buffer. */
Test(launcher, odd_hosts)
{
	static const char letters[] = "n1[]-,0.9x";
	uint32_t state = 1;

	for (int i = 0; i < 50000; i++) {
		char first[ST_HOST_LENGTH + 1], list[400];
		struct st_arena arena;
		struct st_diag diag;
		int64_t count;
		size_t length;

		state = state * 1664525 + 1013904223;
		length = (state >> 8) % (i % 2 ? sizeof(list) : 12);
		if (length == sizeof(list))
			length--;
		for (size_t j = 0; j < length; j++) {
			state = state * 1664525 + 1013904223;
			list[j] =
				letters[(state >> 16) % (i % 4 == 3 ? 2 : 10)];
		}
		list[length] = '\0';
		first[ST_HOST_LENGTH] = '#';
		st_arena_init(&arena, NULL);
		st_diag_init(&diag, &arena);
		if (st_launcher_hosts(&diag, "L", list, first, &count) ==
		    ST_OK) {
			cr_assert_geq(count, 1);
			cr_assert_neq(first[0], '\0');
		} else {
			cr_assert_eq(diag.count, 1);
		}
		cr_assert_eq(first[ST_HOST_LENGTH], '#');
		cr_assert(memchr(first, '\0', ST_HOST_LENGTH));
		st_arena_finish(&arena);
	}
}
