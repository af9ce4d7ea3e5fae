/* Nets of the repository and small ones: counts, text, names, spellings. */

#include "tests/unit/test_models.h"

#include "passes/pass.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const struct {
	const char *path;
	int64_t parameters;
} nets[] = {
	{"models/nets/tiny-gpt.yaml", 842496},
	{"models/nets/mlp.yaml", 99136},
	{"models/nets/own-layers.yaml", 358464},
	{"models/nets/gpt2-124m.yaml", 124439808},
	{"models/nets/gpt2-350m.yaml", 354823168},
	{"models/nets/gpt2-774m.yaml", 774030080},
	{"models/nets/gpt2-1558m.yaml", 1557611200},
	{"models/nets/llama3-8b.yaml", 8030261248},
	{"models/nets/llama3-70b.yaml", 70553706496},
	{"models/nets/llama3-405b.yaml", 405853388800},
};
enum { NETS = sizeof(nets) / sizeof(nets[0]) };

/* A small GPT-2 without a mesh, a small Llama, and what both share. */
#define GPT                                                              \
	"stretto: 1\n"                                                   \
	"model: {model_type: gpt2, vocab_size: 64, n_positions: 32,\n"   \
	"        n_embd: 24, n_layer: 2, n_head: 3}\n"                   \
	"training: {seq_len: 16, micro_batch_size: 2}\n"
#define LLAMA                                                            \
	"stretto: 1\n"                                                   \
	"model: {model_type: llama, vocab_size: 64, hidden_size: 32,\n"  \
	"        intermediate_size: 48, num_hidden_layers: 2,\n"         \
	"        num_attention_heads: 4, num_key_value_heads: 2,\n"      \
	"        rope_theta: 10000.0}\n"                                 \
	"training: {seq_len: 16, micro_batch_size: 2}\n"

/* ---- the nets of the repository ---- */

Test(models, parameters)
{
	for (int i = 0; i < NETS; i++) {
		struct loaded l;

		load(&l, nets[i].path, NULL, NULL);
		cr_expect_eq(l.status, ST_OK, "%s: %s", nets[i].path,
			     first_message(&l));
		if (l.status == ST_OK)
			cr_expect_eq(st_module_parameters(l.module),
				     nets[i].parameters, "%s: %lld",
				     nets[i].path,
				     (long long)st_module_parameters(
					     l.module));
		cr_expect_eq(l.diag.count, 0, "%s: %s", nets[i].path,
			     first_message(&l));
		unload(&l);
	}
}

Test(models, lowering_is_quick)
{
	struct loaded l;
	clock_t start = clock();

	load(&l, "models/nets/llama3-405b.yaml", NULL, NULL);
	cr_expect_lt((double)(clock() - start) / CLOCKS_PER_SEC, 1.0);
	cr_expect_eq(l.status, ST_OK);
	unload(&l);
}

/* parse(print(module)) prints the same bytes. */
Test(models, text_round_trip)
{
	for (int i = 0; i < NETS; i++) {
		struct loaded l;
		struct st_module *again = NULL;
		struct st_buffer out;
		const char *text;
		uint32_t source;

		load(&l, nets[i].path, NULL, NULL);
		text = module_text(&l);
		source = st_diag_add_source(&l.diag, "text", text,
					    strlen(text));
		cr_assert_eq(st_parse(&l.arena, &l.diag, &l.names, source,
				      &again),
			     ST_OK, "%s: %s", nets[i].path,
			     first_message(&l));
		cr_expect_eq(st_verify(again), ST_OK, "%s", nets[i].path);
		st_buffer_init(&out, &l.arena);
		st_print(again, &out);
		cr_expect(strcmp(text, out.text) == 0, "%s differs",
			  nets[i].path);
		unload(&l);
	}
}

/* The normalised YAML loads to the same module, and prints the same but for
 * the origins. */
