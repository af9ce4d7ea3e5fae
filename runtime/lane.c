/* Queues of collectives, each with a thread. */

#include "runtime/lane.h"

#include <pthread.h>
#include <stdbool.h>

struct st_lane {
	struct st_lane_options options;
	const struct st_launch **ring;
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t more, done;

	/* Under the mutex. */
	uint64_t issued, ended;
	bool quit;
	enum st_status status;
	const struct st_launch *failed;
};

static void *
lane_main(void *user)
{
	struct st_lane *lane = user;

	pthread_mutex_lock(&lane->mutex);
	for (;;) {
		const struct st_launch *launch;
		enum st_status status;

		while (lane->ended == lane->issued && !lane->quit)
			pthread_cond_wait(&lane->more, &lane->mutex);
		if (lane->ended == lane->issued)
			break;
		launch = lane->ring[lane->ended % lane->options.most];
		status = lane->status;
		pthread_mutex_unlock(&lane->mutex);
		if (status == ST_OK)
			status = lane->options.run(lane->options.user, launch);
		pthread_mutex_lock(&lane->mutex);
		if (status != ST_OK && lane->status == ST_OK) {
			lane->status = status;
			lane->failed = launch;
		}
		lane->ended++;
		pthread_cond_signal(&lane->done);
	}
	pthread_mutex_unlock(&lane->mutex);
	return NULL;
}

struct st_lane *
st_lane_create(struct st_arena *arena, const struct st_lane_options *options)
{
	struct st_lane *lane = st_arena_alloc(arena, sizeof(*lane));
	const struct st_launch **ring = st_arena_array(
		arena, options->most ? options->most : 1, sizeof(*ring));

	if (!lane || !ring)
		return NULL;
	lane->options = *options;
	lane->options.most = options->most ? options->most : 1;
	lane->ring = ring;
	if (pthread_mutex_init(&lane->mutex, NULL))
		return NULL;
	if (pthread_cond_init(&lane->more, NULL))
		goto no_more;
	if (pthread_cond_init(&lane->done, NULL))
		goto no_done;
	if (pthread_create(&lane->thread, NULL, lane_main, lane) == 0)
		return lane;
	pthread_cond_destroy(&lane->done);
no_done:
	pthread_cond_destroy(&lane->more);
no_more:
	pthread_mutex_destroy(&lane->mutex);
	return NULL;
}

void
st_lane_destroy(struct st_lane *lane)
{
	if (!lane)
		return;
	pthread_mutex_lock(&lane->mutex);
	lane->quit = true;
	pthread_cond_signal(&lane->more);
	pthread_mutex_unlock(&lane->mutex);
	pthread_join(lane->thread, NULL);
	pthread_cond_destroy(&lane->done);
	pthread_cond_destroy(&lane->more);
	pthread_mutex_destroy(&lane->mutex);
}

uint64_t
st_lane_issue(struct st_lane *lane, const struct st_launch *launch)
{
	uint64_t number;

	pthread_mutex_lock(&lane->mutex);
	lane->ring[lane->issued % lane->options.most] = launch;
	number = ++lane->issued;
	pthread_cond_signal(&lane->more);
	pthread_mutex_unlock(&lane->mutex);
	return number;
}

/* Only the rank's thread issues, so it may read its own count. */
uint64_t
st_lane_issued(const struct st_lane *lane)
{
	return lane->issued;
}

enum st_status
st_lane_wait(struct st_lane *lane, uint64_t number,
	     const struct st_launch **failed)
{
	enum st_status status;

	pthread_mutex_lock(&lane->mutex);
	while (lane->ended < number)
		pthread_cond_wait(&lane->done, &lane->mutex);
	status = lane->status;
	*failed = lane->failed;
	pthread_mutex_unlock(&lane->mutex);
	return status;
}
