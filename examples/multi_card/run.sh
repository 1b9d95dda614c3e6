#!/usr/bin/env bash
# Makes a small model for a batch of one and runs a batch of two on two devices, a process for each: by pipes, as the
# document does, then by Rankmesh's own DataParallel.
set -euo pipefail
source "$(dirname -- "$0")/../common.sh"

"$python" "$here/main.py"
"$python" "$here/data_parallel.py"
