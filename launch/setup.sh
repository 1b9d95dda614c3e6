#!/usr/bin/env bash
# Makes .venv in this checkout and installs Rankmesh into it (editable); silent and offline where that is done.
#   bash launch/setup.sh [EXTRA...]     extras of pyproject.toml on top of `cpu` or, with an NVIDIA GPU, `gpu`
#   PYTHON=python3.12 bash launch/...   chooses the interpreter (Python 3.10 to 3.13)
# The stamp is written last: without it a set-up is unfinished, and .venv is made again from nothing.
set -euo pipefail
unset PYTHONPATH PYTHONHOME

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=$root/.venv
stamp=$venv/rankmesh-setup.txt

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$@"; exit 1; }

# One line about an interpreter: "ok VERSION PATH", or "no" and the reason. Runs on any Python 3.
probe='
import os, sys
version = "%d.%d" % sys.version_info[:2]
path = sys.executable if sys.prefix == sys.base_prefix else os.path.realpath(sys.executable)
try:
    import ensurepip, venv
except ImportError:
    venv = None
if not (3, 10) <= sys.version_info[:2] <= (3, 13):
    print("no is Python " + version)
elif venv is None:
    print("no is Python %s without venv (Debian, Ubuntu: apt-get install python%s-venv)" % (version, version))
else:
    print("ok %s %s" % (version, path))
'

# Sets python_version and python_path, from $PYTHON or the first suitable interpreter on PATH.
find_python() {
  local name reply found=() names=(python3 python3.13 python3.12 python3.11 python3.10 python)
  if [ -n "${PYTHON:-}" ]; then names=("$PYTHON"); fi
  for name in "${names[@]}"; do
    if ! reply=$("$name" -I -c "$probe" 2>/dev/null); then
      if [ -n "${PYTHON:-}" ]; then found+=("$name does not run"); fi
      continue
    fi
    if [ "${reply%% *}" = ok ]; then
      read -r _ python_version python_path <<<"$reply"
      return
    fi
    found+=("$name ${reply#no }")
  done
  if [ ${#found[@]} = 0 ]; then found=("no Python 3 on PATH"); fi
  say "Rankmesh needs Python 3.10 to 3.13 with its venv module. Found:"
  for name in "${found[@]}"; do say "  $name"; done
  fail "Install one (Debian, Ubuntu: apt-get install python3 python3-venv; Fedora: dnf install python3)" \
    "or name one: PYTHON=/path/to/python3.12 bash launch/run.sh"
}

# Concurrent starts take turns. Programs started from here inherit the lock: it outlives a killed shell.
take_turn() {
  command -v flock >/dev/null || return 0
  exec 9<"$root"
  flock -n 9 && return
  say "waiting for another set-up of this checkout"
  flock 9 || say "this file system cannot lock: do not start two set-ups at once"
}

has_gpu() {
  local list
  list=$(nvidia-smi -L 2>/dev/null) && [[ $list == "GPU "* ]]
}

inputs() { cat "$root/pyproject.toml" "$root/launch/constraints.txt" | sha256sum | cut -d' ' -f1; }

stamped() { sed -n "s/^$1 //p" "$stamp"; }

# Succeeds where every file that the finished set-up noted is still there (dist-info of any version).
complete() {
  local name
  cd "$venv"
  while read -r name; do compgen -G "$name" >/dev/null || return 1; done < <(stamped have)
}

# Why .venv has to be made from nothing; empty where it is sound.
fault() {
  local version
  if [ ! -e "$venv" ]; then echo "there is none"; return; fi
  if [ ! -f "$stamp" ]; then echo "its set-up did not finish"; return; fi
  if [ "$(stamped root)" != "$root" ]; then echo "the checkout was moved"; return; fi
  version=$("$venv/bin/python" -I -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || true
  if [ "$version" != "$(stamped python)" ]; then echo "its Python is gone"; return; fi
  if [ -n "${PYTHON:-}" ] && [ "$version" != "$python_version" ]; then echo "PYTHON asks for another"; return; fi
  if [[ " $(stamped extras) " == *" cpu "* ]] && has_gpu; then echo "there is an NVIDIA GPU now"; return; fi
  if ! (complete); then echo "files are missing from it"; fi
}

make_venv() {
  [ -w "$root" ] || fail ".venv has to be made ($1), but $root is not writable: run this as its owner, or clone again where you may write"
  say "making .venv with Python $python_version ($1)"
  rm -rf -- "$venv" || fail "cannot remove $venv: remove it as its owner, then run this again"
  "$python_path" -I -m venv "$venv" || fail "python -m venv failed (above): see that $python_path is complete"
}

install() {
  say "installing Rankmesh with: $* (needs the network; minutes the first time)"
  [ -w "$venv" ] || fail "cannot write to $venv: run this as its owner"
  cd "$root"
  if [ -f "$stamp" ]; then mv -f -- "$stamp" "$stamp.old"; fi
  PIP_USER=0 "$venv/bin/python" -I -m pip install --quiet --disable-pip-version-check --no-input --no-compile \
    -c launch/constraints.txt -e ".[$(IFS=,; echo "$*")]" ||
    give_up_install
  # By all cores: pip compiles on one. Some packages have tests, and files for other versions of Python.
  "$venv/bin/python" -I -m compileall -qq -j 0 -x '/(tests|testing)/' "$venv"/lib/python*/site-packages || true
  write_stamp "$*"
}

# pip resolves before it changes anything, so an earlier set-up is still whole (and checked next time).
give_up_install() {
  if [ -f "$stamp.old" ]; then mv -f -- "$stamp.old" "$stamp"; fi
  fail "pip could not install Rankmesh (above); the same command tries again (pip needs its package index)"
}

write_stamp() {
  cd "$venv"
  {
    echo "root $root"
    echo "python $(bin/python -I -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
    echo "inputs $(inputs)"
    echo "extras $1"
    printf 'have %s\n' bin/rankmesh lib/python*/site-packages/* | sed -E 's/-[0-9][^-]*\.dist-info$/-*.dist-info/'
  } >"$stamp.new"
  mv -f -- "$stamp.new" "$stamp"
}

main() {
  local reason extras installed=cpu
  take_turn
  if [ -n "${PYTHON:-}" ]; then find_python; fi
  reason=$(fault)
  if [ -n "$reason" ]; then
    find_python
    make_venv "$reason"
    if has_gpu; then installed=gpu; fi
  else
    installed=$(stamped extras)
  fi
  read -r -a extras <<<"$(printf '%s\n' "$installed" "$@" | tr ' ' '\n' | sort -u | tr '\n' ' ')"
  if [ -n "$reason" ] || [ "$(stamped extras)" != "${extras[*]}" ] || [ "$(stamped inputs)" != "$(inputs)" ]; then
    install "${extras[@]}"
  fi
}

main "$@"
