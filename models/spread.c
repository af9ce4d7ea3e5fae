/* Parallelism: the axes of the mesh, and what each of them cuts. */

#include "models/lower.h"

#include <string.h>

static unsigned
add_axis(struct st_lowering *l, const char *name, int64_t size)
{
	struct st_mesh *mesh = &l->module->mesh;

	if (size == 1)
		return 0;
	mesh->name[mesh->count] =
		st_names_add(l->module->names, name, strlen(name));
	mesh->size[mesh->count] = size;
	return 1u << mesh->count++;
}

void
st_spread_mesh(struct st_lowering *l)
{
	const struct st_setting_value *s = l->model->settings;

	l->data = add_axis(l, "dp_replicate", s[ST_SET_dp_replicate].i);
	l->shard = add_axis(l, "dp_shard", s[ST_SET_dp_shard].i);
	l->data |= l->shard;
	l->tensor = add_axis(l, "tp", s[ST_SET_tp].i);
	l->sequence = s[ST_SET_sequence_parallel].i ? l->tensor : 0;
	if (s[ST_SET_zero_stage].i < 3)
		l->shard = 0;
}

void
st_spread_param(const struct st_lowering *l, struct st_type *type, int factor)
{
	if (factor >= 0)
		st_type_cut(type, factor, l->tensor, &l->module->mesh);
	type->flat = (uint8_t)l->shard;
}

struct st_type
st_spread_tokens(const struct st_lowering *l)
{
	struct st_type type = st_type_scalar(ST_I32);

	st_type_add_extent(&type, l->batch);
	st_type_add_extent(&type, l->steps);
	st_type_cut(&type, 0, l->data, &l->module->mesh);
	return type;
}

uint32_t
st_spread_residual(struct st_lowering *l, const char *name, uint32_t value)
{
	struct st_type type;
	int batch;

	if (l->b.status != ST_OK || l->module->mesh.count == 0)
		return value;
	type = *st_value_type(l->module, value);
	if (st_type_rank(&type) != 3)
		return value;
	batch = st_type_first(&type, 1);
	st_type_cut(&type, 0, l->sequence, &l->module->mesh);
	st_type_cut(&type, batch, l->data, &l->module->mesh);
	st_build_type(&l->b, 0, &type);
	return st_build(&l->b, ST_OP_reshard, name, ST_IN(value));
}
