#!/bin/sh
# The program as a user sees it: exit codes, what goes to which stream, and
# that text at every stage is the truth.  usage: test_cli.sh STRETTO
stretto=${1:-build/stretto}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0

ok() {
	passed=$((passed + 1))
}

bad() {
	failed=$((failed + 1))
	echo "FAILED: $*"
}

# expect STATUS COMMAND...: exit code; streams are left in $dir/out, $dir/err.
expect() {
	want=$1
	shift
	"$@" >"$dir/out" 2>"$dir/err" </dev/null
	got=$?
	if [ $got -eq "$want" ]; then
		ok
	else
		bad "exit $got, want $want: $*"
		head -n 3 "$dir/err"
	fi
}

# says PATTERN: the last command's stderr has a line like it.
says() {
	if grep -q -e "$1" "$dir/err"; then
		ok
	else
		bad "no '$1' in:"
		head -n 3 "$dir/err"
	fi
}

net=models/nets/tiny-gpt.yaml

expect 0 "$stretto" --help
expect 0 "$stretto" --version
expect 2 "$stretto"
expect 2 "$stretto" chekc
says "did you mean 'check'"
for command in check compile opt train doctor; do
	expect 0 "$stretto" $command --help
	expect 2 "$stretto" $command --no-such-option
done
expect 0 "$stretto" doctor
expect 2 "$stretto" check
expect 3 "$stretto" check "$dir/none.yaml"
expect 0 "$stretto" check $net
expect 0 "$stretto" check --groups $net
expect 0 "$stretto" check --json $net
expect 3 "$stretto" check $net --set modle.n_embd=8
expect 4 "$stretto" check $net --set parallelism.pp=2
expect 4 "$stretto" check $net --set parallelism.cp=2
expect 4 "$stretto" check $net --set parallelism.ep=2
expect 2 "$stretto" compile $net --passes=grad,splat
says "no pass is named 'splat'; did you mean 'split'?"
expect 2 "$stretto" opt --passes=bogus models/nets/mlp.yaml
says "no pass is named 'bogus'; --passes takes grad, partition, split, bucket, async"
expect 2 "$stretto" compile $net --dump-after=patrition
says "did you mean 'partition'"
expect 2 "$stretto" compile $net --stop-after=partitoin
says "did you mean 'partition'"

# A pass that was asked for and does nothing says so, and fails if that is
# wanted.
one="--set parallelism.tp=1 --set parallelism.dp_replicate=1 \
	--set parallelism.sequence_parallel=false"
# shellcheck disable=SC2086
{
	expect 0 "$stretto" compile $net $one --passes=grad,partition
	says "warning: partition: applied nothing: nothing is spread"
	expect 1 "$stretto" compile $net $one --passes=grad,partition --strict
	says "error: partition: applied nothing"
}

# Every stage prints what it parses, for every net that lowers.
for file in models/nets/*.yaml; do
	name=$(basename "$file" .yaml)
	mkdir -p "$dir/$name"
	expect 0 "$stretto" compile "$file" --dump-dir "$dir/$name" \
		-o "$dir/$name.plan"
	for stage in "$dir/$name"/*.ir "$dir/$name.plan"; do
		"$stretto" opt --passes= "$stage" >"$dir/again" 2>&1
		if cmp -s "$stage" "$dir/again"; then
			ok
		else
			bad "$stage does not print as it was read"
		fi
	done
	"$stretto" compile "$file" -o "$dir/twice" 2>/dev/null
	if cmp -s "$dir/$name.plan" "$dir/twice"; then
		ok
	else
		bad "$name: two compilations differ"
	fi
done

# The pipeline in pieces is the pipeline.
"$stretto" compile $net --stop-after=grad 2>/dev/null |
	"$stretto" opt - --passes=partition,split,bucket,async,schedule,memory >"$dir/pieces"
if cmp -s "$dir/pieces" "$dir/tiny-gpt.plan"; then
	ok
else
	bad "passes one by one differ from compile"
fi

# An edited plan trains: another learning rate, other losses.
for i in 1 2 3 4 5 6 7 8; do
	cat LICENSE README.md
done >"$dir/text"
run="--data $dir/text --steps 3 --eval-batches 1 --json"
# shellcheck disable=SC2086
{
	expect 0 "$stretto" train $net $run
	cut -d, -f1-3 "$dir/out" | head -n 3 >"$dir/first"
	expect 0 "$stretto" train "$dir/tiny-gpt.plan" $run
	cut -d, -f1-3 "$dir/out" | head -n 3 >"$dir/plan"
	sed 's/rate=[0-9.e-]*/rate=0.5/' "$dir/tiny-gpt.plan" >"$dir/edited.ir"
	expect 0 "$stretto" train "$dir/edited.ir" $run
	cut -d, -f1-3 "$dir/out" | head -n 3 >"$dir/edited"
}
if cmp -s "$dir/first" "$dir/plan"; then ok; else bad "plan trains otherwise"; fi
if cmp -s "$dir/first" "$dir/edited"; then bad "the edit had no effect"; else ok; fi

