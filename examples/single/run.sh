#!/usr/bin/env bash
# Makes a small MobileNetV2 and an image, then classifies it.
set -euo pipefail
source "$(dirname -- "$0")/../common.sh"

"$python" "$here/quick_start_cloud_infer_python.py"