static void
expect_print_reloads(const char *path, const char *text, const char *set)
{
	struct loaded l, again;
	struct st_buffer yaml;

	load(&l, path, text, set, NULL);
	cr_assert_eq(l.status, ST_OK, "%s: %s", path, first_message(&l));
	st_buffer_init(&yaml, &l.arena);
	st_model_print(l.model, &yaml);
	load(&again, "printed.yaml", yaml.text, NULL);
	cr_expect_eq(again.status, ST_OK, "%s: %s\n%s", path,
		     first_message(&again), yaml.text);
	cr_expect(strcmp(module_text(&l), module_text(&again)) == 0,
		  "%s: the printed net is another\n%s", path, yaml.text);
	unload(&again);
	unload(&l);
}

Test(models, printed_yaml_is_the_same_net)
{
	for (int i = 0; i < NETS; i++)
		expect_print_reloads(nets[i].path, NULL, NULL);
	expect_print_reloads("gpt.yaml", GPT, "training.dtype=bf16");
	expect_print_reloads("gpt.yaml", GPT, "training.dtype=f64");
	expect_print_reloads("gpt.yaml", GPT, "training.data=\"a \\\"b #c\"");
	expect_print_reloads("gpt.yaml", GPT,
			     "training={seq_len: 8, lr: 1, steps: 9, lr_min: "
			     "0.5, num_tokens_per_microbatch_per_dp_rank: 24,"
			     " gradient_accumulation_steps: 3}");
	expect_print_reloads("a\nb.yaml", LLAMA, "model.head_dim=10");
	expect_print_reloads("tests/bad/yaml/parts/x.yaml",
			     "stretto: 1\nmodel: {hf_config: llama31.json, "
			     "rope_scaling: null}\ntraining: {seq_len: 64}\n",
			     NULL);
}

Test(models, printed_origins)
{
	static const char *const lines[] = {
		"  n_embd: 24  # gpt.yaml:3\n",
		"  n_inner: 96  # default\n",
		"  tp: 3  # --set\n",
		"  zero_stage: 0  # default\n",
		"    params: bf16  # --set\n",
		"    master: f32  # default\n",
	};
	struct loaded l;
	struct st_buffer yaml;

	load(&l, "gpt.yaml", GPT, "parallelism.tp=3", "training.dtype=bf16",
	     NULL);
	cr_assert_eq(l.status, ST_OK, "%s", first_message(&l));
	st_buffer_init(&yaml, &l.arena);
	st_model_print(l.model, &yaml);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		cr_expect(strstr(yaml.text, lines[i]), "missing: %s in\n%s",
			  lines[i], yaml.text);
	unload(&l);
}

/* Everything that reads the module finds what it was promised. */
static void
expect_lines(struct loaded *l, const char *const *lines)
{
	const char *text = module_text(l);

	for (; *lines; lines++)
		cr_expect(strstr(text, *lines), "missing: %s", *lines);
}

Test(models, gpt2_form)
{
	static const char *const lines[] = {
		"mesh dp_replicate=2, tp=2\n",
		"state param %wte.weight : f32[256/tp, 128]\n",
		"state param %h.0.attn.c_attn.weight : f32[128, 3*4/tp*32]\n",
		"state param %h.0.attn.c_proj.weight : f32[4/tp*32, 128]\n",
		"state param %h.3.mlp.c_fc.bias : f32[512/tp]\n",
		"state param %h.3.mlp.c_proj.bias : f32[128]\n",
		"random seed=1, std=0.02, stream=\"wte.weight\"",
		"std=0.0070710678118654745, stream=\"h.1.mlp.c_proj.weight\"",
		"entry @eval(%tokens : i32[16/dp_replicate, 128], %targets : "
		"i32[16/dp_replicate, 128]) {\n",
		"%embed.spread = reshard %embed.tokens : "
		"f32[128/tp, 16/dp_replicate, 128]\n",
		"%embed = add %embed.spread, %wpe.weight, "
		"dims=\"tbc,tc->tbc\"",
		"%h.0/attn, %h.0/attn.lse = attention_qkv %h.0/attn.c_attn, "
		"scale=0.17677669529663687",
		"%h.0/mlp.act = activation %h.0/mlp.c_fc, act=\"gelu_tanh\"",
		"%h.0/resid_1 = sum %embed, %h.0/attn.c_proj.spread",
		"%logits = matmul %ln_f, %wte.weight, dims=\"tbc,vc->tbv\"",
		"%loss = xent_loss %loss.max, %loss.sum_exp, %loss.target, "
		"factor=0.00048828125",
		"ret %loss as loss\n",
		NULL,
	};
	struct loaded l;

	load(&l, "models/nets/tiny-gpt.yaml", NULL, "training.seed=1",
	     "training.micro_batch_size=8", NULL);
	expect_lines(&l, lines);
	unload(&l);
}