# Weights go round, and training on from them begins where it ended.
# shellcheck disable=SC2086
{
	expect 0 "$stretto" train $net $run --save "$dir/a.safetensors"
	expect 0 "$stretto" train $net --data "$dir/text" --steps 1 --json \
		--eval-batches 1 --init "$dir/a.safetensors" \
		--set training.optimizer.lr=0 \
		--set training.schedule.lr_min=0 --save "$dir/b.safetensors"
	if cmp -s "$dir/a.safetensors" "$dir/b.safetensors"; then
		ok
	else
		bad "weights do not go round"
	fi
	# The same weights under another layout.
	expect 0 "$stretto" train $net --data "$dir/text" --steps 1 --json \
		--set training.optimizer.lr=0 \
		--set training.schedule.lr_min=0 --eval-batches 1 \
		--set parallelism.dp_replicate=1 --set parallelism.tp=1 \
		--set parallelism.sequence_parallel=false \
		--init "$dir/a.safetensors" --save "$dir/c.safetensors"
	if cmp -s "$dir/a.safetensors" "$dir/c.safetensors"; then
		ok
	else
		bad "weights depend on the layout"
	fi
}
head -c 100 "$dir/a.safetensors" >"$dir/cut.safetensors"
expect 3 "$stretto" train $net --data "$dir/text" --steps 1 \
	--init "$dir/cut.safetensors"
expect 3 "$stretto" train $net --data "$dir/none" --steps 1
expect 2 "$stretto" train $net
echo short >"$dir/short"
expect 3 "$stretto" train $net --data "$dir/short" --steps 1

# Ctrl-C ends the step, says so and exits 130.
"$stretto" train $net --data "$dir/text" --steps 100000 \
	>"$dir/out" 2>"$dir/err" </dev/null &
pid=$!
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	grep -q '^step 1/' "$dir/out" && break
	sleep 0.5
done
kill -INT $pid
wait $pid
status=$?
if [ $status -eq 130 ]; then ok; else bad "exit $status after ctrl-C"; fi
says "interrupted: ended after step"

# So does it end an evaluation, which then has no loss.
: >"$dir/long"
while [ "$(wc -c <"$dir/long")" -lt 20000000 ]; do
	cat "$dir/text" "$dir/text" "$dir/text" "$dir/text"
done >>"$dir/long"
"$stretto" train $net --data "$dir/long" --steps 1 --holdout 0.9 \
	>"$dir/out" 2>"$dir/err" </dev/null &
pid=$!
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	grep -q '^step 1/1 ' "$dir/out" && break
	sleep 0.5
done
sleep 0.2
kill -INT $pid
wait $pid
status=$?
if [ $status -eq 130 ]; then ok; else bad "exit $status after ctrl-C"; fi
says "interrupted: "
if grep -q "held-out loss" "$dir/out"; then bad "half a loss"; else ok; fi

# A file of another kind is called by its name.
expect 3 "$stretto" train $net --data "$dir/text" --init "$dir/text"
says "looks like text, not like safetensors"
expect 3 "$stretto" train $net --data "$dir/text" --init "$dir/tiny-gpt.plan"
says "looks like IR text, not like safetensors"
expect 3 "$stretto" check "$dir/a.safetensors"
says "looks like safetensors, not like YAML"
cp "$dir/tiny-gpt.plan" "$dir/machine.yaml"
expect 3 "$stretto" compile $net --machine "$dir/machine.yaml"
says "looks like IR text, not like YAML"

# Weights of another model: both shapes; what no param has.
expect 3 "$stretto" train $net --data "$dir/text" --steps 0 \
	--init "$dir/a.safetensors" --set model.n_embd=64
says "tensor 'wte.weight' has shape \[256, 128\], the model's param has \[256, 64\]"
expect 0 "$stretto" train $net --data "$dir/text" --steps 0 --eval-batches 1 \
	--init "$dir/a.safetensors" --set model.n_layer=3
