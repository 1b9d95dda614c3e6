#!/usr/bin/env bash
# What lite-cpu-pip.sh and lite-server-cpu-pip.sh do: `bash pip_install.sh SCRIPT OLDEST_VERSION`.
#
# Installs into the active environment, else into the checkout's .venv, with pip:
#   - Rankmesh: a rankmesh*.whl beside SCRIPT, else this checkout;
#   - what answers to `import mindspore_lite`: a mindspore_lite*.whl beside SCRIPT, else a wheel made here that leads to
#     Rankmesh. It is called mindspore-lite, as pip's last line promises, so it replaces one that is there, can be
#     uninstalled, and meets requirements such as mindspore-lite>=2.0; its version says `+rankmesh`, for it is not the
#     real one. Rankmesh answers scripts of all versions alike: MINDSPORE_LITE_VERSION only decides what pip lists.
# Then puts the model and its input into `model` beside SCRIPT; files that are there already stay as they are.
set -euo pipefail

here=$(cd -- "$(dirname -- "$1")" && pwd -P)
examples=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
root=$(dirname -- "$examples")
script=$(basename -- "$1")
oldest=$2
version=${MINDSPORE_LITE_VERSION:-$oldest}
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
cd "$work"  # where no folder can be taken for a package

say() { printf '%s: %s\n' "$script" "$*" >&2; }
fail() { say "$@"; exit 1; }

check_version() {
  [[ $version =~ ^[0-9]+(\.[0-9]+)*((a|b|rc)[0-9]+)?$ ]] || fail "MINDSPORE_LITE_VERSION is '$version', expected a version such as 2.0.0."
  [ "$(printf '%s\n' "$oldest" "$version" | sort -V | head -n 1)" = "$oldest" ] ||
    fail "MINDSPORE_LITE_VERSION is $version, and this Python API begins with $oldest: set it to $oldest or later."
}

# The file beside SCRIPT that fits a pattern, the newest version of several; empty if there is none.
beside() { find "$here" -maxdepth 1 -name "$1" | sort -V | tail -n 1; }

pip_install() { "$python" -m pip install --disable-pip-version-check --no-input "$@"; }

find_python() {
  if [ -n "${VIRTUAL_ENV:-}${CONDA_PREFIX:-}" ]; then
    python=$(command -v python) || fail "the active environment has no python on PATH: activate it again."
  else
    bash "$root/launch/setup.sh"
    python=$root/.venv/bin/python
    say "no environment is active: installing into $root/.venv (to use it: source $root/.venv/bin/activate)"
  fi
}

ours() { "$python" -c 'import os, rankmesh; print(os.path.dirname(os.path.realpath(rankmesh.__file__)))' 2>/dev/null; }

install_rankmesh() {
  local source extra=
  source=$(beside 'rankmesh*.whl')
  if [ -z "$source" ]; then
    if [ "$(ours)" = "$root" ]; then return; fi  # editable: the checkout itself is installed
    source=$work/rankmesh
    copy_checkout "$source"
  fi
  # An environment with onnxruntime for GPUs keeps it: the CPU's would replace its files.
  "$python" -c 'import onnxruntime' 2>/dev/null || extra='[cpu]'
  pip_install --force-reinstall --no-deps "$source"  # forced: a wheel of the same version may be another one
  pip_install "rankmesh$extra"                       # what it depends on
}

# pip builds where the source is, so that is a copy: nothing is left in the checkout.
copy_checkout() {
  mkdir "$1"
  tar -C "$root" --exclude='./.*' --exclude=./tests --exclude=./bench --exclude=./build --exclude=./dist \
    --exclude='*.egg-info' --exclude=__pycache__ -cf - . | tar -C "$1" -xf -
}

install_mindspore_lite() {
  local wheel
  wheel=$(beside 'mindspore_lite*.whl')
  if [ -z "$wheel" ]; then wheel=$("$python" "$examples/mindspore_lite_wheel.py" "$version" "$work"); fi
  pip_install --force-reinstall --no-deps "$wheel"
}

place_files() {
  "$python" "$examples/models.py" "$(basename -- "$here")" "$work/model"
  mkdir -p "$here/model"
  cp -n -- "$work/model"/* "$here/model"
}

check_version
find_python
install_rankmesh
place_files
install_mindspore_lite
