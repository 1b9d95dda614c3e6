"""Orchestrators where little is there and less may be written: pods as clusters start them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from namespaces import mounted, require_namespaces
from served_models import SAMPLE, echo

import rankmesh

_NOBODY = 765432
"""A number that no account has, as clusters choose them."""

_SERVE = """
import sys, numpy, rankmesh
with rankmesh.Orchestrator(sys.argv[1]) as orchestrator:
    print(*(value.shape for value in orchestrator.predict(numpy.ones((4, 16), numpy.float32)).values()))
"""  # noqa: E501
_FROM_HOME = ("HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "RANKMESH_CACHE", "USER", "LOGNAME")


def environment(**more: str) -> dict[str, str]:
    """The variables of this process without what says where the user is at home."""
    return {**{name: value for name, value in os.environ.items() if name not in _FROM_HOME}, **more}


def served(ran: subprocess.CompletedProcess[str], ranks: int = 2) -> list[str]:
    """The warnings of a program that has served the sample, and printed nothing else."""
    assert (ran.returncode, ran.stdout) == (0, "(4, 16)\n"), ran.stderr
    lines = ran.stderr.splitlines()
    assert all("the model cache is off" in line for line in lines), ran.stderr
    assert len(lines) in (0, ranks)
    return lines


def serve(command: list[str], **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, timeout=250, env=environment(**more)
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    return path


_READ_ONLY = [
    "for place in $(cut -d' ' -f2 /proc/self/mounts); do",
    "mount -o remount,ro,bind $place 2>/dev/null || true",
    "done",
    "if touch /tmp/try 2>/dev/null; then exit 9; fi",
]
"""All file systems for reading only, which is tried."""

PROGRAM = [sys.executable, "-c", _SERVE, SAMPLE]


def test_a_home_that_cannot_be_written_is_a_warning(home: Path) -> None:
    require_namespaces()
    command = mounted(
        [f"mount --bind '{home}' '{home}'", f"mount -o remount,ro,bind '{home}'"], PROGRAM
    )
    for warning in served(serve(command, HOME=str(home))):
        assert (
            f"the model cache {home}/.cache/rankmesh/models cannot be made: Read-only file system."
            in warning
        )
    assert served(serve(command, HOME=str(home), RANKMESH_CACHE="off")) == []


def test_a_home_that_is_no_folder_for_files_is_a_warning() -> None:
    """/proc, where not even root can write: this needs no namespace."""
    assert (
        "the model cache /proc/.cache/rankmesh/models cannot be made"
        in served(serve(PROGRAM, HOME="/proc"))[0]
    )


def test_a_folder_that_was_named_must_do() -> None:
    ran = serve(PROGRAM, HOME="/proc", RANKMESH_CACHE="/proc/models")
    assert ran.returncode != 0
    assert ran.stderr.splitlines()[-1].endswith(
        "the model cache /proc/models cannot be made: No such file or directory. Name another "
        "folder (RANKMESH_CACHE "
        "or model_cache_dir), or turn it off (RANKMESH_CACHE=off)."
    )


@pytest.mark.parametrize("setting", ["off", "FOLDER"])
def test_the_cache_of_a_settings_file(home: Path, setting: str) -> None:
    """A folder is relative to the file. Other words for off are among the tests of settings."""
    (home / "serve.yaml").write_text(
        f"models:\n  - path: {SAMPLE}\n    cache: {setting.replace('FOLDER', 'kept')}\n"
    )
    program = _SERVE.replace("sys.argv[1]", "config=sys.argv[1]")
    assert (
        served(serve([sys.executable, "-c", program, str(home / "serve.yaml")], HOME=str(home)))
        == []
    )
    made = {path.name for path in home.iterdir()} - {"serve.yaml"}
    assert made == ({"kept"} if setting == "FOLDER" else set())


def test_the_cache_of_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    monkeypatch.delenv("RANKMESH_CACHE", raising=False)
    for cache, made in (
        (False, set()),
        ("off", set()),
        (str(tmp_path / "named"), {"named"}),
        (True, {"named", "own"}),
    ):
        with rankmesh.Orchestrator(echo(tmp_path, 4), cache=cache):
            pass
        assert {path.name for path in tmp_path.iterdir()} - {"echo.onnx"} == made
    with pytest.raises(
        rankmesh.UsageError, match="cache: got an empty text, expected a folder, or off"
    ):
        rankmesh.Orchestrator(echo(tmp_path, 4), cache="")


def test_a_small_dev_shm_is_no_matter() -> None:
    """Docker gives 64 MiB; here are 64 KiB, and then none at all."""
    require_namespaces()
    for mount in ("mount -t tmpfs -o size=64k none /dev/shm", "mount -t tmpfs -o ro none /dev/shm"):
        served(serve(mounted([mount], PROGRAM), HOME="/proc"))


def test_nothing_at_all_can_be_written() -> None:
    """All file systems are for reading only: there is not even a temporary folder."""
    require_namespaces()
    for warning in served(serve(mounted(_READ_ONLY, PROGRAM), HOME="/")):
        assert (
            "the model cache /.cache/rankmesh/models cannot be made: Read-only file system"
            in warning
        )


def test_rankmesh_run_writes_nothing_either() -> None:
    require_namespaces()
    arrays = Path(SAMPLE).with_suffix(".npz")
    command = [
        sys.executable,
        "-m",
        "rankmesh",
        "run",
        SAMPLE,
        "--inputs",
        str(arrays),
        "--expect",
        str(arrays),
    ]
    ran = serve(mounted(_READ_ONLY, command), HOME="/")
    assert ran.returncode == 0 and "cache" not in ran.stderr, ran.stderr


@pytest.mark.parametrize("home_variable", [None, "", "/", "/nonexistent"])
def test_a_user_without_an_account(home_variable: str | None) -> None:
    """Its number is all that it has: no name, no home, no runtime folder. It may read as root, not
    write.
    """
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can become a user without an account, by setpriv")
    become = [
        "setpriv",
        f"--reuid={_NOBODY}",
        f"--regid={_NOBODY}",
        "--clear-groups",
        "--inh-caps=-all,+dac_read_search",
        "--ambient-caps=+dac_read_search",
    ]
    tried = subprocess.run(
        [*become, sys.executable, "-c", "import rankmesh"], capture_output=True, text=True
    )
    if tried.returncode:
        pytest.skip(f"another user cannot run this Python: {tried.stderr[-200:]}")
    more = {} if home_variable is None else {"HOME": home_variable}
    warning, _ = served(serve([*become, *PROGRAM], **more))
    if home_variable is None:
        assert (
            f"user {_NOBODY} has no home folder: HOME is not set, and there is no such account."
            in warning
        )
