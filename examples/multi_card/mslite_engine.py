"""A model on one device, built once."""

from collections.abc import Sequence

import mindspore_lite as mslite
import numpy as np


class MSLitePredict:
    """A built model; `run` predicts with it."""

    def __init__(self, model_path: str, device_id: int) -> None:
        context = mslite.Context()
        context.target = ["ascend"]
        context.ascend.device_id = device_id
        self._model = mslite.Model()
        self._model.build_from_file(model_path, mslite.ModelType.MINDIR, context)

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs for these inputs; an array needs the bytes of its input, in any shape."""
        inputs = self._model.get_inputs()
        for tensor, array in zip(inputs, arrays, strict=True):
            tensor.set_data_from_numpy(array)
        return [output.get_data_to_numpy() for output in self._model.predict(inputs)]
