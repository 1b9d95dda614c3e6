# Sourced by each run.sh: goes into a temporary folder, sets `python` and makes the models of the example there, unless
# `models=none` says that it makes its own.
examples=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
here=$(cd -- "$(dirname -- "$0")" && pwd -P)

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT

# Asked in a folder where no other folder can be taken for the package.
has_rankmesh() (
  cd "$work"
  "$1" -c 'from importlib.util import find_spec as has; exit(not (has("rankmesh") and has("onnxruntime")))' 2>/dev/null
)

# The first Python that has Rankmesh: $PYTHON, the active environment's, else the checkout's .venv, made if need be.
find_python() {
  local name
  for name in ${PYTHON:+"$PYTHON"} python3 python; do
    python=$(command -v -- "$name") || continue
    [[ $python == /* ]] || python=$PWD/$python
    if has_rankmesh "$python"; then return; fi
  done
  bash "$examples/../launch/setup.sh"
  python=$examples/../.venv/bin/python
}

find_python
cd "$work"

# `import mindspore_lite` is Rankmesh's in this shell, even where the real one is installed.
PYTHONPATH=$("$python" -m rankmesh compat-path)${PYTHONPATH:+:$PYTHONPATH}
export PYTHONPATH RANKMESH_COMPAT=force

if [ "${models:-}" != none ]; then "$python" "$examples/models.py" "$(basename "$here")" model; fi
