/* What follows from the settings: ranks, batches, dtypes, schedule. */

#include "models/net.h"

#include <string.h>

static struct st_setting_value *
at(struct st_model *model, enum st_setting setting)
{
	return &model->settings[setting];
}

static void
set_default(struct st_model *model, enum st_setting setting, int64_t i)
{
	at(model, setting)->i = i;
	at(model, setting)->set = 1;
}

int64_t
st_plan_ranks(const struct st_model *model)
{
	return st_plan_dp(model) * model->settings[ST_SET_tp].i;
}

/* Axes that the type system knows but no pass does. */
static enum st_status
check_unsupported(struct st_model *model)
{
	static const struct {
		enum st_setting setting;
		const char *what;
	} later[] = {
		{ST_SET_pp, "pipeline parallelism"},
		{ST_SET_vpp, "interleaved pipeline parallelism"},
		{ST_SET_cp, "context parallelism"},
		{ST_SET_ep, "expert parallelism"},
		{ST_SET_etp, "expert tensor parallelism"},
	};

	for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++) {
		enum st_setting s = later[i].setting;

		if (at(model, s)->i > 1)
			return st_error(model->diag, ST_EINFEASIBLE,
					st_setting_loc(model, s),
					"%s is %lld: %s is not supported yet",
					strrchr(st_setting_path(s), '.') + 1,
					(long long)at(model, s)->i,
					later[i].what);
	}
	return ST_OK;
}

/* dp_shard: -1 means "what is left". */
static enum st_status
fill_shard(struct st_model *model)
{
	struct st_setting_value *shard = at(model, ST_SET_dp_shard);
	const struct st_setting_value *world = at(model, ST_SET_world_size);
	struct st_loc loc = st_setting_loc(model, ST_SET_dp_shard);
	int64_t others =
		at(model, ST_SET_dp_replicate)->i * at(model, ST_SET_tp)->i;

	if (shard->i >= 1)
		return ST_OK;
	if (shard->i == 0)
		return st_error(model->diag, ST_EINPUT, loc,
				"dp_shard: want a whole number from 1, or -1 "
				"for what is left");
	if (!world->set)
		return st_error(model->diag, ST_EINPUT, loc,
				"dp_shard: -1 means what the other axes "
				"leave, but target.world_size is not set");
	if (world->i % others)
		return st_error(model->diag, ST_EINFEASIBLE, loc,
				"dp_shard: %lld ranks (target.world_size) "
				"are no multiple of dp_replicate %lld x tp "
				"%lld = %lld",
				(long long)world->i,
				(long long)at(model, ST_SET_dp_replicate)->i,
				(long long)at(model, ST_SET_tp)->i,
				(long long)others);
	shard->i = world->i / others;
	return ST_OK;
}

static enum st_status
check_world(struct st_model *model)
{
	const struct st_setting_value *world = at(model, ST_SET_world_size);
	int64_t ranks = st_plan_ranks(model);
	enum st_setting large = ST_SET_tp;

	if (at(model, ST_SET_dp_replicate)->i > at(model, large)->i)
		large = ST_SET_dp_replicate;
	if (at(model, ST_SET_dp_shard)->i > at(model, large)->i)
		large = ST_SET_dp_shard;
	if (ranks > 1 << 20)
		return st_error(model->diag, ST_EINFEASIBLE,
				st_setting_loc(model, large),
				"the mesh has %lld ranks, more than 2^20",
				(long long)ranks);
	if (!world->set || world->i == ranks)
		return ST_OK;
	return st_error(model->diag, ST_EINFEASIBLE, world->from->loc,
			"world_size is %lld, but dp_replicate %lld x dp_shard "
			"%lld x tp %lld = %lld ranks",
			(long long)world->i,
			(long long)at(model, ST_SET_dp_replicate)->i,
			(long long)at(model, ST_SET_dp_shard)->i,
			(long long)at(model, ST_SET_tp)->i, (long long)ranks);
}

/* "tp-cp-ep-dp-pp": the first varies fastest.  Only tp and dp can be larger
 * than 1, and tp is always inside. */
