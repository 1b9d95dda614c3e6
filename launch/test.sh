#!/usr/bin/env bash
# Sets up what is missing, then runs every test; arguments go to pytest.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
bash "$root/launch/setup.sh" test lint
cd "$root"
exec .venv/bin/pytest "$@"
