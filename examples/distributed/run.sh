#!/usr/bin/env bash
# Makes the two shards of a small model and runs them on two ranks: as shell lines, then under mpirun. Then two models
# of one process that share their weights.
set -euo pipefail
source "$(dirname -- "$0")/../common.sh"

echo "== one shell line for each rank, which find each other by the rank table"
"$python" -m rankmesh rank-table make --devices 0,1 --ip 127.0.0.1
echo "[ascend_context]
rank_table_file=hccl_2p_01_127.0.0.1.json" >config_file.ini
"$python" "$here/main.py" --model_path=model/Matmul0.mindir --device_id=0 --rank_id=0 --config_file=./config_file.ini &
"$python" "$here/main.py" --model_path=model/Matmul1.mindir --device_id=1 --rank_id=1 --config_file=./config_file.ini
wait $!  # the rank in the background, whose failure is this script's

mpirun=$(dirname -- "$(command -v "$python")")/mpirun
if [ ! -x "$mpirun" ]; then mpirun=$(command -v mpirun || true); fi
if [ -n "$mpirun" ] && "$python" -c 'import mpi4py' 2>/dev/null; then
  echo "== mpirun"
  # Open MPI refuses to run as root, and more ranks than cores, unless told otherwise.
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
  "$mpirun" -n 2 "$python" "$here/main.py" --model_path=model/Matmul.mindir </dev/null
else
  echo "== rankmesh launch, as mpirun or mpi4py is not installed (bash launch/setup.sh mpi)"
  "$python" -m rankmesh launch --ranks 2 "$here/main.py" --model_path=model/Matmul.mindir
fi

echo "== two models that share their weights"
"$python" "$here/share_weights.py"
