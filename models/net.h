#ifndef ST_NET_H
#define ST_NET_H

/*
 * What the front end knows of a net, between its files and its module.
 *
 *   load.c, tree.c   text -> located tree
 *   net.c            includes, --set, hf_config -> one tree
 *   settings.c       the tree outside of `model` -> values with an origin
 *   plan.c           batch sizes, mesh, dtypes: what follows from them
 *   family.c         family files, keys of `model`
 *   outline.c        lists of layers
 *   expr.c           "hidden_size / num_attention_heads"
 *   lower.c          states, entries and options of the module
 *   lower_args.c     arguments of a layer
 *   lower_linear.c   layers with a matrix
 *   lower_layers.c   the other kinds of layers
 *   spread.c         parallelism -> mesh, and who is cut over which axes
 *   model.c          loading and printing
 */

#include "models/model.h"
#include "models/yaml.h"

/* ---- settings: everything outside of `model` ---- */

enum st_setting {
#define SETTING(id, ...) ST_SET_##id,
#define ALIAS(...)
#include "models/settings.def"
	ST_SET_COUNT
};

struct st_setting_value {
	const struct st_yaml *from; /* NULL: a default, or not set */
	const char *path;           /* as stated */
	int set;
	int64_t i;
	double f[2];
	const char *s;
};

/* ---- keys of `model`, as the family declares them ---- */

struct st_model_key {
	const char *name;
	const struct st_yaml *stated;    /* in the net; NULL: not */
	const struct st_yaml *otherwise; /* the family's default or NULL */
	struct st_loc declared;
	int derived; /* under `let`: no net may state it */
	int busy;    /* being computed */
	int used;
};

struct st_keys {
	struct st_model_key *at;
	size_t count, capacity;
};

struct st_model {
	struct st_arena *arena;
	struct st_diag *diag;
	struct st_names *names;
	const char *path;
	const char *const *search;
	const struct st_yaml *root; /* all files and --set in one */
	struct st_loc root_loc, model_loc;
	struct st_setting_value settings[ST_SET_COUNT];
	struct st_keys keys;
	const struct st_yaml *layers;
	const char *family;          /* NULL: the net lists its layers itself */
	const struct st_yaml *dtype; /* of `model`, both eras; or NULL */
	int64_t micro_batches, vocab_size;
};

/* net.c */
enum st_status st_net_read(struct st_model *model,
			   const struct st_model_source *source);
/* A path beside that of a file; in the arena. */
const char *st_net_beside(struct st_arena *arena, const char *file,
			  const char *path);
/* Of the YAML files in a folder, by name without its ending, and of `best`,
 * the one that is nearest to a word; NULL if none is near.  folder and best
 * may be NULL. */
const char *st_net_nearest(struct st_arena *arena, const char *word,
			   const char *folder, const char *best);
/* Error for a word that is none of the list. */
enum st_status st_net_unknown(struct st_diag *diag, struct st_loc loc,
			      const char *what, const char *word,
			      const char *const *list);

/* settings.c */
enum st_status st_settings_read(struct st_model *model);
const char *st_setting_path(enum st_setting setting);
void st_settings_print(const struct st_model *model, struct st_buffer *out);
/* Takes the dtype of `model` where `training` has none. */
enum st_status st_settings_take_dtype(struct st_model *model);
/* Where a value stands: its own location, or that of the file. */
struct st_loc st_setting_loc(const struct st_model *model,
			     enum st_setting setting);

/* model.c: ends a printed line with a comment that names the origin. */
void st_model_print_origin(const struct st_model *model, struct st_buffer *out,
			   const struct st_yaml *from);

/* plan.c */
enum st_status st_plan_check(struct st_model *model);
int64_t st_plan_ranks(const struct st_model *model);
static inline int64_t
st_plan_dp(const struct st_model *model)
{
	return model->settings[ST_SET_dp_replicate].i *
	       model->settings[ST_SET_dp_shard].i;
}

/* family.c */
enum st_status st_family_read(struct st_model *model);
struct st_model_key *st_family_key(const struct st_model *model,
				   const char *name, size_t length);

/* outline.c: checks model->layers; its vocabulary, once keys are known. */
enum st_status st_layers_check(struct st_model *model);
enum st_status st_layers_vocabulary(struct st_model *model);
/* The kind of a layer: the item of its mapping that names it, or NULL. */
const struct st_yaml_item *st_layer_kind(const struct st_yaml *layer,
					 int *kind);

/*
 * expr.c: numbers, products, quotients, sqrt(), parentheses and key names.
 * `what` names the place in messages ("out", "repeat").
 */
enum st_status st_expr_number(const struct st_model *model,
			      const struct st_yaml *expr, const char *what,
			      double low, double high, double *value);
enum st_status st_expr_count(const struct st_model *model,
			     const struct st_yaml *expr, const char *what,
			     int64_t *value);
enum st_status st_expr_flag(const struct st_model *model,
			    const struct st_yaml *expr, const char *what,
			    int *value);
/* A word, or that of the key it names, as an index in a list. */
enum st_status st_expr_word(const struct st_model *model,
			    const struct st_yaml *expr, const char *what,
			    const char *const *words, int *index);
/* Is the default of a key an expression, not a word? */
int st_expr_is_one(const struct st_model *model, const char *text);
/* Marks the keys that an expression names. */
void st_expr_mark(const struct st_model *model, const struct st_yaml *expr);

#endif
