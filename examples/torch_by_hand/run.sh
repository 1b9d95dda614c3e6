#!/usr/bin/env bash
# Slices a transformer block of PyTorch by hand, exports a shard for each rank, and runs them: they give what the
# whole block gives.
set -euo pipefail
models=none
source "$(dirname -- "$0")/../common.sh"

if ! "$python" -c 'from importlib.util import find_spec as has; exit(not has("torch"))'; then
  bash "$examples/../launch/setup.sh" torch
  python=$examples/../.venv/bin/python
fi

export TORCHINDUCTOR_CACHE_DIR=$work/inductor  # which torch makes, used or not
"$python" "$here/export.py" 2>export.log || { cat export.log >&2; exit 1; }
for exporter in torchscript dynamo; do
  if [ ! -e "${exporter}_rank0.onnx" ]; then
    echo "== not with torch.onnx.export(dynamo=True), as onnxscript is not installed"
    continue
  fi
  echo "== exporter $exporter"
  "$python" -m rankmesh run "${exporter}_rank{rank}.onnx" --inputs case.npz --expect case.npz --rtol 1e-5 --atol 1e-5
done
