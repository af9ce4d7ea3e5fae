#!/bin/sh
# Compile time by number of layers: Llama 3 405B, tp 8, dp_shard 64, ZeRO 3,
# forward, backward, optimizer.  usage: bench_passes.sh STRETTO [RUNS]
stretto=${1:-build/stretto} runs=${2:-5}
echo "layers  nodes   grad ms  partition ms  memory ms  whole s"
for layers in 32 64 126 252; do
	for run in $(seq "$runs"); do
		/usr/bin/env bash -c '
		TIMEFORMAT=%R
		time "$@" 2>/dev/null' bash "$stretto" compile \
			models/nets/llama3-405b.yaml \
			--set parallelism.tp=8 --set parallelism.dp_shard=64 \
			--set parallelism.zero_stage=3 \
			--set "model.num_hidden_layers=$layers" \
			--json -o /dev/null 2>&1 | tr '\n' ' ' |
			sed 's/.*"nodes":\([0-9]*\).*"grad","ms":\([0-9.]*\).*"partition","ms":\([0-9.]*\).*"memory","ms":\([0-9.]*\).*} *\([0-9.]*\) *$/\1 \2 \3 \4 \5/'
		echo
	done | sort -k5 -n | grep . | sed -n "$(((runs + 1) / 2))p" |
		awk -v l="$layers" '{ printf "%-7d %-7d %-8.1f %-13.1f %-10.1f %s\n", l, $1, $2, $3, $4, $5 }'
done
