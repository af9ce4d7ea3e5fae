/* The cost model. */

#include "passes/cost.h"

#include <math.h>
#include <string.h>

const struct st_machine st_machine_laptop = {
	.name = "laptop",
	.memory_bytes = 8000000000,
	.sms = 2,
	.matmul_tflops = {[ST_F64] = 0.055, [ST_F32] = 0.11, [ST_BF16] = 0.11},
	.matmul_start_us = 1,
	.memory_gb_per_s = 24,
	.memory_start_us = 0.5,
	.node_us = 0.5,
	.tier_count = 1,
	.tiers =
		{{.name = "node", .devices = 2, .gb_per_s = 24, .hop_us = 0.7}},
	.form_count = 4,
	.forms = {{.op = ST_OP_all_gather,
		   .ranks = 2,
		   .a_us = 0.7,
		   .bus_gb_per_s = 2.7},
		  {.op = ST_OP_reduce_scatter,
		   .ranks = 2,
		   .a_us = 0.7,
		   .bus_gb_per_s = 2.7},
		  {.op = ST_OP_all_reduce,
		   .ranks = 2,
		   .a_us = 0.7,
		   .bus_gb_per_s = 2.7},
		  {.op = ST_OP_all_to_all,
		   .ranks = 2,
		   .a_us = 0.7,
		   .bus_gb_per_s = 2.7}},
};

static int64_t
picoseconds(double us)
{
	return (int64_t)(us * ST_PS_PER_US + 0.5);
}

static double
local_bytes(const struct st_module *m, uint32_t value)
{
	return (double)st_type_local_bytes(st_value_type(m, value), &m->mesh);
}

double
st_cost_touched(const struct st_module *m, const struct st_node *node)
{
	double bytes = 0;

	for (uint32_t i = 0; i < node->results; i++)
		bytes += local_bytes(m, node->first_result + i);
	if (st_ops[node->op].cost == ST_COST_ROWS)
		return 2 * bytes;
	for (uint32_t i = 0; i < node->operands; i++)
		bytes += local_bytes(m, st_node_operand(m, node, i));
	return bytes;
}

/* Two for each combination of the letters of an einsum. */
static double
einsum_flops(const struct st_module *m, const struct st_node *node)
{
	const char *at = st_node_string(m, node, ST_KEY_dims);
	uint8_t seen[128] = {0};
	double flops = 2;
	uint32_t operand = 0;
	int extent = 0;

	for (; *at && *at != '-'; at++) {
		if (*at == ',') {
			operand++;
			extent = 0;
			continue;
		}
		if (!seen[*at & 127])
			flops *= (double)st_type_local_extent(
				st_value_type(
					m, st_node_operand(m, node, operand)),
				extent, &m->mesh);
		seen[*at & 127] = 1;
		extent++;
	}
	return flops;
}

/* Size of a head, and queries times heads: the first operand is [T, B, heads],
 * whose last factor is the size of a head. */
static double
attention_flops(const struct st_module *m, const struct st_node *node,
		int64_t *head)
{
	const struct st_type *type =
		st_value_type(m, st_node_operand(m, node, 0));
	double t = (double)st_type_local_extent(type, 0, &m->mesh);
	double n = (double)st_type_local_elements(type, &m->mesh);
	int packed = node->op == ST_OP_attention_qkv ||
		     node->op == ST_OP_attention_qkv_grad;

	*head = type->factors ? type->f[type->factors - 1].size : 1;
	if (packed)
		n /= 3;
	/* Two products of 2*T*n, half of them masked. */
	return 2 * t * n;
}

double
st_cost_flops(const struct st_module *m, const struct st_node *node)
{
	int64_t head;

	switch (st_ops[node->op].cost) {
	case ST_COST_FLOPS: return einsum_flops(m, node);
	case ST_COST_ATTENTION: return attention_flops(m, node, &head);
	case ST_COST_ATTENTION_GRAD:
		return 2.5 * attention_flops(m, node, &head);
	default: return 0;
	}
}