Test(models, llama_form)
{
	static const char *const lines[] = {
		"option master_dtype = \"f32\"\n",
		"option reduce_dtype = \"f32\"\n",
		"state param %model.embed_tokens.weight : "
		"bf16[128256/tp, 4096]\n",
		"state param %model.layers.0.self_attn.q_proj.weight : "
		"bf16[8/tp*4*128, 4096]\n",
		"state param %model.layers.31.self_attn.o_proj.weight : "
		"bf16[4096, 8/tp*4*128]\n",
		"state param %model.layers.0.mlp.down_proj.weight : "
		"bf16[4096, 14336/tp]\n",
		"state param %lm_head.weight : bf16[128256/tp, 4096]\n",
		"rope %model.layers.0/self_attn.k_proj, theta=5e+05",
		"attention %model.layers.0/self_attn.q_rope, "
		"%model.layers.0/self_attn.k_rope, "
		"%model.layers.0/self_attn.v_proj,",
		"swiglu %model.layers.0/mlp.gate_proj, "
		"%model.layers.0/mlp.up_proj",
		"dims=\"tbc,oc->tbo\"",
		"dims=\"tbk,ck->tbc\"",
		NULL,
	};
	struct loaded l;

	load(&l, "models/nets/llama3-8b.yaml", NULL, NULL);
	expect_lines(&l, lines);
	unload(&l);
}

Test(models, no_mesh_means_no_marks)
{
	struct loaded l;
	const char *text;

	load(&l, "gpt.yaml", GPT, NULL);
	cr_assert_eq(l.status, ST_OK, "%s", first_message(&l));
	text = module_text(&l);
	cr_expect_null(strstr(text, "reshard"));
	cr_expect_null(strstr(text, "mesh"));
	cr_expect(strstr(text, "%wpe.t = slice %wpe.weight, dim=0, at=0 : "
			       "f32[16, 24]"));
	unload(&l);
}

/* Stage 3 flattens params over dp_shard; stages 1 and 2 leave them. */
Test(models, zero_stages)
{
	static const char *const stages[] = {
		"parallelism={dp_shard: 4, tp: 3}",
		"parallelism={dp_shard: 4, tp: 3, zero_stage: 2}",
	};

	for (int i = 0; i < 2; i++) {
		struct loaded l;
		const char *text;

		load(&l, "gpt.yaml", GPT, stages[i], NULL);
		cr_assert_eq(l.status, ST_OK, "%s", first_message(&l));
		text = module_text(&l);
		cr_expect_eq(strstr(text, "state param %h.0.mlp.c_fc.bias : "
					  "f32[96/tp] flat(dp_shard)\n") !=
				     NULL,
			     i == 0);
		cr_expect(strstr(text, i ? "option zero_stage = 2\n"
					 : "option zero_stage = 3\n"));
		cr_expect(strstr(text, "%tokens : i32[8/dp_shard, 16]"));
		unload(&l);
	}
}

