"""LiteInfer, against the network itself where mindspore is installed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mindir_models import fails

from rankmesh import LiteInfer


def test_without_mindspore(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "mindspore", None)
    fails(ImportError, "For 'LiteInfer', import mindspore fail.", LiteInfer, None)


@pytest.fixture(scope="module")
def network() -> tuple[Any, Any, Any]:
    """The package, a network of one layer, and an input."""
    mindspore = pytest.importorskip("mindspore", reason="mindspore is not installed")
    mindspore.set_context(mode=mindspore.GRAPH_MODE, device_target="CPU")
    return (
        mindspore,
        mindspore.nn.Dense(4, 3),
        mindspore.Tensor(np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)),
    )


@pytest.mark.parametrize("wrapped", [False, True], ids=["cell", "model"])
def test_it_computes_what_the_network_does(network: tuple[Any, Any, Any], wrapped: bool):
    mindspore, net, x = network
    ready = LiteInfer(
        mindspore.train.Model(net) if wrapped else net, x, config={"common_context": {"a": "b"}}
    )
    assert [tensor.shape for tensor in ready.get_inputs()] == [[2, 4]]
    assert [tensor.shape for tensor in ready.get_outputs()] == [[2, 3]]
    got = ready.predict([x.asnumpy()])[0].get_data_to_numpy()
    np.testing.assert_allclose(got, net(x).asnumpy(), rtol=1e-5, atol=1e-6)
    ready.resize(ready.get_inputs(), [[5, 4]])
    assert ready.predict([np.ones((5, 4), np.float32)])[0].shape == [5, 3]


def test_networks_of_one_group_share_weights(
    network: tuple[Any, Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    _, net, x = network
    first, second, other = (LiteInfer(net, x, model_group_id=number) for number in (1, 1, 2))
    expected = [net(x).asnumpy()] * 3
    for one, want in zip((first, second, other), expected, strict=True):
        np.testing.assert_allclose(
            one.predict([x.asnumpy()])[0].get_data_to_numpy(), want, rtol=1e-5, atol=1e-6
        )
    assert len(list(tmp_path.glob("rankmesh/groups/*"))) == 2
    fails(TypeError, "model_group_id must be int", LiteInfer, net, x, model_group_id="1")


def test_its_arguments(network: tuple[Any, Any, Any]):
    _, net, x = network
    fails(ValueError, "is not ms.train.Model or nn.Cell", LiteInfer, 1, x)
    fails(TypeError, "context must be Context", LiteInfer, net, x, context="cpu")
    fails(TypeError, "config must be dict", LiteInfer, net, x, config=[])
    fails(TypeError, "config_path must be str", LiteInfer, net, x, config={"configPath": 1})
    fails(RuntimeError, "mindspore cannot export Dense for 2 inputs", LiteInfer, net, x, x)
