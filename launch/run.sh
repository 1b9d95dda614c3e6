#!/usr/bin/env bash
# Sets up what is missing, then runs both samples on two ranks each; arguments go to `rankmesh run` (try -v).
set -euo pipefail

launch=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
bash "$launch/setup.sh"

run() {
  printf '\n== %s\n' "$1"
  "$launch/../.venv/bin/rankmesh" run "$launch/sample/$2" \
    --inputs "$launch/sample/$3" --expect "$launch/sample/$3" "${@:4}"
}

run "a tensor-parallel llama block, sliced for two ranks" "llama_rank{rank}.mindir" llama.npz "$@"
run "Matmul0.mindir and Matmul1.mindir" Matmul.mindir Matmul.npz "$@"
