"""Trial run: a converted model runs once, with inputs of zeros."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...comm.errors import ModelError
from ..api_types.context import Context
from ..api_types.tensor_meta import to_numpy
from .model import Model, ModelType

if TYPE_CHECKING:
    from ...compiler.convert.mindir.encryption import Encryption


def run_once(path: str, encryption: Encryption | None) -> None:
    """Run the model of a file; ModelError where a size of an input is open."""
    import numpy as np

    key, mode = (encryption.key, encryption.mode) if encryption else (None, "AES-GCM")
    model = Model()
    model.build_from_file(path, ModelType.MINDIR, Context(), dec_key=key, dec_mode=mode)
    inputs = model.get_inputs()
    for one in inputs:
        if min(one.shape, default=0) < 0:
            raise ModelError(
                f"{path}: the input '{one.name}' has the open shape {one.shape}: give sizes by "
                "--inputShape or input_shape to run the model once."
            )
        assert one.dtype is not None
        one.set_data_from_numpy(np.zeros(one.shape, to_numpy(one.dtype)))
    model.predict(inputs)