/* The dtype that a product computes in: that of its first operand. */
static double
matmul_rate(const struct st_machine *machine, const struct st_module *m,
	    const struct st_node *node)
{
	int dtype = st_value_type(m, st_node_operand(m, node, 0))->dtype;
	double rate = machine->matmul_tflops[dtype];

	if (rate == 0)
		rate = machine->matmul_tflops[ST_F32];
	if (rate == 0)
		rate = machine->matmul_tflops[ST_BF16];
	return rate;
}

static double
attention_rate(const struct st_machine *machine, const struct st_module *m,
	       const struct st_node *node, int64_t head)
{
	int backward = st_ops[node->op].cost == ST_COST_ATTENTION_GRAD;
	double small = backward ? machine->attention_backward_tflops_64
				: machine->attention_forward_tflops_64;
	double large = backward ? machine->attention_backward_tflops_128
				: machine->attention_forward_tflops_128;
	double rate = head <= 64 && small > 0 ? small : large;

	if (rate == 0)
		rate = small;
	return rate > 0 ? rate : matmul_rate(machine, m, node);
}

static double
memory_us(const struct st_machine *machine, const struct st_module *m,
	  const struct st_node *node)
{
	double rate = machine->op_gb_per_s[node->op];

	if (rate == 0)
		rate = machine->memory_gb_per_s;
	return rate > 0 ? st_cost_touched(m, node) / (rate * 1e3) : 0;
}

static double
compute_us(const struct st_machine *machine, const struct st_module *m,
	   const struct st_node *node)
{
	double start = machine->op_start_us[node->op];
	double by_memory, by_flops;
	int64_t head = 0;

	if (start == 0)
		start = st_ops[node->op].cost == ST_COST_FLOPS
				? machine->matmul_start_us
				: machine->memory_start_us;
	switch (st_ops[node->op].cost) {
	case ST_COST_FREE: return 0;
	case ST_COST_FLOPS:
		by_memory = memory_us(machine, m, node);
		by_flops = einsum_flops(m, node) /
			   (matmul_rate(machine, m, node) * 1e6);
		return start + (by_flops > by_memory ? by_flops : by_memory);
	case ST_COST_ATTENTION:
	case ST_COST_ATTENTION_GRAD:
		by_flops = st_cost_flops(m, node);
		attention_flops(m, node, &head);
		return start +
		       by_flops /
			       (attention_rate(machine, m, node, head) * 1e6);
	default: return start + memory_us(machine, m, node);
	}
}

int64_t
st_cost_bytes(const struct st_module *m, const struct st_node *node)
{
	uint32_t whole = node->op == ST_OP_all_gather
				 ? node->first_result
				 : st_node_operand(m, node, 0);

	return st_type_local_bytes(st_value_type(m, whole), &m->mesh);
}

/* Members of a group along axes that sit in one unit of a tier: ranks are
 * numbered row-major, and units are runs of `devices` of them. */
static int64_t
members_inside(const struct st_mesh *mesh, unsigned axes, int64_t devices)
{
	int64_t inside = 1, stride = 1;

	for (int a = (int)mesh->count - 1; a >= 0; a--) {
		if (axes >> a & 1) {
			int64_t room = devices / stride;

			if (room < 1)
				room = 1;
			inside *= mesh->size[a] < room ? mesh->size[a] : room;
		}
		stride *= mesh->size[a];
	}
	return inside;
}

int
st_cost_tier(const struct st_machine *machine, const struct st_mesh *mesh,
	     unsigned axes)
{
	int64_t span = st_mesh_span(mesh, axes);
	int tier = 0;

	while (tier + 1 < machine->tier_count &&
	       machine->tiers[tier].devices > 0 &&
	       members_inside(mesh, axes, machine->tiers[tier].devices) < span)
		tier++;
	return tier;
}

/* The form for n ranks: the smallest that is measured for at least as many,
 * else the largest. */
static const struct st_machine_form *
find_form(const struct st_machine *machine, enum st_op op, int64_t n)
{
	const struct st_machine_form *best = NULL;

	for (int i = 0; i < machine->form_count; i++) {
		const struct st_machine_form *form = &machine->forms[i];

		if (form->op != op)
			continue;
		if (!best ||
		    (best->ranks < n
			     ? form->ranks > best->ranks
			     : form->ranks >= n && form->ranks < best->ranks))
			best = form;
	}
	return best;
}

