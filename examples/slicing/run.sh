#!/usr/bin/env bash
# Makes a small transformer, slices it for two ranks, and compares what the ranks compute. Then the same as a pipeline, in
# one step.
set -euo pipefail
models=none
source "$(dirname -- "$0")/../common.sh"

"$python" "$here/model.py" model.onnx
"$python" -m rankmesh slice model.onnx --ranks 2 -o shards
"$python" -m rankmesh run 'shards/model_rank{rank}.onnx' --inputs model.npz --expect model.npz

"$python" -m rankmesh run model.onnx --slice pipeline=2 --slice-dir kept --inputs model.npz --expect model.npz
