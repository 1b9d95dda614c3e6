"""Weights of several models in one memory, against a plain model of what they should be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from onnx import numpy_helper
from onnx_models import model

from rankmesh.comm.errors import UsageError
from rankmesh.compiler.model_file.loaded_model import LoadedModel
from rankmesh.worker.partition.cut import make_plan
from rankmesh.worker.weights.plan_weights import WeightReader, content_digests
from rankmesh.worker.weights.store import WeightStore
from rankmesh.worker.weights.weight_memory import OwnerEntry, WeightMemory

pytestmark = pytest.mark.pure

PLAN = make_plan(LoadedModel(model([], {"x": [1]}, {"x": [1]}), "m.onnx"), 0, 1)
NAMES, NUMBERS = st.sampled_from("abc"), st.integers(0, 2)
Key = tuple[str, int]
"""A weight's name, and the number that its exported form is full of."""


def admitted(memory: WeightMemory, weights: Mapping[str, int]) -> tuple[WeightStore, OwnerEntry]:
    records = {
        name: numpy_helper.from_array(np.full(4, number, np.float32), name)
        for name, number in weights.items()
    }
    with WeightReader(PLAN, {}) as reader:
        return memory.admit("m.onnx", records, content_digests(records, reader), reader, None)


class Memory(RuleBasedStateMachine):
    """`values` are the numbers that weights are full of now, `before` those before the last
    update."""

    @initialize()
    def start(self) -> None:
        self.memory = WeightMemory()
        self.tenants: list[tuple[Mapping[str, int], WeightStore, OwnerEntry]] = []
        self.values: dict[Key, int] = {}
        self.before: dict[Key, int] | None = None
        self.versions = [0, 0]

    @rule(weights=st.dictionaries(NAMES, NUMBERS))
    def admit(self, weights: dict[str, int]) -> None:
        self.tenants.append((weights, *admitted(self.memory, weights)))
        for key in weights.items():
            self.values.setdefault(key, key[1])
            if self.before is not None:
                self.before.setdefault(key, key[1])

    @precondition(lambda self: self.tenants)
    @rule(data=st.data(), delta=st.booleans())
    def update(self, data: Any, delta: bool) -> None:
        weights, store, _ = data.draw(st.sampled_from(self.tenants))
        new = {name: data.draw(st.integers(3, 99)) for name in weights if data.draw(st.booleans())}
        self.memory.update(
            {store.variables[name]: np.full(4, number, np.float32) for name, number in new.items()},
            delta,
            at_once=True,
        )
        self.before, self.versions = dict(self.values), [self.versions[1], self.versions[1] + 1]
        for name, number in new.items():
            self.values[name, weights[name]] = number + (weights[name] if delta else 0)

    @precondition(lambda self: self.tenants)
    @rule()
    def go_back(self) -> None:
        if self.before is None:
            with pytest.raises(UsageError, match="no version of the weights to go back to"):
                self.memory.rollback(at_once=True)
            return
        self.memory.rollback(at_once=True)
        self.values, self.before, self.versions[1] = self.before, None, self.versions[0]

    @precondition(lambda self: len(self.tenants) > 1)
    @rule(data=st.data())
    def leave(self, data: Any) -> None:
        gone = data.draw(st.sampled_from(self.tenants))
        self.tenants.remove(gone)
        self.memory.leave(gone[2])

    @invariant()
    def all_see_the_same(self) -> None:
        for weights, store, tenant in self.tenants:
            with self.memory.hold(tenant, None) as edition:
                arrays = store.arrays(edition)
            assert {name: set(array) for name, array in arrays.items()} == {
                key[0]: {self.values[key]} for key in weights.items()
            }
        assert self.memory.version == self.versions[1]


Memory.TestCase.settings = settings(max_examples=40, stateful_step_count=15, deadline=None)
TestMemory = Memory.TestCase


def test_equal_contents_lie_in_memory_once() -> None:
    memory = WeightMemory()
    first, _ = admitted(memory, {"a": 1, "b": 2, "c": 1})
    second, _ = admitted(memory, {"a": 1, "b": 3, "d": 2})
    places = {name: first.variables[name].copies[0].ctypes.data for name in "abc"}
    assert (
        len(set(places.values())) == 3
    )  # one model's own weights stay apart: other processes find each by its name
    assert (
        second.variables["a"].copies[0].ctypes.data == places["a"]
        and second.variables["d"].copies[0].ctypes.data == places["b"]
    )
    assert second.variables["b"].copies[0].ctypes.data not in places.values()
    assert (first.variables["a"], memory.are_first(first)) == (second.variables["a"], True)
    assert first.variables["b"] is not second.variables["d"] and not memory.are_first(second)
    third, _ = admitted(memory, {"c": 1, "a": 1, "b": 2})
    assert memory.are_first(third)