says "warning: no param has tensor 'h.3[^ ]*', nor 11 others of 52"

# From any folder: families and machines beside the program, and where they
# were looked for.
program=$(cd "$(dirname "$stretto")" && pwd)/$(basename "$stretto")
cp $net "$dir/mine.yaml"
in_dir() {
	(cd "$dir" && "$program" "$@")
}
expect 0 in_dir check mine.yaml
expect 0 in_dir sim mine.yaml --machine laptop
expect 3 in_dir check mine.yaml --set model.model_type=gpt3
says "no gpt3.yaml in ../families beside the net, models/families, /.*/../models/families, /.*; did you mean 'gpt2'?"

# Nothing is computed for an output that cannot be, or that is an input.
expect 3 "$stretto" train $net --data "$dir/text" --save "$dir/none/x"
says "there is no folder"
expect 3 "$stretto" train $net --data "$dir/text" --save "$dir"
says "is a folder"
expect 2 "$stretto" train $net --data "$dir/text" --save "$dir/text"
says "would overwrite"
cp "$dir/a.safetensors" "$dir/w.safetensors"
ln "$dir/w.safetensors" "$dir/link.safetensors"
expect 3 "$stretto" train $net --data "$dir/text" --save -
says "weights go to a file"
expect 2 "$stretto" train $net --data "$dir/text" --save $net
expect 2 "$stretto" train $net --data "$dir/text" \
	--init "$dir/w.safetensors" --save "$dir/link.safetensors"
says "would overwrite $dir/w.safetensors"
expect 2 "$stretto" compile $net -o models/families/gpt2.yaml
expect 2 "$stretto" opt "$dir/tiny-gpt.plan" -o "$dir/tiny-gpt.plan"
expect 3 "$stretto" calibrate -o "$dir/none/x.yaml"
expect 0 "$stretto" compile $net -o /dev/null
expect 3 "$stretto" compile $net -o "$dir/none/x.ir"
expect 2 "$stretto" compile "$dir/tiny-gpt.plan" -o "$dir/tiny-gpt.plan"
says "would overwrite"
expect 3 "$stretto" train $net --data "$dir/text" --save /dev/null
says "no regular file"
ln "$dir/text" "$dir/linked"
expect 2 "$stretto" train $net --data "$dir/text" --save "$dir/linked"
says "would overwrite"
expect 2 "$stretto" train $net --data "$dir/text" --save "$dir/a.safetensors" \
	--init "$dir/a.safetensors"
mkdir -p "$dir/my/nets"
cp -r models/families "$dir/my"
cp $net "$dir/my/nets/net.yaml"
expect 2 "$stretto" compile "$dir/my/nets/net.yaml" -o "$dir/my/nets/net.yaml"
expect 2 "$stretto" compile "$dir/my/nets/net.yaml" \
	-o "$dir/my/families/gpt2.yaml"
says "would overwrite"
expect 0 "$stretto" compile $net --dump-dir "$dir/fresh" -o "$dir/x.ir"
for stage in "$dir"/fresh/*.ir; do
	expect 0 "$stretto" check "$stage"
	expect 0 "$stretto" train "$stage" --data "$dir/text" --steps 1 \
		--json --eval-batches 1
	cut -d, -f1-3 "$dir/out" | head -n 1 >"$dir/stage"
	head -n 1 "$dir/first" | cmp -s - "$dir/stage" ||
		bad "$stage trains otherwise"
	"$stretto" compile "$stage" --stop-after=grad 2>/dev/null |
		sed -n 2p >"$dir/form"
	case $stage in
	*input.ir | *grad.ir) want="form logical" ;;
	*) want="form ranked" ;;
	esac
	if [ "$(cat "$dir/form")" = "$want" ]
	then ok; else bad "$stage goes on behind grad"; fi
done

# No step, no evaluation: both are legal.
expect 0 "$stretto" train $net --data "$dir/text" --steps 0 --eval-batches 1 \
	--json
if grep -q '"step"' "$dir/out"; then bad "a step of none"; else ok; fi
if grep -q '"final":null,"val_loss":[0-9]' "$dir/out"
then ok; else bad "no evaluation"; fi
expect 2 "$stretto" train $net --data "$dir/text" --eval-batches -1
expect 0 "$stretto" train $net --data "$dir/text" --steps 1 --holdout 0 --json
if grep -q '"val_loss":null' "$dir/out"; then ok; else bad "no val_loss"; fi
expect 2 "$stretto" train $net --data "$dir/text" --steps -3
expect 2 "$stretto" train $net --data "$dir/text" --log-every 0
# full COMMAND...: what cannot be written is an error.
full() {
	"$stretto" "$@" >/dev/full 2>"$dir/err" </dev/null
	got=$?
	if [ $got -eq 5 ]; then ok; else bad "exit $got on a full disk: $*"; fi
	says "could not write"
}

if [ -c /dev/full ]; then
	full train $net --data "$dir/text" --steps 1 --json
	full train $net --data "$dir/text" --steps 0 --eval-batches 1
	for command in check compile opt explain sim; do
		full $command "$dir/tiny-gpt.plan"
	done
	full check --json $net
	full check --groups $net
	full check -p $net
	full compile --json $net
	full doctor
	full check --help
	full --help
	full --version
fi

# A plan that was edited out of shape is refused, at a line.
plan=$dir/tiny-gpt.plan
for n in 0 -1 2 9223372036854775807; do
	sed "s/^option micro_batches = .*/option micro_batches = $n/" \
		"$plan" >"$dir/micro.ir"
	expect 3 "$stretto" train "$dir/micro.ir" --data "$dir/text" --steps 1
	says "micro.ir:[0-9]*:[0-9]*: error: train: $n micro-batches"
