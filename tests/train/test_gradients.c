/*
 * Gradients in double precision against central differences, for a two-layer
 * model of each family, on one rank and cut over tp = 2 (where heads and
 * vocabulary do not divide).
 *
 * With beta1 = 0 and no clipping, AdamW's first moment after one step is the
 * gradient itself, so the gradients are read as users would read states.
 */

#include "tests/train/harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRIES = 20, DIRECTIONS = 5 };

static const char only_gradients[] =
	"training.grad_clip=0 training.optimizer.betas=[0,0.95] "
	"training.optimizer.weight_decay=0";

static uint64_t seed = 88172645463325252u;

static double
uniform(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (double)(seed >> 11) / 9007199254740992.0 * 2 - 1;
}

/* One param: its values and its gradient. */
struct param {
	uint32_t state;
	const char *name;
	size_t count;
	double *value, *gradient, *direction;
};

struct model {
	struct run run;
	struct param params[64];
	int count;
};

static uint32_t
find_state(const struct st_module *m, const char *name)
{
	for (uint32_t i = 0; i < m->states.count; i++)
		if (strcmp(st_value_name(m, m->states.at[i].value), name) == 0)
			return i;
	return ST_NONE;
}

static void
read_params(struct model *model)
{
	const struct st_module *m = model->run.module;

	for (uint32_t i = 0; i < m->states.count; i++) {
		struct param *p = &model->params[model->count];
		uint32_t value = m->states.at[i].value;

		if (m->states.at[i].role != ST_ROLE_param)
			continue;
		p->state = i;
		p->name = st_value_name(m, value);
		p->count = (size_t)st_type_elements(st_value_type(m, value));
		p->value = malloc(p->count * sizeof(double));
		p->gradient = malloc(p->count * sizeof(double));
		p->direction = malloc(p->count * sizeof(double));
		st_session_read_state(model->run.session, i, p->value);
		model->count++;
	}
}

/* Larger, random params: at their initial values many gradients are tiny. */
static void
shake(struct model *model)
{
	for (int i = 0; i < model->count; i++) {
		struct param *p = &model->params[i];

		for (size_t j = 0; j < p->count; j++)
			p->value[j] += 0.3 * uniform();
		st_session_write_state(model->run.session, p->state, p->value);
	}
}

static void
read_gradients(struct model *model)
{
	double loss;

	check(run_step(&model->run, &loss) == 0, "step");
	for (int i = 0; i < model->count; i++) {
		struct param *p = &model->params[i];
		char name[256];

		snprintf(name, sizeof(name), "%s.exp_avg", p->name);
		st_session_read_state(model->run.session,
				      find_state(model->run.module, name),
				      p->gradient);
		/* The step has moved the params; put them back. */
		st_session_write_state(model->run.session, p->state, p->value);
	}
}

static double
loss_at(struct model *model, struct param *p, const double *value)
{
	double loss = NAN;

	st_session_write_state(model->run.session, p->state, value);
	run_eval(&model->run, &loss);
	return loss;
}

/* Central difference of fourth order: its error is far below 1e-6 at a step
 * where rounding does not matter yet. */
static double
difference(const double at[4], double h)
{
	return (8 * (at[2] - at[1]) - (at[3] - at[0])) / (12 * h);
}

static const double points[4] = {-2, -1, 1, 2};

static void
check_entries(struct model *model, struct param *p, const char *label)
{
	const double h = 2e-4;
	double norm = 0, error = 0;

	for (int i = 0; i < ENTRIES; i++) {
		size_t j = (size_t)((uniform() + 1) / 2 * (double)p->count) %
			   p->count;
		double keep = p->value[j], at[4], d;

		for (int k = 0; k < 4; k++) {
			p->value[j] = keep + points[k] * h;
			at[k] = loss_at(model, p, p->value);
		}
		p->value[j] = keep;
		d = difference(at, h) - p->gradient[j];
		norm += p->gradient[j] * p->gradient[j];
		error += d * d;
	}
	st_session_write_state(model->run.session, p->state, p->value);
	/* A gradient that is zero for a reason (a bias before softmax that
	 * shifts all scores alike) has no relative error. */
	check(sqrt(error) <= 1e-6 * sqrt(norm) + 1e-10,
	      "%s: %s: |g - fd| %.3g, |g| %.3g", label, p->name, sqrt(error),
	      sqrt(norm));
}

static void
move_all(struct model *model, double by)
{
	for (int i = 0; i < model->count; i++) {
		struct param *p = &model->params[i];
		double *moved = malloc(p->count * sizeof(double));

		for (size_t j = 0; j < p->count; j++)
			moved[j] = p->value[j] + by * p->direction[j];
		st_session_write_state(model->run.session, p->state, moved);
		free(moved);
	}
}

static void
check_direction(struct model *model, const char *label)
{
	const double h = 2e-4;
	double slope = 0, at[4], length = 0;

	for (int i = 0; i < model->count; i++) {
		struct param *p = &model->params[i];

		for (size_t j = 0; j < p->count; j++) {
			p->direction[j] = uniform();
			slope += p->direction[j] * p->gradient[j];
			length += p->gradient[j] * p->gradient[j];
		}
	}
	for (int k = 0; k < 4; k++) {
		move_all(model, points[k] * h);
		run_eval(&model->run, &at[k]);
	}
	move_all(model, 0);
	check(fabs(difference(at, h) - slope) <= 1e-6 * sqrt(length),
	      "%s: direction: %.12g, difference %.12g", label, slope,
	      difference(at, h));
}

