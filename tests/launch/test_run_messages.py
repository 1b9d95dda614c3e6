"""Send, Receive and NeighborExchange of `rankmesh run`, where all ranks send before they
receive."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from processes import rankmesh
from shards import write_shard


@pytest.mark.parametrize(("elements", "status"), [(1 << 18, 0), ((1 << 18) + 1, 3)])
def test_both_ranks_send_before_they_receive(tmp_path: Path, elements: int, status: int) -> None:
    """1 MiB of float32 may be under way; what is more is refused before anything runs, not late."""
    for rank in (0, 1):
        write_shard(
            tmp_path / f"cross{rank}.onnx",
            [
                helper.make_node("Send", ["x"], [], name="there", domain="rankmesh", to=1 - rank),
                helper.make_node(
                    "Receive",
                    [],
                    ["y"],
                    name="back",
                    domain="rankmesh",
                    source=1 - rank,
                    shape=[elements],
                    dtype=1,
                ),
            ],
            outputs=["y"],
            shape=[elements],
        )
    done = rankmesh("run", tmp_path / "cross.onnx", RANKMESH_COLLECTIVE_TIMEOUT="5")
    assert done.returncode == status, done.stderr
    if status:
        assert (
            "cross0.onnx (rank 0) in Send there" in done.stderr
            and "NeighborExchange" in done.stderr
        )


def test_many_large_messages_in_one_exchange(tmp_path: Path) -> None:
    names, shape = ["a", "b", "c", "d"], [300_000]
    for rank in (0, 1):
        factors = {
            f"k{n}": np.array((rank + 1) * 10.0 + i, np.float32) for i, n in enumerate(names)
        }
        write_shard(
            tmp_path / f"swap{rank}.onnx",
            [
                *[helper.make_node("Mul", ["x", f"k{n}"], [f"own_{n}"]) for n in names],
                helper.make_node(
                    "NeighborExchange",
                    [f"own_{n}" for n in names],
                    names,
                    domain="rankmesh",
                    name="swap",
                    sends_to=[1 - rank] * 4,
                    receives_from=[1 - rank] * 4,
                ),
            ],
            factors,
            outputs=names,
            shape=shape,
        )
        np.savez(
            tmp_path / f"want{rank}.npz",
            **{f"out_{i}": np.full(shape, (2 - rank) * 10.0 + i, np.float32) for i in range(4)},
        )
    done = rankmesh("run", tmp_path / "swap.onnx", "--expect", tmp_path / "want{rank}.npz")
    assert done.returncode == 0, done.stderr + done.stdout
