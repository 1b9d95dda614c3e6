"""Inputs with a default: a request may give them, and what it leaves out has the default."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from onnx_models import loaded, model, node
from processes import rankmesh as command
from served_http import binary, serving

import rankmesh
from rankmesh.comm.errors import InputError
from rankmesh.compiler.model_file.normal_form.normal_form import normalise
from rankmesh.worker.partition.cut import make_plan

X = np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)
FIVE = np.array(5, np.float32)
CASES: list[dict[str, np.ndarray]] = [{"x": X}, {"x": X, "scale": FIVE}]


def listed(ir_version: int = 10, large: int = 0, first: bool = False) -> onnx.ModelProto:
    """y [n, 64] = relu(x w1) w2 * scale, which is 3 where it is not given; the inputs list weights
    of `large` rows too.
    """
    rng = np.random.default_rng(1)
    constants = {
        "w1": rng.standard_normal((64, 128), np.float32),
        "w2": rng.standard_normal((128, 64), np.float32),
        "scale": np.array(3, np.float32),
    }
    nodes = [
        node("MatMul", "x w1", "h"),
        node("Relu", "h", "a"),
        node("MatMul", "a w2", "z"),
        node("Mul", "z scale", "y"),
    ]
    inputs = {"scale": [], "x": ["n", 64]} if first else {"x": ["n", 64], "scale": []}
    if large:
        constants["w3"] = np.zeros((large, 64), np.float32)
        nodes[3:] = [node("Add", "z w3", "b"), node("Mul", "b scale", "y")]
        inputs["w3"] = [large, 64]
    made = model(nodes, inputs, {"y": ["n", 64]}, constants=constants)
    made.ir_version = ir_version
    return made


@pytest.fixture(params=[False, True], ids=["behind", "before"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The model, whose optional input is listed behind the other or before it."""
    onnx.save(listed(first=request.param), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def right(path: Path, given: Mapping[str, np.ndarray]) -> np.ndarray:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, dict(given))[0])


def close(found: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)


def built(path: Path) -> rankmesh.Model:
    made, context = rankmesh.Model(), rankmesh.Context()
    context.cpu.thread_num = 1
    made.build_from_file(str(path), rankmesh.ModelType.MINDIR, context)
    return made


