"""The tutorial on distributed inference, end to end: its scripts, its command lines, what it says
they print.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from launched import launch, of_each_rank
from mindir_models import file_of, saved
from mpirun import mpirun
from primitives import same
from processes import rankmesh, segments

import rankmesh as package
from rankmesh import Context, Model, ModelGroup, ModelGroupFlag, ModelType
from rankmesh.compiler.mindir.reader import read_model
from rankmesh.launch.compat import compat_path

PACKAGE = Path(package.__file__).resolve().parent
SAMPLE = PACKAGE / "launch" / "sample"
SCRIPTS = Path(__file__).parents[1] / "data" / "documents"
TABLE = "hccl_2p_01_10.20.30.41.json"
LINE = "tensor's name is:output_0 data size is:256 tensor elements num is:64"
PYTHON = shlex.quote(sys.executable)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The tutorial's folder, which is the current one: scripts, models, rank table; nothing may be
    left elsewhere.
    """
    for source in (
        *SCRIPTS.glob("distributed_*.py"),
        *SAMPLE.glob("Matmul*.mindir"),
        PACKAGE / "rank_tables" / TABLE,
    ):
        (tmp_path / source.name).write_bytes(source.read_bytes())
    (tmp_path / "config_file.ini").write_text(f"[ascend_context]\nrank_table_file={TABLE}\n")
    monkeypatch.chdir(tmp_path)
    before = segments()
    with tempfile.TemporaryDirectory(prefix="rm") as runtime:
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        yield tmp_path
        assert [name for found in Path(runtime).iterdir() for name in os.listdir(found)] == []
    assert segments() <= before


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    """What the model gives for ones, by `rankmesh run`."""
    path = tmp_path_factory.mktemp("reference") / "out.npz"
    assert rankmesh("run", SAMPLE / "Matmul.mindir", "--save", path).returncode == 0
    with np.load(path) as file:
        values: np.ndarray = file["out_0"].ravel()[:10]
    return values


def compat() -> dict[str, str]:
    """The environment of a user who has set PYTHONPATH=$(rankmesh compat-path)."""
    folders = [compat_path(), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders), "PYTHONUNBUFFERED": ""}


def shell(lines: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run lines of shell."""
    return subprocess.run(
        ["bash", "-c", lines],
        capture_output=True,
        text=True,
        timeout=250,
        stdin=subprocess.DEVNULL,
        env={**compat(), **environment},
    )


def ascend(rank: int, device: int | None = None, model: str = "Matmul{rank}.mindir") -> str:
    """One of the tutorial's shell lines."""
    return (
        f"{PYTHON} ./distributed_ascend.py --model_path={model.replace('{rank}', str(rank))} "
        f"--rank_id={rank} "
        f"--device_id={rank if device is None else device} --config_file=./config_file.ini"
    )


def check(text: str, reference: np.ndarray, ranks: int = 2) -> None:
    """Each rank has printed name, sizes, and the first ten values."""
    assert text.count(LINE) == ranks, text
    printed = re.findall(r"output data is: (.*)", text)
    assert len(printed) == ranks
    for values in printed:
        np.testing.assert_allclose(np.array(values.split(), np.float32), reference, rtol=1e-5)


def check_prefixed(out: str, reference: np.ndarray) -> None:
    """The same, with the rank before each line."""
    ranks = of_each_rank(out)
    assert sorted(ranks) == [0, 1]
    for lines in ranks.values():
        check("\n".join(lines), reference, ranks=1)


@pytest.mark.usefixtures("folder")
def test_row_30_one_process_per_rank_with_its_own_shard_and_the_same_input(
    reference: np.ndarray,
) -> None:
    arguments = [
        "--model_path=Matmul{rank}.mindir",
        "--device_id={device}",
        "--rank_id={rank}",
        "--config_file=./config_file.ini",
    ]
    status, out, errors = launch("--rank-table", TABLE, "distributed_ascend.py", *arguments)
    assert status == 0, errors
    check_prefixed(out, reference)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "line, message",
    [
        (
            ascend(1, device=0),
            "ascend.device_id is 0, and the rank table gives rank 1 the device 1",
        ),
        (ascend(2), "ascend.rank_id is 2, and the rank table has the ranks 0 to 1"),
    ],
)
def test_row_31_the_ascend_context_names_rank_and_device(line: str, message: str) -> None:
    """Ranks and devices must be the rank table's."""
    done = shell(line.replace("Matmul2", "Matmul1"))
    assert done.returncode == 1 and message in done.stderr