/* Sizes that do not divide are padded in the types, through the passes. */
Test(models, padding)
{
	static const char *const gpt[] = {
		"state param %wte.weight : f32[257+1/tp, 24]\n",
		"state param %h.0.attn.c_attn.weight : f32[24, 3*3+1/tp*8]\n",
		"state param %h.0.mlp.c_fc.weight : f32[24, 97+1/tp]\n",
		NULL,
	};
	static const char *const llama[] = {
		"state param %model.layers.0.self_attn.q_proj.weight : "
		"f32[2+1/tp*2*8, 32]\n",
		"state param %model.layers.0.mlp.gate_proj.weight : "
		"f32[49+2/tp, 32]\n",
		NULL,
	};
	struct st_pass_context cx = {.changes = 0};
	struct st_module *trained, *ranked;
	struct loaded l;

	load(&l, "gpt.yaml", GPT, "parallelism.tp=2", "model.vocab_size=257",
	     "model.n_inner=97", NULL);
	cr_assert_eq(l.status, ST_OK, "%s", first_message(&l));
	expect_lines(&l, gpt);
	cr_assert_eq(st_pass_grad(&cx, l.module, &trained), ST_OK);
	cr_assert_eq(st_pass_partition(&cx, trained, &ranked), ST_OK);
	cr_expect_eq(st_verify(ranked), ST_OK, "%s", first_message(&l));
	cr_expect_eq(st_module_parameters(ranked),
		     st_module_parameters(l.module));
	unload(&l);
	load(&l, "llama.yaml", LLAMA, "parallelism.tp=3",
	     "model.intermediate_size=49", NULL);
	cr_assert_eq(l.status, ST_OK, "%s", first_message(&l));
	expect_lines(&l, llama);
	unload(&l);
}

/* ---- spellings ---- */