@pytest.mark.parametrize("executor", ["", "torch"])
def test_a_model_has_optional_inputs_behind_the_others(
    path: Path, executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if executor:
        monkeypatch.setenv("RANKMESH_EXECUTOR", executor)
    made = built(path)
    assert [one.name for one in made.get_inputs()] == ["x", "scale"]
    close(made.predict([X])[0].get_data_to_numpy(), right(path, CASES[0]))
    close(made.predict([X, FIVE])[0].get_data_to_numpy(), right(path, CASES[1]))
    for given in CASES:
        made.resize(made.get_inputs(), [[3, 64], []])
        fresh = made.get_inputs()
        for one in fresh:
            if one.name in given:
                one.set_data_from_numpy(given[one.name])
        close(made.predict(fresh)[0].get_data_to_numpy(), right(path, given))
    with pytest.raises(InputError, match="model input len:2 not equal input len:0"):
        made.predict([])


def test_an_orchestrator_takes_requests_with_it_and_without(path: Path) -> None:
    with rankmesh.Orchestrator(str(path), cache=False) as living:
        for given in CASES:
            close(living.predict(given)["y"], right(path, given))
        close(living.predict(X)["y"], right(path, CASES[0]))
        close(living.predict(X, FIVE)["y"], right(path, CASES[1]))
        with living.buffers(x=(3, 64)) as buffers:
            buffers["x"][...] = X
            close(living.predict(buffers)["y"], right(path, CASES[0]))
            buffers["scale"][...] = 5
            close(living.predict(buffers)["y"], right(path, CASES[1]))
        with pytest.raises(InputError, match=r"expected \['x'\], and optionally \['scale'\]"):
            living.predict({"scale": FIVE})
        with pytest.raises(InputError, match="expected"):
            living.predict({"x": X, "other": FIVE})


def test_a_server_takes_them(path: Path) -> None:
    """More than once each, as the server prepares what repeats."""
    with serving(str(path)) as server:
        told = json.loads(server.get("/v2/models/model/config").body)["input"]
        assert [(one["name"], one.get("optional")) for one in told] == [
            ("x", None),
            ("scale", True),
        ]
        for given in CASES * 3:
            document = {
                "inputs": [binary(name, array) for name, array in given.items()],
                "parameters": {"binary_data_output": True},
            }
            data = b"".join(array.tobytes() for array in given.values())
            reply = server.post("/v2/models/model/infer", document, data)
            assert reply.status == 200, reply.body
            size = int(reply.headers["inference-header-content-length"])
            found = np.frombuffer(reply.body[size:], np.float32).reshape(3, 64)
            close(found, right(path, given))


def runs(pattern: Path, folder: Path, given: Mapping[str, np.ndarray]) -> np.ndarray:
    """The output of `rankmesh run`."""
    np.savez(folder / "in.npz", **given)
    saved = folder / "out.npz"
    done = command("run", pattern, "--inputs", folder / "in.npz", "--save", saved)
    assert done.returncode == 0, done.stderr
    with np.load(saved) as file:
        return np.asarray(file["out_0"] if "out_0" in file.files else file["y"])


def test_commands_obey_it(path: Path, tmp_path: Path) -> None:
    """A MindIR has no optional inputs: there it has to be given."""
    done = command("slice", path, "--ranks", 2, "-o", tmp_path / "shards")
    assert done.returncode == 0, done.stderr
    target = tmp_path / "new"
    done = command("convert", "--fmk=ONNX", f"--modelFile={path}", f"--outputFile={target}")
    assert done.returncode == 0, done.stderr
    for given in CASES:
        for pattern in (path, tmp_path / "shards" / "model_rank{rank}.onnx"):
            close(runs(pattern, tmp_path, given), right(path, given))
    close(runs(target.with_suffix(".mindir"), tmp_path, CASES[1]), right(path, CASES[1]))


def test_a_model_of_fixed_sizes_is_resized(tmp_path: Path) -> None:
    """The shape of the optional input is among those that a resize gives."""
    made = listed(first=True)
    made.graph.input[1].CopyFrom(
        helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 64])
    )
    del made.graph.output[0].type.tensor_type.shape.dim[:]
    for size in (1, 64):
        made.graph.output[0].type.tensor_type.shape.dim.add(dim_value=size)
    onnx.save(made, tmp_path / "fixed.onnx")
    resized = built(tmp_path / "fixed.onnx")
    resized.resize(resized.get_inputs(), [[3, 64], []])
    onnx.save(listed(), tmp_path / "open.onnx")
    for given in CASES:
        found = resized.predict(list(given.values()))
        close(found[0].get_data_to_numpy(), right(tmp_path / "open.onnx", given))


@pytest.mark.pure
@pytest.mark.parametrize(
    ("made", "optional"),
    [(listed(), ["scale"]), (listed(3), []), (listed(large=300), []), (listed(large=3), None)],
)
def test_weights_that_a_file_lists_are_no_inputs(
    made: onnx.ModelProto, optional: list[str] | None
) -> None:
    """Files before version 4 list all, and some exporters do."""
    ready = loaded([])
    ready.model.CopyFrom(made)
    normalise(ready.model, "m.onnx")
    plan = make_plan(ready, 0, 1)
    found = [one.name for one in plan.inputs if one.default is not None]
    assert found == (["scale", "w3"] if optional is None else optional)


@pytest.mark.pure
def test_a_default_of_another_type_or_shape_stays_a_weight() -> None:
    ready = loaded([])
    ready.model.CopyFrom(listed())
    info = next(one for one in ready.model.graph.input if one.name == "scale")
    info.CopyFrom(helper.make_tensor_value_info("scale", onnx.TensorProto.FLOAT, [2]))
    assert [one.name for one in make_plan(ready, 0, 1).inputs] == ["x"]
