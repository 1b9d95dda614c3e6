#!/usr/bin/env bash
# Exports a small UNet for any batch, converts it for a batch of one, and runs a batch of two on two devices, a process
# for each: by pipes, as the document does, then by Rankmesh's own DataParallel.
set -euo pipefail
models=none
source "$(dirname -- "$0")/../common.sh"

if ! "$python" -c 'from importlib.util import find_spec as has; exit(not (has("torch") and has("onnx_ir")))'; then
  bash "$examples/../launch/setup.sh" torch slice
  python=$examples/../.venv/bin/python
fi

mkdir model
"$python" "$here/unet.py" model.onnx 2>export.log || { cat export.log >&2; exit 1; }
PATH=$("$python" -m rankmesh compat-path)/bin:$PATH PYTHON=$python \
  converter_lite --modelFile=model.onnx --fmk=ONNX --outputFile=model/SD2.1_size512_bs1 \
  --inputShape="sample:1,4,64,64;timestep:1;encoder_hidden_states:1,77,1024" --optimize=ascend_oriented

"$python" "$here/main.py"
"$python" "$here/data_parallel.py"
