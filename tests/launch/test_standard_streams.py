"""Standard streams of commands: closed ones, a full disk, and names that are not UTF-8."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from onnx_models import two_layers
from processes import COMMAND, PATIENCE, rankmesh
from shards import summing

from rankmesh import Model, ModelType, Orchestrator, RankmeshError, plan_slices, slice_model
from rankmesh.orchestrator.weights.payload import WeightPayload


def through_a_shell(command: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A command of rankmesh with redirections by a shell."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {command}', "sh", *COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=PATIENCE,
    )


def test_ranks_run_where_all_streams_are_closed(tmp_path: Path) -> None:
    done = through_a_shell("<&- >&- 2>&-", "run", summing(tmp_path), "--save", tmp_path / "saved")
    assert done.returncode == 0 and list(tmp_path.glob("saved*"))


def test_shards_are_proved_where_standard_error_is_closed(tmp_path: Path) -> None:
    made = tmp_path / "shards"
    done = through_a_shell("2>&-", "slice", two_layers(tmp_path), "--ranks", "2", "-o", made)
    assert done.returncode == 0 and "verified" in done.stdout


@pytest.mark.parametrize("command", [["--help"], ["run", "MODEL"]])
def test_a_full_disk_behind_standard_output_is_one_sentence(
    tmp_path: Path, command: list[str]
) -> None:
    model = summing(tmp_path)
    done = through_a_shell(">/dev/full", *(model if one == "MODEL" else one for one in command))
    last = done.stderr.splitlines()[-1]
    assert last.startswith("rankmesh: standard output cannot be written: No space left on device")
    assert done.returncode == 2 and "Traceback" not in done.stderr


def test_what_standard_error_cannot_take_changes_nothing(tmp_path: Path) -> None:
    done = through_a_shell("2>/dev/full", "run", summing(tmp_path))
    assert done.returncode == 0 and "output data is" in done.stdout


def test_a_reader_that_has_gone_ends_the_command_quietly() -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*COMMAND, "env"], stdout=write, stderr=subprocess.PIPE, timeout=PATIENCE)
    os.close(write)
    assert (done.returncode, done.stderr) == (2, b"")


def odd(folder: Path) -> str:
    """A model in a folder whose name is not UTF-8."""
    os.mkdir(os.fsencode(folder) + b"/mod\xe8le")
    path = os.fsdecode(os.fsencode(folder) + b"/mod\xe8le/layers.onnx")
    os.rename(two_layers(folder), path)
    return path


@pytest.mark.parametrize("command", ["run", "slice", "serve"])
def test_a_name_that_is_no_utf8_is_refused_with_the_remedy(tmp_path: Path, command: str) -> None:
    more = {"run": [], "slice": ["--ranks", "2"], "serve": ["--port", "0"]}[command]
    done = rankmesh(command, odd(tmp_path), *more)
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 3 and r"mod\udce8le/layers.onnx: is no name in UTF-8" in last
    assert "ln -s FOLDER" in last and "Traceback" not in done.stderr


def test_programs_refuse_such_a_name(tmp_path: Path) -> None:
    path = odd(tmp_path)
    plan = plan_slices(path, ranks=2)
    for refused in (
        lambda: Orchestrator(path),
        lambda: Orchestrator(path, slice="tensor=2"),
        lambda: Model().build_from_file(path, ModelType.MINDIR),
        lambda: slice_model(path, plan, f"{os.path.dirname(path)}/shards"),
        lambda: WeightPayload.of(path, 1),
    ):
        with pytest.raises(RankmeshError, match="is no name in UTF-8"):
            refused()


def test_a_relative_name_in_such_a_folder_is_refused(tmp_path: Path) -> None:
    folder, name = os.path.split(odd(tmp_path))
    for command in (["run", name], ["slice", name, "--ranks", "2"]):
        done = subprocess.run([*COMMAND, *command], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 3 and f"{name}: is no name in UTF-8" in done.stderr


def test_a_link_reaches_the_folder_and_convert_takes_the_name(tmp_path: Path) -> None:
    path = odd(tmp_path)
    (tmp_path / "link").symlink_to(os.path.dirname(path))
    done = rankmesh("run", tmp_path / "link" / "layers.onnx")
    assert (done.returncode, done.stderr.count("\n")) == (0, 1), done.stderr
    converted = through_a_shell("", "convert", f"--modelFile={path}", f"--outputFile={path}")
    assert converted.returncode == 0 and os.path.exists(f"{path}.mindir")
