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
	"$stretto" opt - --passes=partition,split,async,schedule,memory >"$dir/pieces"
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

echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
