#ifndef ST_SEGMENT_H
#define ST_SEGMENT_H

/* An array of integers with "add to a range" and "largest of a range", each
 * in time log n. */

#include <stdint.h>

#include "ir/arena.h"

struct st_segment {
	int64_t *most, *add;
	uint32_t size; /* a power of two */
};

/* -1 without memory. */
int st_segment_init(struct st_segment *segment, struct st_arena *arena,
		    uint32_t count);
void st_segment_fill(struct st_segment *segment, const int64_t *values,
		     uint32_t count);
/* Over [first, end). */
void st_segment_add(struct st_segment *segment, uint32_t first, uint32_t end,
		    int64_t value);
int64_t st_segment_most(const struct st_segment *segment, uint32_t first,
			uint32_t end);

#endif