done
"$stretto" compile $net --set training.micro_batches=2 2>/dev/null |
	sed 's/^option micro_batches = .*/option micro_batches = 1/' \
		>"$dir/micro.ir"
expect 3 "$stretto" train "$dir/micro.ir" --data "$dir/text" --steps 1
says "micro-batches, but the plan has an entry accumulate"
sed 's/^arena .*/arena 1000000/' "$plan" >"$dir/arena.ir"
expect 3 "$stretto" train "$dir/arena.ir" --data "$dir/text" --steps 1
says "past the arena's end"
sed 's/ret %loss[a-z.]* as loss/ret %step as loss/' "$plan" >"$dir/loss.ir"
expect 3 "$stretto" train "$dir/loss.ir" --data "$dir/text" --steps 1
sed 's/ret %lr as lr/ret %step.1 as lr/' "$plan" >"$dir/loss.ir"
expect 3 "$stretto" train "$dir/loss.ir" --data "$dir/text" --steps 1
says "loss.ir:[0-9]*:[0-9]*: error: output 'lr' is no scalar of f32 or f64"
sed 's/^entry @eval(/entry @look(/' "$plan" >"$dir/blind.ir"
expect 0 "$stretto" train "$dir/blind.ir" --data "$dir/text" --steps 1 --json
if grep -q '"val_loss":null' "$dir/out"; then ok; else bad "a val_loss"; fi
expect 0 "$stretto" train $net --data "$dir/text" --steps 1 --json \
	--holdout 0.0001
if grep -q '"val_loss":null' "$dir/out"; then ok; else bad "a val_loss"; fi

sed 's/gelu_tanh/gelu_tan/' "$plan" >"$dir/act.ir"
expect 3 "$stretto" train "$dir/act.ir" --data "$dir/text" --steps 1
says "act.ir:.*act 'gelu_tan': want gelu_tanh, .*did you mean 'gelu_tanh'"

