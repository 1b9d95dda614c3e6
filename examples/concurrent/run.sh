#!/usr/bin/env bash
# Makes a small MobileNetV2 and an image; five clients classify it at the same time, with three workers, then with one.
set -euo pipefail
source "$(dirname -- "$0")/../common.sh"

for workers in 3 1; do
  echo "== workers: $workers"
  "$python" "$here/quick_start_server_inference_python.py" "$workers"
done
