#!/usr/bin/env python3
"""Holds predicted traces against HolisticTraceAnalysis.

usage: test_hta.py STRETTO

Every layout's trace must load there, and its overlap percentage must be ours
(`hta_overlap_pct` of `stretto sim --json`) within 1.  Exits 77, which means
skipped, where the package is missing."""
import json
import logging
import os
import subprocess
import sys
import tempfile

# It would round every event outwards to whole microseconds.
os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
try:
    from hta.trace_analysis import TraceAnalysis
except ImportError:
    print("skipped: no Python package HolisticTraceAnalysis")
    sys.exit(77)

NET = ["models/nets/llama3-8b.yaml", "--machine", "h200-sxm-8",
       "--set", "model.num_hidden_layers=4", "--set",
       "training.global_batch_size=8"]
LAYOUTS = [
    ["parallelism.dp_replicate=2"],
    ["parallelism.dp_shard=8", "parallelism.zero_stage=3"],
    ["parallelism.tp=8", "parallelism.sequence_parallel=true"],
    ["parallelism.tp=4", "parallelism.dp_shard=2", "overlap.split=1"],
    ["parallelism.tp=4", "parallelism.dp_shard=2", "overlap.policy=none"],
]


def main():
    stretto = sys.argv[1]
    logging.disable(logging.WARNING)
    passed = failed = 0
    for layout in LAYOUTS:
        with tempfile.TemporaryDirectory() as folder:
            command = [stretto, "sim", *NET, "--json",
                       "--trace", folder + "/trace.json"]
            for setting in layout:
                command += ["--set", setting]
            ours = json.loads(subprocess.check_output(command))
            theirs = TraceAnalysis(trace_dir=folder).get_comm_comp_overlap(
                visualize=False)
            want = float(theirs["comp_comm_overlap_pctg"][0])
            ok = abs(want - ours["hta_overlap_pct"]) <= 1
            passed, failed = passed + ok, failed + (not ok)
            print("%s: HTA %.2f %%, here %.2f %%" % (
                " ".join(layout), want, ours["hta_overlap_pct"]))
    print("%d passed, %d failed, 0 skipped" % (passed, failed))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
