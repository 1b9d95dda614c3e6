"""When a process with shared weights is closed to others: before the weights are there, or at
import.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from attackers import Attacker, Victim
from changed_weights import weights
from mindir_models import built, file_of

from rankmesh.worker.api.model import weight_owner

BUILD = """
import os
import numpy as np
import rankmesh as mslite

def stop_at_memory(event, arguments):
    if event == "mmap.__new__" and arguments[0] >= 0:
        if "rankmesh-weights" in os.readlink(f"/proc/self/fd/{arguments[0]}"):
            say("mapped")

way, path, handle = sys.argv[1:]
configs = {"owner": {"pids": "0"}, "named": {"ascend_context": {"variable_weights_list": "fc1.weight"}},
           "user": {"shared_mem_handle": handle}}
model = mslite.Model()
say("started")
sys.addaudithook(stop_at_memory)
model.build_from_file(path, mslite.ModelType.MINDIR, mslite.Context(), config_dict=configs.get(way))
if way == "shared later":
    mslite.WeightManager.share(model)
if way == "updated":
    tensor = mslite.Tensor(np.load(path + ".npy"))
    tensor.name = "fc1.weight"
    model.update_weights([[tensor]])
say("done")
"""  # noqa: E501
"""Builds a model in one of the ways in which its weights come into shared memory, and stops
wherever that is mapped.
"""

OWN = """
import ctypes
say("started")
import rankmesh
from rankmesh.comm.host.sealed_memory import SealedMemory
memory = SealedMemory("weights", 4096)
memory.bytes[:6] = b"SECRET"
address = ctypes.addressof(ctypes.c_char.from_buffer(memory.bytes))
say(address)
say(bytes(memory.bytes[:6]))
"""

IMPORT = """
import rankmesh
say("imported")
"""

Start = Callable[..., Victim]


@pytest.fixture
def attacker() -> Iterator[Attacker]:
    made = Attacker()
    yield made
    made.close()


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Start]:
    """Starts one, which is ended with the test."""
    started: list[Victim] = []

    def start(script: str, *arguments: str, **environment: str) -> Victim:
        started.append(Victim(tmp_path, script, *arguments, **environment))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.mark.parametrize("way", ["owner", "named", "shared later", "updated", "user"])
def test_a_process_is_closed_before_it_has_weights_to_share(
    attacker: Attacker, victim: Start, way: str, tmp_path: Path
) -> None:
    path = str(shutil.copy(file_of("mlp"), tmp_path / "mlp.mindir"))
    array = next(array for name, array in weights(path).items() if "fc1.weight" in name)
    np.save(path + ".npy", array)
    model = built("mlp", config_dict={"pids": "0"})
    one = victim(BUILD, way, path, model.get_model_info("shareable_weight_mem_handle"))
    assert one.said() == "started"
    weight_owner(model).share((one.pid,))
    one.go()
    looks = []
    while (said := one.said()) == "mapped":
        looks.append(attacker("look", one.pid))
        one.go()
    assert said == "done"
    assert looks
    assert attacker("search", array.tobytes()[:64]) == []
    assert set(looks) == {"PermissionError"}


@pytest.mark.parametrize(
    ("setting", "closed"), [("", False), ("0", False), ("1", True), ("yes", True)]
)
def test_a_setting_closes_a_process_at_import(
    attacker: Attacker, victim: Start, setting: str, closed: bool
) -> None:
    one = victim(IMPORT, RANKMESH_CLOSED=setting)
    assert one.said() == "imported"
    assert attacker("open", f"/proc/{one.pid}/mem") == ("PermissionError" if closed else 1)
    assert attacker("look", one.pid) == ("PermissionError" if closed else 1)


def test_memory_that_was_opened_before_stays_open(attacker: Attacker, victim: Start) -> None:
    """What closing cannot undo, as docs/security.md says."""
    one = victim(OWN)
    assert one.said() == "started"
    assert attacker("open", f"/proc/{one.pid}/mem") == 1
    one.go()
    address = int(one.said())
    assert attacker("open", f"/proc/{one.pid}/mem") == "PermissionError"
    assert attacker("read", address, 6) == b"SECRET"
    assert attacker("write", address, b"POISON") == 6
    one.go()
    assert one.said() == "b'POISON'"