# A dump behind any pass trains as the plan does.
# shellcheck disable=SC2086
for stage in "$dir"/fresh/*.ir; do
	expect 0 "$stretto" train "$stage" $run
	cut -d, -f1-3 "$dir/out" | head -n 3 >"$dir/dumped"
	if cmp -s "$dir/first" "$dir/dumped"; then
		ok
	else
		bad "$stage trains otherwise"
	fi
done
expect 3 "$stretto" compile $net --dump-dir "$dir/none/fresh" -o "$dir/x.ir"
says "dump-dir $dir/none/fresh: No such file"
expect 3 "$stretto" compile $net --dump-dir "$dir/text" -o "$dir/x.ir"

# What is stated and not heeded is said; what this program lacks is refused.
expect 0 "$stretto" check $net --set overlap.comm.channels=4
says "overlap.comm.channels is not heeded yet"
expect 1 "$stretto" check $net --set overlap.comm.channels=4 --strict
for command in check compile explain train; do
	expect 1 "$stretto" $command $net --set overlap.comm.channels=4 \
		--set report.html=x --set training.data="$dir/text" --strict
	says "2 warnings"
done
expect 0 "$stretto" check $net --strict
for file in models/nets/*.yaml; do
	expect 0 "$stretto" check "$file"
	if [ -s "$dir/err" ]; then bad "$file: warns"; else ok; fi
done
expect 5 "$stretto" train $net --data "$dir/text" --set target.device=cuda
expect 4 "$stretto" train $net --data "$dir/text" --set training.dtype=bf16
says "error: .*training.dtype"
says "note: .*--set training.dtype=f32"

# Predictions: step = compute + contention + exposed communication, and the
# same plan for the same input.
expect 0 "$stretto" explain $net --json
if grep -q '"step_us".*"lower_bound_us".*"collectives":\[{"node"' "$dir/out"
then ok; else bad "explain --json lacks keys"; fi
expect 0 "$stretto" sim "$plan" --json
if grep -q '"exposed_comm_us"' "$dir/out"; then ok; else bad "sim"; fi
expect 3 "$stretto" sim "$plan" --entry leap
expect 3 "$stretto" sim "$plan" --machine h900
says "no machine"
expect 4 "$stretto" compile $net --memory-limit 0.001
says "the limit is 1000000 bytes"
expect 0 "$stretto" compile $net --set overlap.policy=none --json
if grep -q '"predicted_step_us":[0-9]' "$dir/out"; then ok; else bad "json"; fi


# Knobs, traces, profiles and pictures.
flat="--set parallelism.tp=1 --set parallelism.sequence_parallel=false
	--set parallelism.dp_replicate=1 --set parallelism.dp_shard=2"
# shellcheck disable=SC2086
expect 0 "$stretto" compile $net $flat -o "$dir/flat.ir"
expect 0 "$stretto" explain "$dir/flat.ir" --if link.dp_shard=2x
if tail -n 1 "$dir/out" | grep -q '^if link.dp_shard=2x: .* instead of '
then ok; else bad "no word on the knob"; fi
expect 0 "$stretto" explain "$dir/flat.ir" --json --if contention=0,latency=2
if grep -q '"step_us_without":[0-9]' "$dir/out"; then ok; else bad json; fi
for knob in link.tp=2x speed=2x compute compute=0 compute=2y link=-1; do
	expect 2 "$stretto" explain "$dir/flat.ir" --if $knob
	says "$knob"
done
expect 0 "$stretto" sim "$dir/flat.ir" --trace "$dir/sim.json"
expect 3 "$stretto" sim "$dir/flat.ir" --trace "$dir/none/sim.json"
expect 0 "$stretto" timeline "$dir/sim.json" --ascii --width 40
if grep -q '^comm dp_shard  [-#,.a-z]*  .* exposed$' "$dir/out"
then ok; else bad "no lane"; fi
expect 0 "$stretto" timeline "$dir/flat.ir" --from-us 10 --to-us 20
expect 2 "$stretto" timeline "$dir/flat.ir" --from-us 20 --to-us 10
expect 2 "$stretto" timeline "$dir/flat.ir" --width 3
echo '{"traceEvents": []}' >"$dir/empty.json"
expect 3 "$stretto" timeline "$dir/empty.json"
expect 0 "$stretto" train "$dir/flat.ir" --data README.md --steps 2 \
	--eval-batches 1 --trace "$dir/run.json" --json
if grep -q '"exposed_comm_ms":[0-9]' "$dir/out"; then ok; else bad json; fi
for rank in run run.1; do
	expect 0 "$stretto" timeline "$dir/$rank.json"
done
expect 2 "$stretto" train "$dir/flat.ir" --data README.md --trace -
# The plan by its own times is what was measured, but for what waits.
expect 0 "$stretto" sim "$dir/flat.ir" --profile "$dir/run.json" --strict
sed 's|"node": "h.0/|"node": "h.7/|' "$dir/run.json" >"$dir/other.json"
expect 3 "$stretto" sim "$dir/flat.ir" --profile "$dir/other.json"
says "other.json:[0-9]*: error: the plan has no node 'h.7/"
grep -v '"node": "h.0/' "$dir/run.json" >"$dir/part.json"
expect 0 "$stretto" sim "$dir/flat.ir" --profile "$dir/part.json"
says 'nodes of the step are missing'
expect 1 "$stretto" sim "$dir/flat.ir" --profile "$dir/part.json" --strict
# shellcheck disable=SC2086
expect 0 "$stretto" compile $net $flat --profile "$dir/run.json"
says 'a profile is of one program'

echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
