/* Nodes to launch records; groups to teams. */

#include "runtime/launch.h"

#include "kernels/cpu/cpu.h"

#include <string.h>

static const struct {
	st_kernel_fn *fast, *reference;
} kernels[ST_OP_COUNT] = {
#define X(name) [ST_OP_##name] = {st_cpu_##name, st_ref_##name},
	ST_CPU_OPS(X)
#undef X
};

/* Rank of member `i` in the group that `rank` is in along axes. */
static int64_t
rank_of_member(const struct st_mesh *mesh, int64_t rank, unsigned axes,
	       int64_t i)
{
	int64_t place = 1, at = rank;

	for (int a = (int)mesh->count - 1; a >= 0; a--) {
		if (axes >> a & 1) {
			int64_t now = st_mesh_coordinate(mesh, rank, a);

			at += (i % mesh->size[a] - now) * place;
			i /= mesh->size[a];
		}
		place *= mesh->size[a];
	}
	return at;
}

/* Index among the groups along axes: the place in all other axes. */
static int64_t
group_of(const struct st_mesh *mesh, int64_t rank, unsigned axes)
{
	return st_mesh_index(mesh, rank, ~axes);
}

static enum st_status
create_groups(struct st_teams *teams, struct st_arena *arena,
	      const struct st_module *m, unsigned axes, int timeout_ms,
	      const struct st_link *link)
{
	int64_t span = st_mesh_span(&m->mesh, axes);
	int64_t ranks = st_mesh_ranks(&m->mesh);
	int *members = st_arena_array(arena, (size_t)span, sizeof(int));

	teams->groups[axes] = st_arena_array(
		arena, (size_t)(ranks / span), sizeof(struct st_team *));
	if (!members || !teams->groups[axes])
		return st_error_memory(m->diag);
	teams->count[axes] = ranks / span;
	for (int64_t rank = 0; rank < ranks; rank++) {
		struct st_team_options options = {
			.name = "group",
			.members = (int)span,
			.ranks = members,
			.timeout_ms = timeout_ms,
			.link = *link,
		};

		if (st_mesh_index(&m->mesh, rank, axes) != 0)
			continue;
		for (int64_t i = 0; i < span; i++)
			members[i] = (int)rank_of_member(&m->mesh, rank, axes,
							 i);
		ST_TRY(st_team_create(
			&teams->groups[axes][group_of(&m->mesh, rank, axes)],
			arena, m->diag, &options));
	}
	return ST_OK;
}

enum st_status
st_teams_create(struct st_teams *teams, struct st_arena *arena,
		const struct st_module *m, int timeout_ms,
		const struct st_link *link)
{
	memset(teams, 0, sizeof(*teams));
	for (size_t i = 0; i < m->nodes.count; i++) {
		const struct st_node *node = &m->nodes.at[i];
		unsigned axes;

		if (st_ops[node->op].class != ST_COMM)
			continue;
		axes = (unsigned)st_node_int(m, node, ST_KEY_axes);
		if (!teams->groups[axes])
			ST_TRY(create_groups(teams, arena, m, axes,
					     timeout_ms, link));
	}
	return ST_OK;
}

void
st_teams_destroy(struct st_teams *teams)
{
	for (int axes = 0; axes < 1 << ST_MAX_AXES; axes++)
		for (int64_t i = 0; i < teams->count[axes]; i++)
			st_team_destroy(teams->groups[axes][i]);
}

void
st_teams_cancel(struct st_teams *teams, enum st_status status,
		const char *reason)
{
	for (int axes = 0; axes < 1 << ST_MAX_AXES; axes++)
		for (int64_t i = 0; i < teams->count[axes]; i++)
			st_team_cancel(teams->groups[axes][i], status, reason);
}

static char *
place_of(const struct st_module *m, uint32_t value, char *base)
{
	return base + m->placements.at[m->values.at[value].arena_at];
}

static int
is_float(enum st_dtype dtype)
{
	return dtype == ST_F32 || dtype == ST_F64 || dtype == ST_BF16;
}

/* The arithmetic of a node: that of its first floating result or operand. */
static enum st_dtype
arithmetic(const struct st_module *m, const struct st_node *node)
{
	for (uint32_t i = 0; i < node->results; i++) {
		enum st_dtype dtype =
			st_value_type(m, node->first_result + i)->dtype;

		if (is_float(dtype))
			return dtype;
	}
	return st_value_type(m, node->first_result)->dtype;
}