/* Each row: settings that say the same in two ways. */
static const struct {
	const char *text;
	const char *ours[3], *theirs[3];
} same[] = {
	{GPT, {"parallelism.tp=3"},
	 {"parallelism.tensor_model_parallel_size=3"}},
	{GPT, {"parallelism.tp=3"}, {"parallelism.tensor_parallel_degree=3"}},
	{GPT, {"parallelism.tp=3"}, {"parallelism.tensor_parallel_size=3"}},
	{GPT, {"parallelism.tp=3"}, {"parallelism.ici_tensor_parallelism=3"}},
	{GPT, {"parallelism.dp_replicate=2"}, {"parallelism.dp=2"}},
	{GPT, {"parallelism.dp_replicate=2"},
	 {"parallelism.data_parallel_replicate_degree=2"}},
	{GPT, {"parallelism.dp_shard=2"},
	 {"parallelism.data_parallel_shard_degree=2"}},
	{GPT, {"parallelism.dp_shard=2"},
	 {"parallelism.dp_shard=-1", "target.world_size=2"}},
	{GPT, {"parallelism={dp_shard: 2, zero_stage: 2}"},
	 {"parallelism={dp_shard: 2, zero_optimization: {stage: 2}}"}},
	{GPT, {"parallelism={dp_shard: 2, zero_stage: 1}"},
	 {"parallelism={dp_shard: 2, use_distributed_optimizer: true}"}},
	{GPT, {"parallelism={tp: 2, sequence_parallel: true}"},
	 {"parallelism={tp: 2, enable_sequence_parallel: true}"}},
	{GPT, {"parallelism.pp=1"}, {"parallelism.pipeline_parallel_degree=1"}},
	{GPT, {"training.seq_len=8"}, {"training={block_size: 8, "
				       "micro_batch_size: 2}"}},
	{GPT, {"training.seq_len=8"}, {"training.seq_length=8"}},
	{GPT, {"training.micro_batch_size=4"},
	 {"training.train_micro_batch_size_per_gpu=4"}},
	{GPT, {"training.micro_batch_size=4"},
	 {"training={seq_len: 16, "
	  "num_tokens_per_microbatch_per_dp_rank: 64}"}},
	{GPT, {"training.global_batch_size=6"},
	 {"training.train_batch_size=6"}},
	{GPT, {"training.global_batch_size=6"},
	 {"training.gradient_accumulation_steps=3"}},
	{GPT, {"training.grad_clip=0.5"}, {"training.gradient_clipping=0.5"}},
	{GPT, {"training.grad_clip=1"}, {"training.clip_grad=1.0"}},
	{GPT, {"training.recompute=selective"},
	 {"training.recompute_granularity=selective"}},
	{GPT, {"training.recompute=full"},
	 {"training.gradient_checkpointing=true"}},
	{GPT, {"training.recompute=full"},
	 {"training.activation_checkpoint.mode=full"}},
	{GPT, {"training.optimizer.lr=3e-4"}, {"training.learning_rate=3e-4"}},
	{GPT, {"training.schedule={warmup_steps: 3, total_steps: 9}"},
	 {"training.lr_warmup_iters=3", "training.lr_decay_iters=9"}},
	{GPT, {"training.schedule={lr_min: 1e-4, total_steps: 9}"},
	 {"training.min_lr=1e-4", "training.steps=9"}},
	{GPT, {"training.dtype={params: bf16, reduce: f32, master: f32}"},
	 {"training.dtype=bfloat16"}},
	{GPT, {"training.dtype=f64"}, {"training.dtype.params=fp64"}},
	{GPT, {"training.dtype=bf16"}, {"model.torch_dtype=bfloat16"}},
	{GPT, {"training.dtype=bf16"}, {"model.dtype=bfloat16"}},
	{GPT, {"model.n_embd=48"}, {"model.hidden_size=48"}},
	{GPT, {"model.n_layer=1"}, {"model.num_hidden_layers=1"}},
	{GPT, {"model.n_head=2"}, {"model.num_attention_heads=2"}},
	{GPT, {"model.n_inner=40"}, {"model.intermediate_size=40"}},
	{GPT, {"model.n_inner=96"}, {"model.n_inner=null"}},
	{GPT, {"model.activation_function=gelu"},
	 {"model.hidden_act=gelu"}},
	{GPT, {"model.n_embd=48"}, {"model.n_embd=4.8e1"}},
	{LLAMA, {"model.rope_theta=5e5"},
	 {"model.rope_parameters={rope_theta: 500000, rope_type: default}"}},
	{LLAMA, {"model.sliding_window=null"}, {"model.attention_dropout=0.0"}},
	{LLAMA, {"model.rope_scaling=null"},
	 {"model.rope_scaling={rope_type: default}"}},
	{LLAMA, {"model.use_cache=true"}, {"model.use_cache=false"}},
	/* Read, and without effect on the module yet. */
	{GPT, {"overlap={tp: true}"}, {"overlap.tp_comm_overlap=false"}},
	{GPT, {"overlap={tp: {enable: true, split: {all_gather: auto}}}"},
	 {"overlap.overlap_grad_reduce=true"}},
	{GPT, {"capture={graph: full_iteration, warmup_steps: 3}"},
	 {"capture.cuda_graph_impl=none"}},
	{GPT, {"target={device: cpu}"}, {"report={html: x.html}"}},
	{GPT, {"parallelism.order=tp-cp-ep-dp-pp"},
	 {"parallelism.order=pp-dp-tp-cp-ep"}},
};

Test(models, other_spellings)
{
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		struct loaded a, b;

		load(&a, "a.yaml", same[i].text, same[i].ours[0],
		     same[i].ours[1], same[i].ours[2], NULL);
		load(&b, "a.yaml", same[i].text, same[i].theirs[0],
		     same[i].theirs[1], same[i].theirs[2], NULL);
		cr_expect_eq(a.status, ST_OK, "%s: %s", same[i].ours[0],
			     first_message(&a));
		cr_expect_eq(b.status, ST_OK, "%s: %s", same[i].theirs[0],
			     first_message(&b));
		cr_expect(strcmp(module_text(&a), module_text(&b)) == 0,
			  "%s and %s differ", same[i].ours[0],
			  same[i].theirs[0]);
		unload(&a);
		unload(&b);
	}
}