def test_row_32_rank_table_in_the_configuration(folder: Path, reference: np.ndarray) -> None:
    """One that our command made, two times in any order; a background rank of the first turn may be
    about to end.
    """
    (folder / TABLE).unlink()
    assert rankmesh("rank-table", "make", "--devices", "0-1", "--ip", "10.20.30.41").returncode == 0
    turn = f"{ascend(1)} & {ascend(0)}"
    done = shell(f"{turn}\n{turn}\nwait")
    check(done.stdout, reference, ranks=4)


@pytest.mark.usefixtures("folder")
def test_row_33_gpu_context_and_row_36_the_run_command_for_gpus(reference: np.ndarray) -> None:
    """Falls back: ranks of a machine without GPUs run on its CPU, whatever the provider's name."""
    done = shell(
        f"RANK_SIZE=2\n{shlex.quote(mpirun())} -n $RANK_SIZE {PYTHON} ./distributed_gpu.py "
        f"--model_path=./Matmul.mindir",
        OMPI_ALLOW_RUN_AS_ROOT="1",
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe",
    )
    assert done.returncode == 0, done.stderr
    check(done.stdout, reference)


@pytest.mark.usefixtures("folder")
def test_row_34_sliced_models() -> None:
    """Each shard, as MindSpore exported it, holds a collective; together they compute what
    MindSpore did.
    """
    for rank in range(2):
        nodes = read_model(f"Matmul{rank}.mindir").entry.nodes
        assert [node.primitive for node in nodes].count("AllReduce") == 1
    arrays = SAMPLE / "Matmul.npz"
    done = rankmesh("run", "Matmul.mindir", "--inputs", arrays, "--expect", arrays)
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("folder")
def test_row_35_inputs_from_arrays(reference: np.ndarray) -> None:
    status, out, errors = launch("--ranks", 2, "distributed_gpu.py", "--model_path=./Matmul.mindir")
    assert status == 0, errors
    check_prefixed(out, reference)


@pytest.mark.usefixtures("folder")
def test_row_31_ascend_context_and_row_36_the_run_commands_for_ascend(
    reference: np.ndarray,
) -> None:
    """Falls back: without Ascend devices the ranks run elsewhere."""
    done = shell(f"{ascend(0)} &\n{ascend(1)}\nwait")
    assert done.returncode == 0, done.stderr
    check(done.stdout, reference)
    assert "Traceback" not in done.stderr
    assert done.stderr.count("target ascend: this machine has no such device") in (0, 2)


def test_row_37_models_of_a_group_share_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal weights of any models are one copy; each model has a context of its own, with the
    provider ge.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("RANKMESH_DEVICE", "cpu")
    group, models = ModelGroup(ModelGroupFlag.SHARE_WEIGHT), [Model(), Model()]
    group.add_model(models)
    for number, model in enumerate(models):
        context = Context()
        context.target, context.ascend.provider = ["ascend"], "ge"
        model.build_from_file(file_of("mobilenetv2"), ModelType.MINDIR, context)
        (folder,) = (tmp_path / "rankmesh" / "groups").iterdir()
        assert len(list(folder.glob("*.weights"))) == 1, (
            number
        )  # the second model has none of its own
    (x,), (y,) = saved("mobilenetv2")
    for model in models:
        same(model.predict([x])[0].get_data_to_numpy(), y)


@pytest.mark.usefixtures("folder")
def test_absent_rank_is_named() -> None:
    done = shell(ascend(0), RANKMESH_COLLECTIVE_TIMEOUT="1")
    assert done.returncode == 1 and done.stdout == ""
    assert (
        "RankFailed: build_from_file failed! " in done.stderr and "rank 1 never came" in done.stderr
    )


@pytest.mark.usefixtures("folder")
def test_rank_that_is_asked_for_twice(reference: np.ndarray) -> None:
    """The one that comes later is refused, and the other one goes on with rank 1."""
    done = shell(f"{ascend(0)} & {ascend(0)} & wait -n; {ascend(1)}; wait")
    assert done.stderr.count("rank 0 of this job runs already (rank 0 is process ") == 1
    check(done.stdout, reference)