/* All floating operands and results must be alike, but for casts. */
static enum st_status
check_dtypes(const struct st_module *m, const struct st_node *node)
{
	enum st_dtype dtype = arithmetic(m, node);
	int odd = dtype == ST_BF16;

	if (node->op == ST_OP_cast || st_ops[node->op].class != ST_COMPUTE)
		return ST_OK;
	for (uint32_t i = 0; i < node->operands; i++) {
		enum st_dtype d =
			st_value_type(m, st_node_operand(m, node, i))->dtype;

		odd |= is_float(d) && d != dtype;
	}
	for (uint32_t i = 0; i < node->results; i++) {
		enum st_dtype d =
			st_value_type(m, node->first_result + i)->dtype;

		odd |= is_float(d) && d != dtype;
	}
	if (odd)
		return st_error(m->diag, ST_EINFEASIBLE,
				st_module_loc_at(m, node->loc),
				"%s: the cpu backend computes in f32 or f64, "
				"not in bf16 or a mixture; set training.dtype "
				"(or torch_dtype) to f32",
				st_ops[node->op].name);
	return ST_OK;
}

/* Only padded cuts need it, and they are rare: one block a node. */
static enum st_status
add_scratch(struct st_arena *arena, const struct st_module *m,
	    struct st_launch *launch)
{
	const struct st_comm_args *c = &launch->comm;

	if (c->pad_bytes)
		launch->padded = st_arena_alloc(arena, (size_t)c->pad_bytes);
	if (c->strip_bytes)
		launch->unstripped =
			st_arena_alloc(arena, (size_t)c->strip_bytes);
	return arena->failed ? st_error_memory(m->diag) : ST_OK;
}

static enum st_status
build_one(struct st_arena *arena, const struct st_bind *b,
	  const struct st_teams *teams, char *base, int reference,
	  struct st_launch *launch)
{
	const struct st_module *m = b->module;
	const struct st_node *node = b->node;
	struct st_kernel *k = &launch->kernel;
	unsigned n = (unsigned)node->operands + node->results;

	k->ptr = st_arena_array(arena, n, sizeof(*k->ptr));
	if (!k->ptr)
		return st_error_memory(m->diag);
	for (uint32_t i = 0; i < node->operands; i++)
		k->ptr[i] = place_of(m, st_node_operand(m, node, i), base);
	for (uint32_t i = 0; i < node->results; i++)
		k->ptr[node->operands + i] =
			place_of(m, node->first_result + i, base);
	k->pointers = (int32_t)n;
	k->op = node->op;
	k->dtype = (int32_t)arithmetic(m, node);
	if (st_ops[node->op].class == ST_COMM) {
		unsigned axes = (unsigned)st_node_int(m, node, ST_KEY_axes);

		launch->team = teams->groups[axes][group_of(&m->mesh, b->rank,
							    axes)];
		launch->member = (int)st_mesh_index(&m->mesh, b->rank, axes);
		ST_TRY(st_bind_comm(b, &launch->comm));
		return add_scratch(arena, m, launch);
	}
	if (node->op == ST_OP_wait)
		return ST_OK;
	ST_TRY(check_dtypes(m, node));
	ST_TRY(st_binds[node->op](b, k));
	launch->fn = reference ? kernels[k->op].reference
			       : kernels[k->op].fast;
	return ST_OK;
}

enum st_status
st_launch_build(struct st_arena *arena, const struct st_module *m,
		const struct st_entry *entry, int64_t rank,
		const struct st_teams *teams, char *base, int reference,
		struct st_launch **launches)
{
	struct st_launch *all =
		st_arena_array(arena, entry->nodes + 1u, sizeof(*all));
	uint32_t numbers[1 << ST_MAX_AXES] = {0};

	if (!all)
		return st_error_memory(m->diag);
	for (uint32_t i = 0; i < entry->nodes; i++) {
		const struct st_node *node =
			&m->nodes.at[entry->first_node + i];
		struct st_bind b = {m, node, rank};

		all[i].node = entry->first_node + i;
		ST_TRY(build_one(arena, &b, teams, base, reference, &all[i]));
		if (st_ops[node->op].class == ST_COMM) {
			all[i].axes = (unsigned)st_node_int(m, node,
							    ST_KEY_axes);
			all[i].number = ++numbers[all[i].axes];
			all[i].is_start = node->start;
		} else if (node->op == ST_OP_wait) {
			const struct st_launch *start =
				&all[st_wait_start(m, node) -
				     entry->first_node];

			all[i].axes = start->axes;
			all[i].number = start->number;
			all[i].is_wait = 1;
		}
	}
	*launches = all;
	return ST_OK;
}
