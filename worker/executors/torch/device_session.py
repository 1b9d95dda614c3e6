"""Device session: runs onnxruntime between tensors of a device, in the order of torch's work there.

onnxruntime's provider computes in a stream that torch has made (`user_compute_stream`), which the
collectives of torch.distributed use too. So neither waits for the other, nor for the host.
https://onnxruntime.ai/docs/execution-providers/CUDA-ExecutionProvider.html
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import onnxruntime as ort
import torch

from ....comm.errors import RankFailed
from ...partition.plan import Segment
from ..base import Operand
from ..prepared_segment import PreparedSegment, session_error
from ..views import OutputView
from .device_queue import TorchQueue
from .device_run import DeviceRuns
from .device_weights import DeviceWeights
from .tensors import element_type, foreign_tensor, torch_dtype


class SharedStream:
    """See DeviceStream: a stream that torch has made."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        there = {} if device.type == "cpu" else {"device": device}
        self.stream = torch.get_device_module(device).Stream(**there)

    @property
    def options(self) -> dict[str, str]:
        """The options of a provider that computes in this stream; a CPU has none."""
        if self.device.type == "cpu":
            return {}
        return {"user_compute_stream": str(self.stream.cuda_stream)}

    def queue(self) -> DeviceRuns:
        """The work in this stream. onnxruntime's is not captured: it takes memory as it runs."""
        return DeviceRuns(TorchQueue(self.device, stream=self.stream, captures=False))

    def prepared(
        self, session: Any, segment: Segment, views: Mapping[str, OutputView]
    ) -> DeviceSession:
        """A session of a provider with these options, as a segment."""
        return DeviceSession(session, segment, views, self.device)


def open_stream(number: int) -> SharedStream | None:
    """A stream of an NVIDIA GPU; None where torch finds none."""
    return SharedStream(torch.device("cuda", number)) if torch.cuda.is_available() else None


class DeviceSession(PreparedSegment):
    """See DeviceRunnable: a session whose inputs and results may be tensors of its device."""

    def __init__(
        self, session: Any, segment: Segment, views: Mapping[str, OutputView], device: torch.device
    ) -> None:
        super().__init__(session, segment, device.type != "cpu", views)
        self._device = device
        self._weights = DeviceWeights(device)
        self._options = ort.RunOptions()
        self._options.add_run_config_entry("disable_synchronize_execution_providers", "1")

    def twin(self) -> DeviceSession:
        """See Shareable.twin."""
        return DeviceSession(self._session, self._segment, self._views, self._device)

    def compute(self, inputs: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """See DeviceRunnable.compute. Raises RankFailed, OutOfMemory."""
        binding, place = self._session.io_binding(), (self._device.type, self._device.index or 0)
        given = [one.contiguous() for one in inputs]
        for name, one in zip(self._inputs, given, strict=True):
            binding.bind_input(name, *place, element_type(one), list(one.shape), one.data_ptr())
        for name in self._outputs:
            view = self._views.get(name)
            binding.bind_output(view.matrix if view else name, *place)
        try:
            self._session.run_with_iobinding(binding, self._options)
        except Exception as error:  # onnxruntime's own classes share no base but Exception
            what = f"onnxruntime failed in the segment that ends in {self._outputs[0]}"
            raise session_error(RankFailed, what, error) from error
        return [
            self._tensor(name, value)
            for name, value in zip(self._outputs, binding.get_outputs(), strict=True)
        ]

    def revision(self) -> Hashable:
        """See DeviceRunnable.revision: all weights are in the session."""
        return None

    def placed(self, weights: Sequence[Operand]) -> tuple[Hashable, Sequence[torch.Tensor]]:
        """See DeviceRunnable.placed."""
        return self._weights.placed(weights)

    def _tensor(self, name: str, value: Any) -> torch.Tensor:
        """A result where it is, which keeps the memory."""
        made = foreign_tensor(
            value,
            value.data_ptr(),
            torch_dtype(value.element_type()),
            value.shape(),
            self._device,
        )
        view = self._views.get(name)
        return made.view(view.shape) if view else made