static enum st_status
check_order(struct st_model *model)
{
	static const char *const words[] = {"tp", "cp", "ep", "dp", "pp"};
	const char *text = at(model, ST_SET_order)->s;
	struct st_loc loc = st_setting_loc(model, ST_SET_order);
	int place[5] = {-1, -1, -1, -1, -1}, n = 0;

	for (const char *word = text; n < 6; word += 3, n++) {
		int w = 0;

		while (w < 5 && strncmp(word, words[w], 2) != 0)
			w++;
		if (w == 5 || place[w] >= 0 ||
		    (word[2] != '-' && word[2] != '\0')) {
			n = 0;
			break;
		}
		place[w] = n;
		if (word[2] == '\0') {
			n++;
			break;
		}
	}
	if (n != 5)
		return st_error(model->diag, ST_EINPUT, loc,
				"order: want tp, cp, ep, dp and pp once each, "
				"as in tp-cp-ep-dp-pp, not %s",
				text);
	if (place[0] > place[3] && at(model, ST_SET_tp)->i > 1 &&
	    st_plan_dp(model) > 1)
		return st_error(model->diag, ST_EINFEASIBLE, loc,
				"order: dp inside of tp is not supported yet");
	return ST_OK;
}

static enum st_status
check_zero(struct st_model *model)
{
	struct st_setting_value *stage = at(model, ST_SET_zero_stage);
	int64_t shard = at(model, ST_SET_dp_shard)->i;

	if (!stage->set)
		set_default(model, ST_SET_zero_stage, shard > 1 ? 3 : 0);
	if (stage->i == 0 || shard > 1)
		return ST_OK;
	return st_error(model->diag, ST_EINPUT, stage->from->loc,
			"zero_stage is %lld, but dp_shard is 1: there is "
			"nothing to cut the state over; set dp_shard instead "
			"of dp_replicate",
			(long long)stage->i);
}

static enum st_status
check_mesh(struct st_model *model)
{
	ST_TRY(check_unsupported(model));
	ST_TRY(fill_shard(model));
	ST_TRY(check_world(model));
	ST_TRY(check_order(model));
	return check_zero(model);
}

static enum st_status
check_sequence(struct st_model *model)
{
	const struct st_setting_value *seq = at(model, ST_SET_seq_len);
	int64_t tp = at(model, ST_SET_tp)->i;

	if (!seq->set)
		return st_error(model->diag, ST_EINPUT, model->root_loc,
				"training: key 'seq_len' is missing");
	if (at(model, ST_SET_sequence_parallel)->i && seq->i % tp)
		return st_error(model->diag, ST_EINFEASIBLE, seq->from->loc,
				"seq_len %lld is no multiple of tp %lld, as "
				"sequence_parallel needs",
				(long long)seq->i, (long long)tp);
	return ST_OK;
}

/* Two keys that say the same: that of the later text stands. */
static int
settle(struct st_setting_value *a, struct st_setting_value *b)
{
	if (!a->set || !b->set)
		return 1;
	if (a->from->level > b->from->level)
		b->set = 0;
	else if (a->from->level < b->from->level)
		a->set = 0;
	return !a->set || !b->set;
}

static enum st_status
set_micro_batch(struct st_model *model)
{
	struct st_setting_value *micro = at(model, ST_SET_micro_batch_size);
	struct st_setting_value *tokens = at(model, ST_SET_tokens);
	int64_t seq = at(model, ST_SET_seq_len)->i;

	if (!settle(micro, tokens))
		return st_error(model->diag, ST_EINPUT, tokens->from->loc,
				"'%s' and '%s' say the same; give one",
				micro->path, tokens->path);
	if (tokens->set && tokens->i % seq)
		return st_error(model->diag, ST_EINPUT, tokens->from->loc,
				"%lld tokens are no multiple of seq_len %lld",
				(long long)tokens->i, (long long)seq);
	if (tokens->set)
		micro->from = tokens->from;
	if (!micro->set)
		set_default(model, ST_SET_micro_batch_size,
			    tokens->set ? tokens->i / seq : 1);
	return ST_OK;
}