/* A published config.json, read as it is, gives the repository's net. */
Test(models, hf_config)
{
	struct loaded ours, theirs;

	load(&ours, "models/nets/gpt2-124m.yaml", NULL, NULL);
	load(&theirs, "tests/bad/yaml/parts/x.yaml",
	     "include: ../../../../models/nets/gpt2-124m.yaml\n"
	     "stretto: 1\n",
	     "model={hf_config: gpt2.json, attn_pdrop: 0}",
	     "model.embd_pdrop=0", "model.resid_pdrop=0", NULL);
	cr_expect_eq(theirs.status, ST_OK, "%s", first_message(&theirs));
	cr_expect(strcmp(module_text(&ours), module_text(&theirs)) == 0);
	unload(&ours);
	unload(&theirs);
	load(&theirs, "tests/bad/yaml/parts/x.yaml",
	     "stretto: 1\nmodel: {hf_config: llama31.json}\n"
	     "training: {seq_len: 64}\n",
	     "model.rope_scaling=null", NULL);
	cr_assert_eq(theirs.status, ST_OK, "%s", first_message(&theirs));
	cr_expect_eq(st_module_parameters(theirs.module), 8030261248);
	cr_expect(strstr(module_text(&theirs), " : bf16["));
	unload(&theirs);
}

/* What a file says goes over what it includes, and --set over both. */
Test(models, include)
{
	static const char text[] =
		"stretto: 1\n"
		"include: [models/nets/mlp.yaml, models/nets/tiny-gpt.yaml]\n"
		"model: {n_layer: 1, hidden_size: null, "
		"intermediate_size: null, num_hidden_layers: null}\n"
		"training: {optimizer: {lr: 1.0}}\n";
	static const char *const lines[] = {
		"mesh dp_replicate=2, tp=2\n", "option lr = 1.0\n",
		"option weight_decay = 0.2\n", "option warmup_steps = 20\n",
		"state param %h.0.mlp.c_fc.weight : f32[128, 512/tp]\n", NULL,
	};
	struct loaded l;

	load(&l, "x.yaml", text, "training.optimizer.weight_decay=0.2", NULL);
	cr_assert_eq(l.status, ST_OK, "%s", first_message(&l));
	expect_lines(&l, lines);
	cr_expect_null(strstr(module_text(&l), "%h.1."));
	unload(&l);
}

/* ---- the trainer's numbers ---- */

Test(models, training)
{
	struct st_model_training t;
	struct loaded l;

	load(&l, "models/nets/gpt2-774m.yaml", NULL, "training.seed=7",
	     "training.data=a/b.txt", "training.steps=12", NULL);
	cr_assert_eq(l.status, ST_OK, "%s", first_message(&l));
	st_model_training(l.model, &t);
	cr_expect_eq(t.seq_len, 1024);
	cr_expect_eq(t.micro_batch_size, 16);
	cr_expect_eq(t.micro_batches, 4);
	cr_expect_eq(t.global_batch_size, 512);
	cr_expect_eq(t.steps, 12);
	cr_expect_eq(t.vocab_size, 50257);
	cr_expect_eq(t.seed, 7);
	cr_expect_str_eq(t.data, "a/b.txt");
	unload(&l);
	load(&l, "gpt.yaml", GPT, NULL);
	st_model_training(l.model, &t);
	cr_expect_eq(t.steps, 0);
	cr_expect_eq(t.micro_batches, 1);
	cr_expect_str_eq(t.data, "");
	unload(&l);
}

/* ---- locations ---- */

static struct st_loc
loc_of(const struct loaded *l, const char *name)
{
	uint32_t number = st_names_find(&l->names, name, strlen(name));

	for (size_t i = 0; i < l->module->values.count; i++) {
		const struct st_value *value = &l->module->values.at[i];
		uint32_t loc = 0;

		if (value->name != number)
			continue;
		if (value->kind == ST_VALUE_STATE)
			loc = l->module->states.at[i].loc;
		else if (value->kind == ST_VALUE_RESULT)
			loc = l->module->nodes.at[value->node].loc;
		return st_module_loc_at(l->module, loc);
	}
	return st_no_loc();
}

