#!/usr/bin/env bash
# Fetches the wheels that launch/gpu_check.sh needs on a machine without a network (20 MB, for x86-64 Linux).
#   bash launch/gpu_check_wheels.sh [--python 3.12] FOLDER      the version of Python of that machine
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
version=3.12
folder=
while [ $# -gt 0 ]; do
  case $1 in
    --python) version=${2:?--python needs a version, such as 3.12}; shift 2 ;;
    -*) echo "gpu_check_wheels: no option $1, expected --python VERSION" >&2; exit 2 ;;
    *) folder=$1; shift ;;
  esac
done
[ -n "$folder" ] || { echo "usage: bash launch/gpu_check_wheels.sh [--python 3.12] FOLDER" >&2; exit 2; }

needed=(onnx-ir pyzmq msgspec rich typer pydantic PyYAML cryptography safetensors cuda-bindings)
platforms=()
for glibc in 2_28 2_27 2_26 2_24 2_17 2_12 2_5; do platforms+=(--platform "manylinux_${glibc}_x86_64"); done
platforms+=(--platform manylinux2014_x86_64 --platform manylinux2010_x86_64 --platform manylinux1_x86_64)
mkdir -p -- "$folder"
"${PYTHON:-python3}" -m pip download --quiet --disable-pip-version-check --only-binary=:all: --implementation cp \
  --python-version "$version" "${platforms[@]}" -d "$folder" "${needed[@]}"
# What comes with torch and onnx on that machine stays as it is there.
rm -f -- "$folder"/{numpy,onnx,protobuf,psutil,ml_dtypes,torch,sympy,mpmath}-*.whl
size=$(du -sm -- "$folder" | cut -f1)
[ "$size" -lt 40 ] || { echo "gpu_check_wheels: $folder has $size MiB, expected less than 40" >&2; exit 1; }
echo "gpu_check_wheels: $(ls -- "$folder" | wc -l) wheels for Python $version in $folder, $size MiB"