/* Bytes that cross a member's link for each byte of the buffer. */
static double
bus_factor(enum st_op op, int64_t n)
{
	double part = (double)(n - 1) / (double)n;

	return op == ST_OP_all_reduce ? 2 * part : part;
}

static double
inside_us(const struct st_machine *machine, enum st_op op, int64_t n,
	  double bytes)
{
	const struct st_machine_form *form = find_form(machine, op, n);
	double factor = bus_factor(op, n);
	double rate = machine->tier_count ? machine->tiers[0].gb_per_s : 0;

	double us, small;

	if (!form)
		return rate > 0 ? bytes * factor / (rate * 1e3) : 0;
	us = form->a_us + bytes * factor / (form->bus_gb_per_s * 1e3) +
	     form->c_ns_per_sqrt_byte * sqrt(bytes) / 1e3;
	if (form->small_bus_gb_per_s == 0)
		return us;
	small = form->small_a_us +
		bytes * factor / (form->small_bus_gb_per_s * 1e3);
	return small < us ? small : us;
}

static double
collective_us(const struct st_machine *machine, const struct st_mesh *mesh,
	      enum st_op op, unsigned axes, int64_t bytes)
{
	int64_t n = st_mesh_span(mesh, axes), inside, steps;
	int tier = st_cost_tier(machine, mesh, axes);
	double rate, outside, us;

	if (n <= 1)
		return 0;
	if (tier == 0)
		return inside_us(machine, op, n, (double)bytes);
	inside = members_inside(mesh, axes, machine->tiers[0].devices);
	/* A ring through all members: those of a unit share its links. */
	rate = machine->tiers[tier].gb_per_s * (double)inside;
	if (machine->tiers[0].gb_per_s > 0 && machine->tiers[0].gb_per_s < rate)
		rate = machine->tiers[0].gb_per_s;
	steps = (op == ST_OP_all_reduce ? 2 : 1) * (n / inside - 1);
	outside =
		rate > 0 ? (double)bytes * bus_factor(op, n) / (rate * 1e3) : 0;
	us = machine->tiers[tier].hop_us * (double)steps + outside;
	if (inside > 1)
		us += machine->tiers[0].hop_us * (double)(inside - 1);
	us += find_form(machine, op, n) ? find_form(machine, op, n)->a_us : 0;
	return us;
}

/* Of a group over several axes the slowest link counts. */
static double
speed_of(const struct st_machine *machine, unsigned axes)
{
	double least = 0;

	for (unsigned i = 0; i < ST_MAX_AXES; i++) {
		double speed = machine->axis_speed[i];

		if (!(axes >> i & 1))
			continue;
		speed = speed > 0 ? speed : 1;
		least = least == 0 || speed < least ? speed : least;
	}
	return least > 0 ? least : 1;
}

int64_t
st_cost_collective(const struct st_machine *machine, const struct st_mesh *mesh,
		   enum st_op op, unsigned axes, int64_t bytes)
{
	return picoseconds(collective_us(machine, mesh, op, axes, bytes) /
			   speed_of(machine, axes));
}

int64_t
st_cost_measured(const struct st_machine *machine, const struct st_module *m,
		 const struct st_node *node)
{
	uint32_t name = m->values.at[node->first_result].name;

	return name < machine->node_ps_count ? machine->node_ps[name] : 0;
}

int64_t
st_cost_node(const struct st_machine *machine, const struct st_module *m,
	     const struct st_node *node)
{
	int64_t measured = st_cost_measured(machine, m, node);

	if (measured > 0)
		return measured;
	if (st_ops[node->op].cost == ST_COST_LINK)
		return st_cost_collective(
			machine, &m->mesh, node->op,
			(unsigned)st_node_int(m, node, ST_KEY_axes),
			st_cost_bytes(m, node));
	return picoseconds(compute_us(machine, m, node));
}
