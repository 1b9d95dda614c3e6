#!/usr/bin/env bash
# Makes a small model; changes one of its weights while it runs; then shares its weights among three processes.
set -euo pipefail
source "$(dirname -- "$0")/../common.sh"

export RANKMESH_DEVICE=cpu  # instead of ascend; an NVIDIA GPU would need cuda-python too, which rankmesh[gpu] installs
echo "== update_weights"
"$python" "$here/update_weights.py"
echo "== three processes"
"$python" "$here/three_processes.py"
