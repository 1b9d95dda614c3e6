"""Memory files of weights, and the page that says which copies count."""

from __future__ import annotations

import os

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rankmesh.comm.errors import UsageError
from rankmesh.comm.host.sealed_memory import SealedMemory
from rankmesh.worker.weights.control import ControlPage, OwnControlPage, WeightSnapshot, mark
from rankmesh.worker.weights.store import WeightType
from rankmesh.worker.weights.weight_file import WeightFile

pytestmark = pytest.mark.pure

_TYPES = st.sampled_from([np.float32, np.float16, np.int8, np.int64, np.bool_, ml_dtypes.bfloat16])
_KINDS = st.builds(
    lambda dtype, shape: WeightType(np.dtype(dtype), tuple(shape)),
    _TYPES,
    st.lists(st.integers(0, 40), max_size=3),
)


@settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow]
)  # of a machine that has other work
@given(st.dictionaries(st.text(max_size=30), _KINDS, max_size=30), st.integers(1, 2))
def test_what_is_written_is_read(kinds: dict[str, WeightType], copies: int) -> None:
    made = WeightFile.create("test", kinds, copies)
    for number, arrays in enumerate(made.arrays.values()):
        for copy, array in enumerate(arrays):
            array.reshape(-1).view(np.uint8)[...] = (number * 2 + copy) % 251
    opened = WeightFile.open(made.fds)
    assert list(opened.arrays) == list(kinds)
    for number, (name, arrays) in enumerate(opened.arrays.items()):
        assert len(arrays) == copies
        for copy, array in enumerate(arrays):
            assert (array.dtype, array.shape) == (kinds[name].dtype, kinds[name].shape)
            assert not array.flags.writeable
            assert (array.reshape(-1).view(np.uint8) == (number * 2 + copy) % 251).all()
    made.close()


@pytest.mark.parametrize("head", [b"", b"\xff" * 8, (5).to_bytes(8, "little") + b"hello"])
def test_what_is_no_file_of_weights(head: bytes) -> None:
    file = SealedMemory("test", 64)
    file.bytes[: len(head)] = head
    with pytest.raises(UsageError, match="what is no file of weights"):
        WeightFile.open([file.fd])
    loose = os.memfd_create("loose")
    with pytest.raises(UsageError, match="what is no file of weights"):
        WeightFile.open([loose])
    os.close(loose)
    file.close()


def test_snapshots_are_read_as_they_were_published() -> None:
    control = OwnControlPage(3)
    reader = ControlPage.open(control.fd)
    assert reader.read(0) == WeightSnapshot(0, 0, (0, 0, 0))
    for generation in range(1, 6):
        snapshot = WeightSnapshot(
            generation, 10 * generation, (mark(generation, 1), 0, mark(2**40, 2))
        )
        control.publish(snapshot)
        assert reader.word[0] == generation
        assert reader.version == 10 * generation
        assert reader.read(generation) == snapshot
        assert [snapshot.copy_of(number) for number in range(3)] == [1, 0, 2]
    control.close()


def test_what_is_no_control_page() -> None:
    file = SealedMemory("test", 64)
    file.bytes[8:16] = b"\xff" * 8
    with pytest.raises(UsageError, match="what is no control page"):
        ControlPage.open(file.fd)
    file.close()