static void
expect_line_has(struct loaded *l, const char *value, const char *source,
		const char *word)
{
	struct st_loc loc = loc_of(l, value);
	const char *text;

	cr_assert_neq(loc.source, 0, "%s has no location", value);
	cr_expect_str_eq(l->diag.sources[loc.source].name, source);
	text = l->diag.sources[loc.source].text;
	for (uint32_t line = 1; line < loc.line; line++)
		text = strchr(text, '\n') + 1;
	cr_expect_eq(strncmp(text + loc.column - 1, word, strlen(word)), 0,
		     "%s leads to %u:%u", value, loc.line, loc.column);
}

Test(models, locations)
{
	static const char family[] = "models/families/gpt2.yaml";
	static const char own[] = "models/nets/own-layers.yaml";
	struct loaded l;

	load(&l, "gpt.yaml", GPT, NULL);
	cr_assert_eq(l.status, ST_OK, "%s", first_message(&l));
	expect_line_has(&l, "h.1.attn.c_attn.weight", family,
			"linear: attn.c_attn");
	expect_line_has(&l, "h.1/attn", family, "attention: attn");
	expect_line_has(&l, "h.1/resid_2", family, "residual: resid_2");
	expect_line_has(&l, "h.0.ln_1.bias.1", family, "layernorm: ln_1");
	expect_line_has(&l, "loss.max", family, "cross_entropy: loss");
	for (size_t i = 0; i < l.module->nodes.count; i++)
		cr_expect_neq(st_module_loc_at(l.module,
					       l.module->nodes.at[i].loc)
				      .source,
			      0);
	unload(&l);
	load(&l, own, NULL, NULL);
	expect_line_has(&l, "block.2/o", own, "linear: o");
	expect_line_has(&l, "block.2/mixed", own, "residual: mixed");
	unload(&l);
}

/* A fault in the family's line leads on to the net. */
Test(models, fault_leads_to_the_net)
{
	struct loaded l;

	load(&l, "llama.yaml", LLAMA, "model.head_dim=7", NULL);
	cr_assert_eq(l.status, ST_EINPUT);
	cr_assert_eq(l.diag.count, 2);
	cr_expect_str_eq(first_message(&l),
			 "models/families/llama.yaml:62:14: error: the size "
			 "of a head must be even");
	cr_expect(strstr(st_diag_render(&l.diag, 1),
			 "llama.yaml:2:1: note: in 'model.layers.0/"
			 "self_attn.q_rope' of the family 'llama'"));
	unload(&l);
}

/* ---- --set ---- */

static const struct {
	const char *set, *message;
} bad_sets[] = {
	{"training.seq_len", "--set:1:1: error: want KEY.KEY=VALUE"},
	{"=3", "--set:1:1: error: want KEY.KEY=VALUE"},
	{"training.=3", "--set:1:1: error: want KEY.KEY=VALUE"},
	{"training..seq_len=3", "--set:1:10: error: want KEY.KEY=VALUE"},
	{"trainng.seq_len=3",
	 "--set:1:1: error: unknown section 'trainng'; did you mean "
	 "'training'?"},
	{"training.sequence=3", "--set:1:10: error: unknown key 'sequence'"},
	{"training.seq_ln=3",
	 "--set:1:10: error: unknown key 'seq_ln'; did you mean 'seq_len'?"},
	{"model.n_embed=3",
	 "--set:1:7: error: unknown key 'n_embed'; did you mean 'n_embd'?"},
	{"training.seq_len=x",
	 "--set:1:18: error: seq_len: want a whole number from 1 to "
	 "16777216, not 'x'"},
	{"training.seq_len=[1",
	 "--set:1:20: error: YAML: did not find expected ',' or ']'"},
	{"training.optimizer={lr: -1}",
	 "--set:1:25: error: lr: want a number from 0 to 1000000, not -1"},
	{"training.seq_len=",
	 "gpt.yaml:1:1: error: training: key 'seq_len' is missing"},
	{"include=x.yaml",
	 "--set:1:1: error: include: only a file can include another"},
	{"training.seq_len.x=3",
	 "--set:1:18: error: seq_len: want a whole number from 1 to "
	 "16777216, not a mapping"},
	{"parallelism.tp=0o2",
	 "--set:1:16: error: tp: want a whole number from 1 to 65536, not "
	 "'0o2'"},
	{"model.n_head=5",
	 "--set:1:14: error: head_dim = n_embd / n_head is 4.8: want a whole "
	 "number from 1 to 2^40"},
	{"stretto=2", "--set:1:9: error: stretto: version 2 is not known; "
		      "this program reads version 1"},
};

