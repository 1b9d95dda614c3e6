"""Core files and other processes do not get the keys that a process holds; every way that a key
enters it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from attackers import Attacker, Victim
from encrypted import KEY
from processes import Running

DATA = Path(__file__).parents[2] / "data" / "mindir"
GCM = DATA / "enc_gcm16" / "enc_gcm16.mindir"
BEGINNING = """
import ctypes, os, resource, sys
_, most = resource.getrlimit(resource.RLIMIT_CORE)
resource.setrlimit(resource.RLIMIT_CORE, (most, most))
import rankmesh
"""
END = """
dumpable = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)
print(*resource.getrlimit(resource.RLIMIT_CORE), dumpable, flush=True)
os.abort()
"""
WAYS = {
    "model": (
        "rankmesh.Model().build_from_file(sys.argv[1], rankmesh.ModelType.MINDIR, "
        "dec_key=b'0123456789ABCDEF')"
    ),
    "environment": """
os.environ["RANKMESH_KEY"] = b'0123456789ABCDEF'.hex()
rankmesh.ModelParallelRunner().init(sys.argv[1])
""",
    "wrong key": """
try:
    rankmesh.Model().build_from_file(sys.argv[1], rankmesh.ModelType.MINDIR, dec_key=b'another key 0123')
except RuntimeError:
    pass
""",  # noqa: E501
    "message": """
import msgspec
from rankmesh.compiler.mindir.crypto import Decryption
msgspec.msgpack.decode(msgspec.msgpack.encode({"key": b"0123456789ABCDEF"}), type=Decryption)
""",
    "hosts": (
        "import rankmesh.comm.transport.curve; keys = rankmesh.comm.transport.curve.make_keys()"
    ),
    "command": """
os.environ["RANKMESH_KEY"] = b'0123456789ABCDEF'.hex()
from rankmesh.launch.cli import main
sys.argv[1:] = ["env"]
try:
    main()
except SystemExit:
    pass
""",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_process_with_a_key_leaves_no_core_file(way: str, tmp_path: Path) -> None:
    """Aborted in a folder where core files would lie, with the highest limit that it may have."""
    done = subprocess.run(
        [sys.executable, "-c", BEGINNING + WAYS[way] + END, str(GCM)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == -6, done.stderr
    assert done.stdout.splitlines()[-1] == "0 0 0"
    assert list(tmp_path.iterdir()) == []


HOLDER = """
import ctypes, rankmesh
say("started")
key = bytearray(b"0123456789ABCDEF")
rankmesh.Model().build_from_file(sys.argv[1], rankmesh.ModelType.MINDIR, dec_key=bytes(key))
say(ctypes.addressof(ctypes.c_char.from_buffer(key)))
"""


def test_no_other_process_of_the_user_reads_a_key(tmp_path: Path) -> None:
    """It could before there was a key: what is refused later is not refused for another reason."""
    holder, attacker = Victim(tmp_path, HOLDER, str(GCM)), Attacker()
    try:
        assert holder.said() == "started"
        assert attacker("open", f"/proc/{holder.pid}/mem") == 1
        holder.go()
        assert holder.said().isdecimal()
        assert attacker("open", f"/proc/{holder.pid}/mem") == "PermissionError"
        assert attacker("look", holder.pid) == "PermissionError"
    finally:
        holder.close()
        attacker.close()


def test_a_process_without_a_key_stays_as_it_is(tmp_path: Path) -> None:
    plain = (
        f"import resource; rankmesh.Model().build_from_file('{DATA / 'mlp' / 'mlp.mindir'}', "
        f"rankmesh.ModelType.MINDIR)\nprint(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), "
        f"resource.getrlimit(resource.RLIMIT_CORE) == (most, most))"
    )
    done = subprocess.run(
        [sys.executable, "-c", BEGINNING + plain],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.stdout == "1 True\n", done.stderr


def test_supervisor_and_ranks_leave_no_core_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(KEY.hex())
    with Running(
        GCM, "--device", "cpu", "--repeat", 10_000_000, "--key-file", tmp_path / "key"
    ) as running:
        for pid in (running.rank(0).pid, running.process.pid):
            limits = Path(f"/proc/{pid}/limits").read_text()
            (line,) = [
                line for line in limits.splitlines() if line.startswith("Max core file size")
            ]
            assert line.split()[4:6] == ["0", "0"], line
    assert "core" not in os.listdir(tmp_path)
