#ifndef ST_LAUNCHER_H
#define ST_LAUNCHER_H

/*
 * Who am I among the ranks?  Read from the environment of whatever started
 * the process.  First match wins:
 *
 *   stretto    STRETTO_RANK, STRETTO_WORLD_SIZE, STRETTO_LOCAL_RANK
 *   torchrun   RANK, WORLD_SIZE, LOCAL_RANK, and LOCAL_WORLD_SIZE
 *   enroot     the same without LOCAL_WORLD_SIZE inside a Slurm step: set by
 *              a hook of the container
 *   environment  RANK and WORLD_SIZE alone, set by hand
 *   Open MPI   OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK
 *   PMI        PMI_RANK, PMI_SIZE, MPI_LOCALRANKID
 *   Slurm      SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID, only inside
 *              a step: a batch script has SLURM_NTASKS=8 and one process
 *   none       rank 0 of 1
 *
 * The place to meet is STRETTO_MASTER_ADDR and _PORT, else MASTER_ADDR and
 * _PORT, else in a Slurm step the first host of SLURM_STEP_NODELIST and port
 * 61000 + job id % 4536.
 */

#include <stddef.h>
#include <stdint.h>

#include "ir/diag.h"

/* Returns the value of an environment variable, or NULL.  The pointer is
 * used only until the next call. */
typedef const char *st_launcher_get(void *user, const char *name);

enum { ST_HOST_LENGTH = 256 };

struct st_launcher {
	int rank, size;
	int local_rank;     /* -1: not known */
	int local_size;     /* -1: not known */
	const char *source; /* the first column above */
	const char *rank_from, *size_from, *local_rank_from; /* or NULL */
	char address[ST_HOST_LENGTH]; /* where to meet; "" if not known */
	int port;                     /* 0: not known */
	const char *address_from, *port_from;
	/* A sentence for the user, or NULL: a launcher that is there but
	 * does not count, and why.  In diag's arena. */
	const char *hint;
};

/* get may be NULL for getenv(3).  A value that is no number, or a rank that
 * is not below its size, is ST_EINPUT and names the variable. */
enum st_status st_launcher_detect(struct st_launcher *launcher,
				  struct st_diag *diag, st_launcher_get *get,
				  void *user);

/*
 * The first host of a Slurm list such as `n[01-04,7],login1` and how many
 * hosts it names.  `name` is what messages call the list.
 */
enum st_status st_launcher_hosts(struct st_diag *diag, const char *name,
				 const char *list, char first[ST_HOST_LENGTH],
				 int64_t *count);

#endif
