"""Models and threads: one model used by many, many models in one process."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from mindir_models import built, file_of, saved
from primitives import same

from rankmesh import Context, InputError, Model, ModelType, Tensor

THREADS = 4


def together(work: Callable[[int], Any], count: int = THREADS) -> list[Any]:
    """What `work` returns for 0 to count - 1, each in a thread of its own; its errors are raised
    here.
    """
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, range(count)))


def outputs(model: Model, inputs: list[np.ndarray] | list[Tensor]) -> list[np.ndarray]:
    return [tensor.get_data_to_numpy() for tensor in model.predict(inputs)]


@pytest.mark.parametrize("name", ["mlp", "lstm", "gpt2", "multi_in_out", "passthrough"])
def test_threads_with_inputs_of_their_own_get_results_of_their_own(name: str):
    """One model; every thread's results are those that it gets when it is alone, bit for bit."""
    model, (inputs, _) = built(name), saved(name)
    mine = [
        [
            np.roll(array, i, axis=0) if array.dtype.kind == "i" else array * (i + 1)
            for array in inputs
        ]
        for i in range(THREADS)
    ]
    alone = [outputs(model, arrays) for arrays in mine]

    def work(i: int) -> None:
        for _ in range(20):
            for got, expected in zip(outputs(model, mine[i]), alone[i], strict=True):
                np.testing.assert_array_equal(got, expected)

    together(work)


def test_threads_with_shapes_of_their_own():
    model, ((x,), _) = built("dyn_mlp"), saved("dyn_mlp")
    mine = [np.repeat(x, i + 1, axis=0) for i in range(THREADS)]
    alone = [outputs(model, [array])[0] for array in mine]

    def work(i: int) -> None:
        for _ in range(20):
            np.testing.assert_array_equal(outputs(model, [mine[i]])[0], alone[i])

    together(work)


def test_a_thread_whose_input_is_wrong_harms_no_other():
    model, ((x,), (reference,)) = built("mlp"), saved("mlp")

    def work(i: int) -> None:
        for _ in range(20):
            if i % 2:
                with pytest.raises(InputError):
                    model.predict([x.astype(np.float64)])
            else:
                same(outputs(model, [x])[0], reference)

    together(work)


def test_models_are_built_and_used_in_threads_at_the_same_time():
    names = ["mlp", "lenet5", "dyn_attn", "fp16_mlp"]

    def work(i: int) -> None:
        for _ in range(3):
            model, (inputs, references) = built(names[i]), saved(names[i])
            for got, reference in zip(outputs(model, inputs), references, strict=True):
                same(got, reference)

    together(work, len(names))


def test_two_models_of_one_file_are_independent():
    """Other shapes of one do not show in the other."""
    first, second = built("mlp"), built("mlp")
    (x,), (reference,) = saved("mlp")
    first.resize(first.get_inputs(), [[2, 16]])
    assert (first.get_inputs()[0].shape, second.get_inputs()[0].shape) == ([2, 16], [4, 16])
    same(outputs(second, [x])[0], reference)
    same(outputs(first, [x[:2]])[0], reference[:2])


def test_resizes_and_predicts_of_threads_take_turns():
    """Whatever shape is chosen when its turn comes, an array of a fitting shape gives its own
    result.
    """
    model, ((x,), _) = built("dyn_mlp"), saved("dyn_mlp")
    rows = len(x)
    reference = outputs(model, [x])[0]

    def work(i: int) -> None:
        for turn in range(10):
            if i == 0:
                model.resize(model.get_inputs(), [[rows + 1 + turn % 2, x.shape[1]]])
            else:
                np.testing.assert_array_equal(outputs(model, [x])[0], reference)

    together(work)


def test_threads_of_a_model_with_several_threads_of_its_own():
    context, model = Context(), Model()
    context.cpu.thread_num = 2
    model.build_from_file(file_of("mobilenetv2"), ModelType.MINDIR, context)
    (x,), (reference,) = saved("mobilenetv2")
    for results in together(lambda _: [outputs(model, [x])[0] for _ in range(3)]):
        for got in results:
            same(got, reference)


def test_models_that_are_gone_leave_nothing_open():
    (x,), _ = saved("split_mlp")
    built("split_mlp").predict([x])  # what a process opens once

    def descriptors() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    before = descriptors()
    for _ in range(10):
        built("split_mlp").predict([x])
    assert descriptors() <= before