Test(models, bad_sets)
{
	for (size_t i = 0; i < sizeof(bad_sets) / sizeof(bad_sets[0]); i++) {
		struct loaded l;

		load(&l, "gpt.yaml", GPT, bad_sets[i].set, NULL);
		cr_expect_eq(l.status, ST_EINPUT, "%s", bad_sets[i].set);
		cr_expect(strcmp(first_message(&l), bad_sets[i].message) == 0,
			  "--set %s: %s", bad_sets[i].set, first_message(&l));
		unload(&l);
	}
}

/* The last of several wins, also under another name. */
Test(models, sets_in_order)
{
	struct loaded a, b;

	load(&a, "gpt.yaml", GPT, "parallelism.tp=2", "model.hidden_size=48",
	     "parallelism.tensor_parallel_size=3", "model.n_embd=36", NULL);
	load(&b, "gpt.yaml", GPT, "parallelism.tp=3", "model.n_embd=36", NULL);
	cr_expect_eq(a.status, ST_OK, "%s", first_message(&a));
	cr_expect(strcmp(module_text(&a), module_text(&b)) == 0);
	unload(&a);
	unload(&b);
}

Test(models, long_sequence_is_a_warning)
{
	struct loaded l;

	load(&l, "llama.yaml", LLAMA, "model.max_position_embeddings=8", NULL);
	cr_assert_eq(l.status, ST_OK, "%s", first_message(&l));
	cr_expect_str_eq(first_message(&l),
			 "llama.yaml:6:21: warning: seq_len 16 is longer than "
			 "max_position_embeddings 8");
	unload(&l);
}

/* ---- memory ---- */

struct budget {
	int left;
};

static void *
alloc_or_fail(void *user, size_t size)
{
	struct budget *budget = user;

	return budget->left-- > 0 ? malloc(size) : NULL;
}

static void
release(void *user, void *block)
{
	(void)user;
	free(block);
}

/* Loading with the n-th request refused ends in a status, for every n. */
Test(models, out_of_memory)
{
	int n = 0;
	enum st_status status = ST_EDEVICE;

	for (; status != ST_OK; n++) {
		struct budget budget = {n};
		struct st_allocator allocator = {alloc_or_fail, release,
						 &budget};
		struct st_model_source source = {
			.path = "models/nets/llama3-8b.yaml",
			.search = family_search,
		};
		struct st_arena arena;
		struct st_diag diag;
		struct st_names names;
		struct st_model *model = NULL;
		struct st_module *module = NULL;

		st_arena_init(&arena, &allocator);
		st_diag_init(&diag, &arena);
		if (st_names_init(&names, &arena)) {
			st_arena_finish(&arena);
			continue;
		}
		status = st_model_load(&arena, &diag, &names, &source, &model);
		if (status == ST_OK)
			status = st_model_lower(model, &module);
		cr_assert(status == ST_OK || status == ST_EDEVICE,
			  "request %d: %d", n, (int)status);
		st_arena_finish(&arena);
		cr_assert_lt(n, 1000);
	}
	cr_expect_gt(n, 3);
}
