"""`rankmesh launch` with scripts that do as they should, and with options that contradict each
other.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from launched import launch, of_each_rank, script
from served_models import SAMPLE

import rankmesh
from rankmesh.launch.launchers import launchers as launch_module

TABLES = Path(rankmesh.__file__).resolve().parent / "rank_tables"
CORES = len(os.sched_getaffinity(0))

REPORT = """
    import json, os, sys
    names = ("RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE RANK_ID RANK_SIZE DEVICE_ID RANK_TABLE_FILE"
             " CUDA_VISIBLE_DEVICES").split()
    print(json.dumps({"argv": sys.argv[1:], "cores": sorted(os.sched_getaffinity(0)),
                      **{name: os.environ.get(name) for name in names}}))
"""  # noqa: E501


def reports(*arguments: object, **environment: str) -> list[dict[str, object]]:
    """What each rank of a script with REPORT printed."""
    status, out, errors = launch(*arguments, **environment)
    assert status == 0, errors
    lines = dict(line.split("] ", 1) for line in out.splitlines())
    return [json.loads(lines[f"[rank {rank}"]) for rank in range(len(lines))]


def test_lines_have_their_rank_and_stay_on_their_stream(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
        import os, sys
        print("I am", os.environ["RANK"])
        print("same")
        print("trouble", file=sys.stderr)
    """,
    )
    status, out, errors = launch("--ranks", 3, path)
    assert status == 0
    assert of_each_rank(out) == {rank: [f"I am {rank}", "same"] for rank in range(3)}
    assert of_each_rank(errors) == dict.fromkeys(range(3), ["trouble"])


def test_one_log_file_per_rank_with_its_own_lines(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        'import os; print("I am", os.environ["RANK"]); print(); print("\\u00e9nd", end="")',
    )
    assert launch("--ranks", 2, "--log-dir", tmp_path / "logs" / "new", path)[0] == 0
    assert sorted(file.name for file in (tmp_path / "logs" / "new").iterdir()) == [
        "rank_0.log",
        "rank_1.log",
    ]
    for rank in (0, 1):
        text = (tmp_path / "logs" / "new" / f"rank_{rank}.log").read_text("utf-8")
        assert text == f"I am {rank}\n\n\u00e9nd\n"


def test_variables_and_placeholders(tmp_path: Path) -> None:
    arguments = [
        "--model=m{rank}.mindir",
        "{local_rank}",
        "{device}",
        "{world_size}",
        "{else}",
        "--ranks",
        "-m",
        "--",
    ]
    for rank, found in enumerate(reports("--ranks", 2, script(tmp_path, REPORT), *arguments)):
        assert found["argv"] == [
            f"--model=m{rank}.mindir",
            f"{rank}",
            f"{rank}",
            "2",
            "{else}",
            "--ranks",
            "-m",
            "--",
        ]
        assert [found[name] for name in ("RANK", "LOCAL_RANK", "RANK_ID", "DEVICE_ID")] == [
            str(rank)
        ] * 4
        assert [found[name] for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "RANK_SIZE")] == [
            "2"
        ] * 3
        assert found["RANK_TABLE_FILE"] is None and found["CUDA_VISIBLE_DEVICES"] == "0,1"


def test_rank_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(TABLES)
    path = script(tmp_path, REPORT)
    for rank, found in enumerate(
        reports("--rank-table", "hccl_2p_45_10.20.30.41.json", path, "{device}")
    ):
        assert found["argv"] == [f"{4 + rank}"] and found["DEVICE_ID"] == f"{4 + rank}"
        assert found["CUDA_VISIBLE_DEVICES"] == "4,5"
        assert found["RANK_TABLE_FILE"] == str(TABLES / "hccl_2p_45_10.20.30.41.json")


@pytest.mark.skipif(CORES < 2, reason="two ranks are pinned where there are two cores")
def test_ranks_are_pinned_apart(tmp_path: Path) -> None:
    zero, one = reports("--ranks", 2, script(tmp_path, REPORT))
    assert len(zero["cores"]) == len(one["cores"]) == CORES // 2
    assert set(zero["cores"]).isdisjoint(one["cores"])


