#!/usr/bin/env bash
# Sets up what is missing, then runs every test; arguments go to pytest. Without arguments, the tests marked mpi
# follow, on 2 and on 4 ranks.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
bash "$root/launch/setup.sh" test lint mpi torch slice
cd "$root"
if [ $# -gt 0 ]; then exec .venv/bin/pytest "$@"; fi

status=0
.venv/bin/pytest || status=$?
# Open MPI refuses to run as root, and more ranks than cores, unless told otherwise; these transports start it sooner.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,sm
for ranks in 2 4; do
  echo "== tests marked mpi, on $ranks ranks"
  .venv/bin/mpirun -n "$ranks" .venv/bin/python -m pytest --only-mpi -m mpi -q --no-header --color=no tests/comm </dev/null ||
    status=$?
done
exit "$status"
