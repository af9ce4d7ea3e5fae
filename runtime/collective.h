#ifndef ST_COLLECTIVE_H
#define ST_COLLECTIVE_H

/*
 * Collectives between threads that act as ranks of one process.
 *
 * A team is one group's communicator.  All members call the same collectives
 * in the same order, each from a thread of its own.  A call posts the
 * member's buffers, waits until all have posted, works on its own part by
 * reading the others' buffers, and waits again, so that buffers may be
 * reused when it returns.  Waits block; nothing spins and nothing allocates.
 *
 * Sums are formed in rank order with one rounding an element, whatever the
 * number of threads or their timing: results repeat bit for bit and are the
 * same on all members.
 *
 * A failure is final for the team.  Members that wait, and all that call
 * later, return the same status, and st_team_error says why.  A round either
 * succeeds on all members or fails on all.  Calls that do not match are found
 * when all have posted, before any buffer is touched.
 */

#include <stddef.h>
#include <stdint.h>

#include "ir/diag.h"
#include "kernels/kernels.h"

enum st_reduce_op { ST_REDUCE_SUM, ST_REDUCE_MAX };

enum { ST_TEAM_LARGEST = 1024 };

struct st_team;

/*
 * An emulated link: a collective takes at least
 *
 *   latency + bytes that cross a member's link / rate
 *
 * of wall time from when all members have posted; those of one team follow
 * one another.  The bytes are (n-1)/n of the whole buffer, twice that for
 * all_reduce.  It makes communication cost time on a machine where it is a
 * copy; what is measured with it is to be called emulated.
 */
struct st_link {
	double latency_us, gb_per_s; /* 1e9 bytes a second; 0: no link */
};

struct st_team_options {
	const char *name; /* of the group, for messages; NULL: "team" */
	int members;      /* 1 .. ST_TEAM_LARGEST */
	const int *ranks; /* what messages call the members; NULL: 0, 1 .. */
	int timeout_ms;   /* for the others to post; 0: wait for ever */
	struct st_link link;
};

/* In arena, which must outlive the team; destroy frees the locks.  ranks and
 * name are copied. */
enum st_status st_team_create(struct st_team **team, struct st_arena *arena,
			      struct st_diag *diag,
			      const struct st_team_options *options);

/* Only when no member is inside a call.  Accepts NULL. */
void st_team_destroy(struct st_team *team);

int st_team_size(const struct st_team *team);

/* ST_OK, or the status that ended the team. */
enum st_status st_team_status(struct st_team *team);

/* Why it ended, "" if it has not.  Does not change once set. */
const char *st_team_error(struct st_team *team);

/* Ends the team from any thread: a member whose kernel failed wakes those
 * who wait for it.  The first reason stays.  A round in which all members
 * have posted is still completed, because its buffers are in use. */
void st_team_cancel(struct st_team *team, enum st_status status,
		    const char *reason);

/* out[i] = sum or maximum over members of in[i]; in == out is allowed. */
enum st_status st_team_all_reduce(struct st_team *team, int member,
				  enum st_dtype dtype, enum st_reduce_op op,
				  const void *in, void *out, size_t count);

/* in: [outer][chunk] elements, out: [outer][n][chunk].  With outer 1, in may
 * be the member's own part of out. */
enum st_status st_team_all_gather(struct st_team *team, int member,
				  enum st_dtype dtype, const void *in,
				  void *out, size_t outer, size_t chunk);

/* in: [outer][n][chunk], out: [outer][chunk].  With outer 1, out may be the
 * member's own part of in. */
enum st_status st_team_reduce_scatter(struct st_team *team, int member,
				      enum st_dtype dtype, enum st_reduce_op op,
				      const void *in, void *out, size_t outer,
				      size_t chunk);

/*
 * Moves a sharding from one extent to another.  in and out must not overlap.
 * ST_SPLIT_FIRST: in [outer][n][middle][chunk], the part for each member
 * first, out [outer][middle][n][chunk].
 * ST_SPLIT_LAST: in [outer][middle][n][chunk], out [outer][n][middle][chunk].
 * With outer and middle 1 both are the plain exchange of n chunks.
 */
enum st_split_side { ST_SPLIT_FIRST, ST_SPLIT_LAST };

struct st_exchange {
	enum st_split_side split;
	size_t outer, middle, chunk;
};

enum st_status st_team_all_to_all(struct st_team *team, int member,
				  enum st_dtype dtype,
				  const struct st_exchange *shape,
				  const void *in, void *out);

/* out = root's in, on every member; in matters at the root only, where it
 * may be out. */
enum st_status st_team_broadcast(struct st_team *team, int member,
				 enum st_dtype dtype, int root, const void *in,
				 void *out, size_t count);

enum st_status st_team_barrier(struct st_team *team, int member);

#endif
