#!/usr/bin/env bash
# Measures on this machine all that needs a GPU, in less than 8 minutes: bench/gpu_check. Needs Python 3.10 to 3.13
# with torch from 2.6, numpy, onnx, protobuf and psutil; everything else comes from the folder of wheels.
#   bash launch/gpu_check.sh [--wheels FOLDER] [--device gpu|cpu] [--output FOLDER] [PART ...]
#   bash launch/gpu_check_wheels.sh --python 3.12 FOLDER    fetches the wheels, on a machine with a network
#   PYTHON=python3.12 bash launch/gpu_check.sh ...          chooses the interpreter that has torch
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
python=${PYTHON:-python3}
wheels=
passed=()
while [ $# -gt 0 ]; do
  case $1 in
    --wheels) wheels=${2:?--wheels needs the folder of the wheels}; shift 2 ;;
    *) passed+=("$1"); shift ;;
  esac
done

site=$(mktemp -d "${TMPDIR:-/tmp}/rankmesh-gpu-check.XXXXXX")
trap 'rm -rf -- "$site"' EXIT
if [ -n "$wheels" ]; then
  files=("$wheels"/*.whl)
  # torch may have brought its own, which goes with its driver.
  if "$python" -c 'import cuda.bindings.driver' 2>/dev/null; then files=("$wheels"/[!c]*.whl "$wheels"/c[!u]*.whl); fi
  "$python" -m pip install --quiet --disable-pip-version-check --no-input --no-index --no-deps --no-compile \
    --target "$site" "${files[@]}" ||
    { echo "gpu_check: pip could not unpack the wheels (above): were they fetched for $("$python" -V)?" >&2; exit 1; }
fi
export PYTHONPATH=$site:$root/.types:$root/bench:$root/tests/support${PYTHONPATH:+:$PYTHONPATH}
"$python" -P -m gpu_check ${passed[@]+"${passed[@]}"}
