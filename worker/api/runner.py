"""ModelParallelRunner: runs one model in many threads, with one copy of its weights."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...comm.errors import ModelError, UsageError
from ...comm.job.shard import find_shards
from ...comm.loggers import LOG
from ..api_types.arguments import check_elements, check_sequence, check_type
from ..api_types.context import Context, RunnerConfig
from ..api_types.tensor import OutputTensor, Tensor
from ..api_types.tensor_meta import TensorSlot
from ..partition.plan import Plan
from ..session.request_tensors import fill_outputs, input_arrays, shown_shape
from .calls import failing

if TYPE_CHECKING:  # it loads onnxruntime
    from ..runner.workers import WorkerPool

_BUILD, _INIT = "ModelParallelRunner's build from file", "ModelParallelRunner's init"


class ModelParallelRunner:
    """A model that any number of threads may run at the same time.

    Requests go to idle workers, or wait, first come first served; at most 1000 wait, others are
    refused. Inputs of other shapes than the model's are fine. A model with parameters that it
    assigns to keeps them per worker.
    """

    def __init__(self) -> None:
        self._path = ""
        self._plan: Plan | None = None
        self._declared: Sequence[tuple[int, ...]] | None = None
        self._pool: WorkerPool | None = None
        self._clears_outputs = False

    def __str__(self) -> str:
        return f"model_path: {self._path}."

    def __repr__(self) -> str:
        return f"ModelParallelRunner({self._path!r})" if self._pool else "ModelParallelRunner()"

    def build_from_file(self, model_path: str, context: Context | None = None) -> None:
        """Load the model and start its workers as `context.parallel` says; a second time this does
        nothing.

        Raises TypeError, and RuntimeError (its subclasses in comm/errors.py).
        """
        _check_model(_BUILD, model_path)
        context = Context() if context is None else context
        check_type("context", context, Context)
        self._build(_BUILD, model_path, context)

    def init(self, model_path: str, runner_config: RunnerConfig | None = None) -> None:
        """The same, as older scripts ask for it; `predict` then empties and refills the list of its
        outputs.
        """
        _check_model(_INIT, model_path)
        if runner_config is not None:
            check_type("runner_config", runner_config, RunnerConfig)
        self._build(_INIT, model_path, runner_config or RunnerConfig())
        self._clears_outputs = True

    def get_inputs(self) -> list[Tensor]:
        """New tensors for the inputs, in order; -1 where a dimension is open: set `shape`, then the
        data.
        """
        if self._plan is None:
            return []
        shapes = self._declared or [
            shown_shape(signature.type.shape) for signature in self._plan.inputs
        ]
        return [
            Tensor.of_slot(TensorSlot.of(signature.name, signature.type.dtype, shape))
            for signature, shape in zip(self._plan.inputs, shapes, strict=True)
        ]

    def get_outputs(self) -> list[OutputTensor]:
        """The outputs in order, as older scripts ask for them."""
        return (
            [
                OutputTensor(s.name, s.type.dtype, shown_shape(s.type.shape))
                for s in self._plan.outputs
            ]
            if self._plan
            else []
        )

    def predict(
        self, inputs: Sequence[Tensor], outputs: list[Tensor] | None = None
    ) -> list[Tensor]:
        """Run the model once; any thread may, at any time. Results that are not given a tensor get
        a new one.

        Raises TypeError, and RuntimeError where the request fails or 1000 others wait: that harms
        no other request.
        """
        check_sequence("inputs", inputs)
        check_elements("inputs", inputs, Tensor)
        if outputs is not None:
            check_type("outputs", outputs, list)
            check_elements("outputs", outputs, Tensor)
        with failing("predict"):
            if self._pool is None or self._plan is None:
                raise UsageError("the runner is not built: call build_from_file or init first.")
            results = self._pool.run(input_arrays(self._plan.inputs, inputs))
            if self._clears_outputs and outputs:
                outputs.clear()
            return fill_outputs(self._plan.outputs, results, outputs)

    def _build(self, what: str, path: str, given: Context | RunnerConfig) -> None:
        if self._pool is not None:
            LOG.warning(
                "%s: this runner has been built from %s already; nothing is done.", path, self._path
            )
            return
        self._path = path
        with failing(what):
            from ..runner.opening import RunnerOptions, open_programs
            from ..runner.workers import WorkerPool

            programs, layout = open_programs(path, RunnerOptions.of(given))
            pool = WorkerPool(layout, programs)
            pool.start()
        self._plan = programs.plan
        self._declared = programs.declared
        self._pool = pool
        weakref.finalize(self, pool.close)


def _check_model(what: str, path: str) -> None:
    check_type("model_path", path, str)
    try:
        find_shards(path)
    except ModelError as error:
        raise ModelError(f"{what} failed, model_path does not exist! {error}") from error
