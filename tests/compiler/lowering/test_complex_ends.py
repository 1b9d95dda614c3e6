"""Complex numbers where a model begins and ends."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from primitives import Writer

from rankmesh.comm.errors import ModelError
from rankmesh.compiler.lowering.lower_mindir import lower_mindir
from rankmesh.compiler.mindir.reader import read_model

_ONE, _REAL = np.array([1 + 2j], np.complex64), np.ones(1, np.float32)


@pytest.mark.parametrize(
    ("primitive", "inputs", "message"),
    [
        ("Conj", [_ONE], "input 'x0' is complex64, .* joins them with ops.Complex"),
        (
            "Complex",
            [_REAL, _REAL],
            "result 0 cannot be given out: it is complex; .* ops.Real and ops.Imag of it",
        ),
    ],
)
def test_complex_inputs_and_results_are_refused(
    tmp_path: Path, primitive: str, inputs: list[np.ndarray], message: str
) -> None:
    writer = Writer()
    path = writer.save(tmp_path / "one.mindir", writer.node(primitive, inputs, _ONE), _ONE)
    with pytest.raises(ModelError, match=f"one.mindir: {message}"):
        lower_mindir(read_model(str(path)))
