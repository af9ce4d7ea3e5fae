#!/bin/sh
# The last part of the demo: tiny-gpt on two ranks that share every tensor
# (ZeRO 3), over an emulated link, with overlap off and on.  First operators
# and collectives are timed one by one; from that alone the step is predicted.
#
# usage: demo_overlap.sh STRETTO TEXT
set -eu
stretto=$1
text=$2
out=build/demo
rate=0.05 # GB/s: communication takes about as long as computation
model="models/nets/tiny-gpt.yaml --set parallelism.dp_replicate=1
	--set parallelism.tp=1 --set parallelism.sequence_parallel=false
	--set parallelism.dp_shard=2 --set parallelism.zero_stage=3
	--set training.micro_batch_size=8"

echo
echo "overlap: two ranks, ZeRO 3, an emulated link of $rate GB/s"
$stretto calibrate --link-gb-per-s $rate -o $out/machine.yaml 2>/dev/null
for policy in none list; do
	# shellcheck disable=SC2086
	$stretto compile $model --set overlap.policy=$policy \
		--machine $out/machine.yaml -o $out/$policy.ir 2>/dev/null
	$stretto sim $out/$policy.ir --machine $out/machine.yaml --json |
		sed 's/.*"step_us":\([0-9.e+]*\).*/predicted \1/' \
		>$out/$policy.times
done
# In turn, so that both see the same machine.
for turn in 1 2 3; do
	for policy in none list; do
		$stretto train $out/$policy.ir --data "$text" --steps 12 \
			--eval-batches 1 --json --link-gb-per-s $rate \
			--trace $out/$policy.json |
			sed -n 's/.*"step_ms":\([0-9.e+]*\).*/measured \1/p' |
			sed 1,2d >>$out/$policy.times
	done
done
for policy in none list; do
	sort -k1,1 -k2,2g $out/$policy.times | awk -v policy=$policy '
		$1 == "predicted" { predicted = $2 / 1000 }
		$1 == "measured" { at[n++] = $2 }
		END {
			printf "overlap %-4s  predicted %6.1f ms, measured " \
			    "%6.1f ms (%.1f to %.1f, %d steps)\n",
			    policy == "none" ? "off" : "on", predicted,
			    at[int(n / 2)], at[0], at[n - 1], n
		}'
done
for policy in none list; do
	echo
	$stretto timeline $out/$policy.json
done