static enum st_status
set_global_batch(struct st_model *model)
{
	struct st_setting_value *global = at(model, ST_SET_global_batch_size);
	struct st_setting_value *count = at(model, ST_SET_micro_batches);
	int64_t micro = at(model, ST_SET_micro_batch_size)->i;
	int64_t dp = st_plan_dp(model), once = micro * dp;

	settle(global, count);
	if (!global->set) {
		set_default(model, ST_SET_global_batch_size,
			    once * (count->set ? count->i : 1));
		global->from = count->set ? count->from : NULL;
	}
	if (global->i % once)
		return st_error(model->diag, ST_EINPUT, global->from->loc,
				"global_batch_size %lld is no multiple of "
				"micro_batch_size %lld x data-parallel ranks "
				"%lld = %lld",
				(long long)global->i, (long long)micro,
				(long long)dp, (long long)once);
	model->micro_batches = global->i / once;
	if (count->set && count->i != model->micro_batches)
		return st_error(model->diag, ST_EINPUT, count->from->loc,
				"%lld micro-batches of %lld x %lld sequences "
				"make %lld, but global_batch_size is %lld",
				(long long)count->i, (long long)micro,
				(long long)dp, (long long)(count->i * once),
				(long long)global->i);
	if (!count->set)
		count->from = NULL;
	set_default(model, ST_SET_micro_batches, model->micro_batches);
	return ST_OK;
}

/* Sums and optimizer state of bf16 weights are f32 unless stated. */
static enum st_status
set_dtypes(struct st_model *model)
{
	struct st_setting_value *params = at(model, ST_SET_dtype);
	enum st_setting others[] = {ST_SET_reduce_dtype, ST_SET_master_dtype};
	const char *wide;

	if (!params->set)
		params->s = "f32";
	params->set = 1;
	wide = strcmp(params->s, "bf16") == 0 ? "f32" : params->s;
	for (int i = 0; i < 2; i++) {
		struct st_setting_value *other = at(model, others[i]);

		if (!other->set)
			other->s = wide;
		other->set = 1;
	}
	return ST_OK;
}

static enum st_status
set_schedule(struct st_model *model)
{
	struct st_setting_value *total = at(model, ST_SET_total_steps);
	const struct st_setting_value *floor = at(model, ST_SET_lr_min);
	const struct st_setting_value *warmup = at(model, ST_SET_warmup_steps);
	const struct st_setting_value *steps = at(model, ST_SET_steps);
	const struct st_setting_value *lr = at(model, ST_SET_lr);

	if (!total->set)
		set_default(model, ST_SET_total_steps,
			    floor->from && steps->set ? steps->i : 0);
	if (floor->f[0] > lr->f[0])
		return st_error(model->diag, ST_EINPUT,
				st_setting_loc(model, ST_SET_lr_min),
				"lr_min %g is larger than lr %g", floor->f[0],
				lr->f[0]);
	if (floor->f[0] > 0 && total->i == 0)
		return st_error(model->diag, ST_EINPUT, floor->from->loc,
				"lr_min needs total_steps or steps: without "
				"an end the rate does not fall");
	if (total->i > 0 && warmup->i > total->i)
		return st_error(model->diag, ST_EINPUT,
				st_setting_loc(model, ST_SET_warmup_steps),
				"warmup_steps %lld is more than total_steps "
				"%lld",
				(long long)warmup->i, (long long)total->i);
	return ST_OK;
}

static enum st_status
check_optimizer(struct st_model *model)
{
	const struct st_setting_value *betas = at(model, ST_SET_betas);

	for (int i = 0; i < 2; i++)
		if (betas->f[i] >= 1)
			return st_error(model->diag, ST_EINPUT,
					st_setting_loc(model, ST_SET_betas),
					"betas: want numbers below 1, not %g",
					betas->f[i]);
	return ST_OK;
}

enum st_status
st_plan_check(struct st_model *model)
{
	ST_TRY(check_mesh(model));
	ST_TRY(check_sequence(model));
	ST_TRY(set_micro_batch(model));
	ST_TRY(set_global_batch(model));
	ST_TRY(set_dtypes(model));
	ST_TRY(set_schedule(model));
	return check_optimizer(model);
}
