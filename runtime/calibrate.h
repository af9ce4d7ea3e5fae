#ifndef ST_CALIBRATE_H
#define ST_CALIBRATE_H

/*
 * This machine as a machine file: operators are timed one by one, with all
 * ranks computing at once as they do in a step, collectives by themselves.
 *
 * The operators are those of small nets of several widths, run without their
 * collectives; for each op a start and a rate are fitted to the medians by
 * least relative squares.  Collectives run alone over the ranks, through the
 * emulated link where one is given.  What computation loses to a collective
 * beside it is taken from the time that the same collective needs without
 * the link: that much of the processor it takes.
 */

#include "ir/machine.h"
#include "models/model.h"
#include "runtime/session.h"

struct st_calibration {
	int64_t ranks;
	int repeats; /* of each measurement; the median counts */
	struct st_link link;
	const char *const *search; /* for families, as in st_model_source */
	/* Called with what is measured next; may be NULL. */
	void (*progress)(void *user, const char *what);
	void *user;
};

/* How well the forms fit what was measured: median and 90th percentile of the
 * relative error over operators, in thousandths. */
struct st_calibration_fit {
	int samples;
	int64_t median, p90;
};

enum st_status st_calibrate(struct st_arena *arena, struct st_diag *diag,
			    const struct st_calibration *options,
			    struct st_machine *machine,
			    struct st_calibration_fit *fit);

#endif