static void
check_opened(struct model *model, const char *label)
{
	read_params(model);
	shake(model);
	read_gradients(model);
	for (int i = 0; i < DIRECTIONS; i++)
		check_direction(model, label);
	for (int i = 0; i < model->count; i++) {
		check_entries(model, &model->params[i], label);
		free(model->params[i].value);
		free(model->params[i].gradient);
		free(model->params[i].direction);
	}
	run_close(&model->run);
}

static void
check_model(const char *label, const char *net, const char *sets)
{
	struct model model;
	char all[512];

	memset(&model, 0, sizeof(model));
	snprintf(all, sizeof(all), "%s %s", only_gradients, sets);
	check(run_open(&model.run, net, all) == 0, "%s: open", label);
	check_opened(&model, label);
}

/* The rules that no family needs.  relu sees values far from its kink: one
 * branch is always open, the other always shut. */
static const char other_ops[] =
	"stretto-ir 1\n"
	"form logical\n"
	"%s"
	"option beta1 = 0.0\n"
	"state param %%emb : f64[61%s, 24]\n"
	"state param %%open : f64[24]\n"
	"state param %%shut : f64[24]\n"
	"state param %%full : f64[16, 8, 24]\n"
	"entry @init() {\n"
	"  %%a = random seed=1, std=0.1, stream=\"emb\" : f64[61, 24]\n"
	"  %%b = fill factor=2.0 : f64[24]\n"
	"  %%c = fill factor=-2.0 : f64[24]\n"
	"  %%d = random seed=1, std=0.1, stream=\"full\" : f64[16, 8, 24]\n"
	"  ret %%a -> %%emb ret %%b -> %%open\n"
	"  ret %%c -> %%shut ret %%d -> %%full\n"
	"}\n"
	"entry @eval(%%tokens : i32[8, 16], %%targets : i32[8, 16]) {\n"
	"  %%x = embedding %%tokens, %%emb : f64[16, 8, 24]\n"
	"  %%x1 = add %%x, %%open, dims=\"tbc,c->tbc\" : f64[16, 8, 24]\n"
	"  %%x2 = add %%x, %%shut, dims=\"tbc,c->tbc\" : f64[16, 8, 24]\n"
	"  %%r1 = activation %%x1, act=\"relu\" : f64[16, 8, 24]\n"
	"  %%r2 = activation %%x2, act=\"relu\" : f64[16, 8, 24]\n"
	"  %%s = activation %%x, act=\"silu\" : f64[16, 8, 24]\n"
	"  %%e = activation %%x, act=\"gelu_erf\" : f64[16, 8, 24]\n"
	"  %%f = add %%s, %%full, dims=\"tbc,tbc->tbc\" : f64[16, 8, 24]\n"
	"  %%g = scale %%f, factor=1.75 : f64[16, 8, 24]\n"
	"  %%h = copy %%g : f64[16, 8, 24]\n"
	"  %%i = cast %%h : f64[16, 8, 24]\n"
	"  %%j = reshape %%i : f64[16, 8*24]\n"
	"  %%k = reshape %%j : f64[16, 8, 24]\n"
	"  %%l = slice %%k, dim=2, at=4 : f64[16, 8, 12]\n"
	"  %%m = unslice %%l, dim=2, at=6 : f64[16, 8, 24]\n"
	"  %%n = sum %%r1, %%r2, %%e, %%m, %%k, %%e : f64[16, 8, 24]\n"
	"  %%logits = matmul %%n, %%emb, dims=\"tbc,vc->tbv\" : "
	"f64[16, 8, 61]\n"
	"  %%max = xent_max %%logits : f64[16, 8]\n"
	"  %%se, %%tg = xent_sum %%logits, %%targets, %%max : "
	"f64[16, 8], f64[16, 8]\n"
	"  %%loss = xent_loss %%max, %%se, %%tg, factor=0.0078125 : f64[]\n"
	"  ret %%loss as loss\n"
	"}\n";

static void
check_other_ops(const char *label, const char *mesh, const char *cut)
{
	struct model model;
	char text[4096];

	memset(&model, 0, sizeof(model));
	snprintf(text, sizeof(text), other_ops, mesh, cut);
	check(run_open_ir(&model.run, text, 61) == 0, "%s: open", label);
	check_opened(&model, label);
}

int
main(void)
{
	check_model("gpt2", net_gpt2, "");
	check_model("gpt2, tp 2", net_gpt2, "parallelism.tp=2");
	check_model("gpt2, tp 2, sequence parallel", net_gpt2,
		    "parallelism.tp=2 parallelism.sequence_parallel=true");
	check_model("gpt2, exact gelu, recompute", net_gpt2,
		    "model.activation_function=gelu training.recompute=full");
	check_model("llama", net_llama, "");
	check_model("llama, tp 2", net_llama, "parallelism.tp=2");
	check_model("llama, tp 2, sequence parallel", net_llama,
		    "parallelism.tp=2 parallelism.sequence_parallel=true");
	check_other_ops("other ops", "", "");
	check_other_ops("other ops, tp 2", "mesh tp=2\n", "+1/tp");
	return finish();
}