def test_more_ranks_than_cores_are_not_pinned(tmp_path: Path) -> None:
    for found in reports("--ranks", CORES + 1, script(tmp_path, REPORT)):
        assert found["cores"] == sorted(os.sched_getaffinity(0))


def test_module_with_options_named_as_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path, REPORT)
    monkeypatch.chdir(tmp_path)
    arguments = ["--ranks", "9", "--help", "--log-dir={rank}"]
    for rank, found in enumerate(reports("--ranks", 2, "-m", "main", *arguments)):
        assert found["argv"] == ["--ranks", "9", "--help", f"--log-dir={rank}"]


def test_standard_input_is_empty_and_the_scripts_folder_is_importable(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("NAME = 'found'")
    path = script(
        tmp_path, "import sys, neighbour; print(neighbour.NAME, repr(sys.stdin.read()), __name__)"
    )
    assert launch("--ranks", 1, path)[1] == "[rank 0] found '' __main__\n"


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--ranks", "2"], "say which script"),
        (["--ranks", "0", "main.py"], "--ranks 0: expected 1 or more"),
        (["--ranks", "2", "missing.py"], "missing.py: no such script"),
        (
            ["--ranks", "2", "--launcher", "magic", "main.py"],
            "--launcher magic: expected local or mpirun",
        ),
        (
            ["--ranks", "3", "--rank-table", TABLES / "hccl_2p_45_10.20.30.41.json", "main.py"],
            "--ranks 3 contradicts",
        ),
        (
            ["--rank-table", TABLES / "hccl_2s_16p.json", "main.py"],
            "no server of the rank table is this host",
        ),
        (["--rank-table", "missing.json", "main.py"], "missing.json"),
        (["--ranks", "2", "--log-dir", "main.py", "main.py"], "--log-dir main.py: File exists"),
        (
            ["--ranks", "2", "--log-dir", "main.py", "--launcher", "mpirun", "main.py"],
            "--log-dir main.py: File exists",
        ),
        (["--rank", "2", "main.py"], "No such option: --rank"),
    ],
)
def test_options_that_make_no_sense(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[object], message: str
) -> None:
    script(tmp_path, "print('started')")
    monkeypatch.chdir(tmp_path)
    status, out, errors = launch(*arguments)
    assert (status, out) == (2, "") and message in errors and "Traceback" not in errors


def test_no_program_that_a_rank_starts_gets_the_arena(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        f"""
        import os
        import rankmesh as mslite
        model = mslite.Model()
        model.build_from_file({SAMPLE!r}, mslite.ModelType.MINDIR, mslite.Context())
        os.system("ls -l /proc/self/fd")
    """,
    )
    status, out, errors = launch("--ranks", 2, path)
    assert status == 0, errors
    assert "/proc/" in out
    assert "rankmesh-arena" not in out
    assert "socket:" not in out


def test_without_a_number_there_is_a_rank_per_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(launch_module, "gpu_count", lambda: 2)
    path = script(
        tmp_path, "import os; print('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])"
    )
    assert launch_module.launch(launch_module.LaunchOptions((str(path),))) == 0
    out, errors = capfd.readouterr()
    assert sorted(out.splitlines()) == ["[rank 0] rank 0 of 2", "[rank 1] rank 1 of 2"]
    assert errors == "rankmesh: 2 ranks, one per visible GPU (--ranks N starts N)\n"


def test_without_a_number_and_without_a_gpu_the_command_is_said(tmp_path: Path) -> None:
    path = script(tmp_path, "print('never')")
    status, out, errors = launch(path, "--size", "a b", CUDA_VISIBLE_DEVICES="")
    assert (status, out) == (
        2,
        "",
    ) and f"rankmesh launch --ranks 2 {path} --size 'a b' (or --rank-table" in errors
