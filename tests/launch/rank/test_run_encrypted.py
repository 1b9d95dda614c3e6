"""Encrypted models by the command line: every way to give the key, none that shows it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from encrypted import ENTRIES, KEY, encrypt_file
from processes import COMMAND, PATIENCE, Running, rankmesh

from rankmesh.comm.errors import UsageError
from rankmesh.comm.job.shard import Shards
from rankmesh.compiler.model_file.config import Config
from rankmesh.launch.options.user_files import model_key
from rankmesh.launch.run.options import RunOptions

DATA = Path(__file__).parents[2] / "data" / "mindir"
HEX = KEY.hex()
GCM = DATA / "enc_gcm16" / "enc_gcm16.mindir"


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    (tmp_path / "key").write_text(f"{HEX}\n")
    return tmp_path / "key"


@pytest.mark.parametrize("entry", sorted(ENTRIES))
def test_every_entry(entry: str, tmp_path: Path) -> None:
    mode, key = ENTRIES[entry]
    (tmp_path / "key").write_text(key.hex())
    saved = DATA / entry / f"{entry}.npz"
    done = rankmesh(
        "run",
        DATA / entry / f"{entry}.mindir",
        "--inputs",
        saved,
        "--expect",
        saved,
        "--device",
        "cpu",
        "--key-file",
        tmp_path / "key",
        "--dec-mode",
        mode,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("OK: 1 output")


@pytest.mark.parametrize("name", ["dist_tp_mlp_2", "dist_optshard_2"])
def test_encrypted_shards(name: str, tmp_path: Path, key_file: Path) -> None:
    """Of the second, the collectives take the weights themselves."""
    for rank in range(2):
        encrypt_file(
            DATA / name / f"{name}_rank{rank}.mindir", tmp_path / f"m{rank}.mindir", "AES-CBC", 4096
        )
    saved = DATA / name / f"{name}.npz"
    done = rankmesh(
        "run",
        tmp_path / "m{rank}.mindir",
        "--inputs",
        saved,
        "--expect",
        saved,
        "--device",
        "cpu",
        "--dec-mode",
        "AES-CBC",
        RANKMESH_KEY=HEX,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        "OK: 2 outputs of 2 ranks match" in done.stdout
        or "OK: 1 output of 2 ranks matches" in done.stdout
    )


def test_shards_that_do_not_belong_together(tmp_path: Path) -> None:
    for rank, name in enumerate(("dist_tp_mlp_2", "dist_optshard_2")):
        encrypt_file(DATA / name / f"{name}_rank{rank}.mindir", tmp_path / f"m{rank}.mindir")
    done = rankmesh("run", tmp_path / "m.mindir", "--device", "cpu", RANKMESH_KEY=HEX)
    assert done.returncode == 3
    assert "m1.mindir (rank 1)" in done.stderr


def test_inspect(key_file: Path) -> None:
    done = rankmesh("inspect", GCM, "--json", "--key-file", key_file)
    plain = rankmesh("inspect", DATA / "mlp" / "mlp.mindir", "--json")
    encrypted, wanted = json.loads(done.stdout)[0], json.loads(plain.stdout)[0]
    assert {**encrypted, "file": ""} == {**wanted, "file": ""}


@pytest.mark.parametrize("command", ["run", "inspect"])
def test_the_error_says_what_to_give(command: str) -> None:
    none = rankmesh(command, GCM)
    wrong = rankmesh(command, GCM, "--key", HEX[::-1])
    assert (none.returncode, wrong.returncode) == (3, 3)
    assert "is encrypted (AES-GCM)" in none.stderr and "--key-file FILE" in none.stderr
    assert "wrong key" in wrong.stderr and HEX[::-1] not in wrong.stdout + wrong.stderr


@pytest.mark.parametrize("command", ["run", "inspect"])
def test_a_plain_model_where_a_key_was_given(command: str, key_file: Path) -> None:
    plain = DATA / "mlp" / "mlp.mindir"
    refused = rankmesh(command, plain, "--key-file", key_file)
    assert refused.returncode == 3 and "is not encrypted, and a key was given" in refused.stderr
    assert (
        rankmesh(command, plain, "--key-file", key_file, "--allow-unauthenticated").returncode == 0
    )
    assert (
        rankmesh(command, plain, RANKMESH_KEY=HEX, RANKMESH_ALLOW_UNAUTHENTICATED="1").returncode
        == 0
    )


def test_a_key_from_a_program(key_file: Path) -> None:
    command = f"{' '.join(COMMAND)} inspect {GCM} --json --key-file <(cat {key_file})"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr


def test_a_plain_model_in_the_cache_is_refused_too(key_file: Path, tmp_path: Path) -> None:
    """Where the cache has a build of it, nothing is read."""

    def run(*options: object) -> subprocess.CompletedProcess[str]:
        return rankmesh(
            "run",
            DATA / "mlp" / "mlp.mindir",
            "--device",
            "cpu",
            *options,
            RANKMESH_CACHE=str(tmp_path / "cache"),
        )

    assert run().returncode == 0
    refused = run("--key-file", key_file)
    assert refused.returncode == 3 and "is not encrypted, and a key was given" in refused.stderr
    assert run("--key-file", key_file, "--allow-unauthenticated").returncode == 0


def test_no_process_has_the_key_in_its_command_line(key_file: Path) -> None:
    saved = GCM.with_suffix(".npz")
    with Running(
        GCM, "--device", "cpu", "--inputs", saved, "--repeat", 10_000_000, "--key", HEX
    ) as running:
        assert HEX not in " ".join(running.rank(0).cmdline())


def test_where_the_key_comes_from(key_file: Path, tmp_path: Path) -> None:
    def key(given: str | None, file: Path | None, environ: dict[str, str]) -> bytes | None:
        found = model_key(given, str(file) if file else None, "AES-GCM", environ)
        return found.key if found else None

    other = {"RANKMESH_KEY": "00" * 16}
    assert key(None, None, {}) is None
    assert key(HEX, None, other) == key(None, key_file, other) == KEY
    assert key(None, None, other) == bytes(16)
    with pytest.raises(UsageError, match="both give the key"):
        key(HEX, key_file, {})
    with pytest.raises(UsageError, match="none: cannot be read: No such file"):
        key(None, tmp_path / "none", {})
    (tmp_path / "binary").write_bytes(bytes(range(128, 160)))
    with pytest.raises(UsageError, match="binary holds no key"):
        key(None, tmp_path / "binary", {})


def test_a_job_does_not_show_its_key() -> None:
    asked = RunOptions("m", decryption=model_key(HEX, None, "AES-GCM", {}))
    job = asked.job(Shards("m", 1), "cpu", Config(), spin=False)
    assert HEX not in repr(job) and KEY.decode() not in repr(job)
