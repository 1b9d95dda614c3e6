#!/usr/bin/env bash
# Sets up what is missing, then runs every test; arguments go to pytest. Without arguments, three processes take turns at
# the files of tests. Then the tests marked alone run, and the tests marked mpi on 2 and on 4 ranks.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
bash "$root/launch/setup.sh" test lint mpi torch slice
cd "$root"
if [ $# -gt 0 ]; then exec .venv/bin/pytest "$@"; fi

# The tests start thousands of processes. With PYTHONDONTWRITEBYTECODE, each of them would compile Rankmesh again, and
# each pytest the tests and hypothesis.
unset PYTHONDONTWRITEBYTECODE
.venv/bin/python -m compileall -q -x '/test_|build/' ./*.py ./*/
# Threads of numpy that have no work sleep at once. By default they first keep their core busy for 2^26 cycles.
export OPENBLAS_THREAD_TIMEOUT=4

status=0
.venv/bin/pytest -n 3 --dist loadfile --no-loadscope-reorder -m "not alone" || status=$?
.venv/bin/pytest -m alone || status=$?
# Open MPI refuses to run as root, and more ranks than cores, unless told otherwise; these transports start it sooner.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,sm
for ranks in 2 4; do
  echo "== tests marked mpi, on $ranks ranks"
  .venv/bin/mpirun -n "$ranks" .venv/bin/python -m pytest --only-mpi -m mpi -q --no-header --color=no tests/comm </dev/null ||
    status=$?
done
exit "$status"
