"""Files that a configuration names, and weights for an update: what is no regular file is refused
at once.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
from hostile import special_file
from onnx import save
from onnx_models import model, node

from rankmesh import Context, Model, ModelType, RankmeshError, RankTable, RankTableFault
from rankmesh.comm.errors import InputError
from rankmesh.worker.weights.updates.files import read_weights

pytestmark = pytest.mark.pure

SPECIAL = ("pipe", "endless", "folder", "socket")


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("key", ["group_info_file", "rank_table_file", "variable_weights_file"])
def test_files_of_a_configuration(tmp_path: Path, key: str, kind: str) -> None:
    path, context = special_file(tmp_path, kind), Context()
    context.target = ["cpu"]
    save(model([node("Neg", "x", "y")], {"x": [4]}, {"y": [4]}), str(tmp_path / "m.onnx"))
    with pytest.raises(RankmeshError, match=f"{path}.* cannot be read") as caught:
        Model().build_from_file(
            str(tmp_path / "m.onnx"),
            ModelType.MINDIR,
            context,
            "",
            {"ascend_context": {key: str(path)}},
        )
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("kind", SPECIAL)
def test_a_rank_table(tmp_path: Path, kind: str) -> None:
    with pytest.raises(RankTableFault, match=r"special: cannot be read: "):
        RankTable.read(special_file(tmp_path, kind))


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("suffix", ["npz", "safetensors", "mindir"])
def test_weights(tmp_path: Path, suffix: str, kind: str) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        read_weights(str(special_file(tmp_path, kind, f"w.{suffix}")))


def test_weights_that_expand_a_thousandfold(tmp_path: Path) -> None:
    """Thirty arrays, none of which is too large by itself."""
    content = zeros_file(40 << 20)
    with zipfile.ZipFile(tmp_path / "w.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for number in range(30):
            archive.writestr(f"w{number}.npy", content)
    with pytest.raises(InputError, match=r"would expand from \d+ to 12\d+ bytes: refused"):
        read_weights(str(tmp_path / "w.npz"))


def zeros_file(size: int) -> bytes:
    """An array of so many bytes of zeros, as numpy.save writes it."""
    header = (
        f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({size},), }}".encode().ljust(117)
        + b"\n"
    )
    return np.lib.format.magic(1, 0) + len(header).to_bytes(2, "little") + header + bytes(size)


def test_compressed_weights_of_zeros(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "w.npz", w=np.zeros((1 << 12, 1 << 12), np.float32))
    assert read_weights(str(tmp_path / "w.npz"))["w"].shape == (1 << 12, 1 << 12)


@pytest.mark.parametrize(
    "shape", ["(1099511627776,)", "(-1,)", "(1,) * 99999999", "[" * 3000, "('a',)"]
)
def test_headers_of_arrays_that_lie(tmp_path: Path, shape: str) -> None:
    """Nothing is made of what they say."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode() + b"\n"
    content = np.lib.format.magic(1, 0) + len(header).to_bytes(2, "little") + header + bytes(8)
    with zipfile.ZipFile(tmp_path / "w.npz", "w") as archive:
        archive.writestr("w.npy", content)
    with pytest.raises(InputError, match=r"w\.npz: "):
        read_weights(str(tmp_path / "w.npz"))
