"""Plans of chains: tensors are connected by their names, and all that does not fit is named."""

from __future__ import annotations

import re

import pytest

from rankmesh import ChainSettings, ModelSettings, OrchestratorSettings, StepSettings, UsageError
from rankmesh.comm.serving.tensor_spec import TensorSpec
from rankmesh.orchestrator.chains.chain_plan import ChainPlan, ChainPlanner, ModelTensors

pytestmark = pytest.mark.pure

Types = dict[str, tuple[str, tuple[int, ...] | None]]
FLOATS = ("float32", (-1, 4))


def tensors(inputs: Types, outputs: Types) -> ModelTensors:
    return ModelTensors(
        tuple(TensorSpec(name, *kind) for name, kind in inputs.items()),
        tuple(TensorSpec(name, *kind) for name, kind in outputs.items()),
    )


MODELS = {
    "tokenize": tensors({"text": ("string", (-1,))}, {"ids": ("int64", (-1, 8))}),
    "bert": tensors({"ids": ("int64", (-1, -1))}, {"logits": FLOATS, "hidden": FLOATS}),
    "softmax": tensors({"logits": FLOATS}, {"p": FLOATS}),
    "join": tensors({"a": FLOATS, "b": FLOATS}, {"both": FLOATS}),
    "echo": tensors({"x": FLOATS}, {"y": FLOATS}),
    "any": tensors({"x": ("float32", None)}, {"y": ("float32", None)}),
    "other": tensors({"logits": ("float32", (-1, 5))}, {"p": FLOATS}),
}


def plan(*steps: StepSettings | str, **settings: tuple[str, ...]) -> ChainPlan:
    chain = ChainSettings("text", steps, **settings)  # type: ignore[arg-type]
    return ChainPlanner(chain, [MODELS[one.model] for one in chain.links]).plan()


def names(specs: tuple[TensorSpec, ...]) -> list[str]:
    return [spec.name for spec in specs]


def test_steps_are_connected_by_equal_names() -> None:
    found = plan("tokenize", "bert", "softmax")
    assert found.inputs == (TensorSpec("text", "string", (-1,)),)
    assert found.outputs == (TensorSpec("p", *FLOATS),)
    assert [step.inputs for step in found.steps] == [
        {"text": "text"},
        {"ids": "ids"},
        {"logits": "logits"},
    ]
    assert found.steps[1].outputs == {"logits": "logits"}  # `hidden` is taken by no step
    assert found.takers["logits"] == (2,)


def test_names_are_changed_step_by_step_and_a_model_may_be_used_twice() -> None:
    found = plan(
        StepSettings("echo", outputs={"y": "once"}),
        StepSettings("echo", {"x": "once"}, {"y": "twice"}),
    )
    assert names(found.inputs) == ["x"]
    assert names(found.outputs) == ["twice"]


def test_an_ensemble_of_any_order_with_a_fork_and_a_join() -> None:
    found = plan(
        StepSettings("join", {"a": "left", "b": "right"}, {"both": "OUT"}),
        StepSettings("echo", {"x": "IN"}, {"y": "left"}),
        StepSettings("any", {"x": "IN"}, {"y": "right"}),
        inputs=("IN",),
        outputs=("OUT", "left"),
    )
    assert found.inputs == (TensorSpec("IN", *FLOATS),)
    assert names(found.outputs) == ["OUT", "left"]
    assert found.takers["IN"] == (1, 2)
    assert found.uses["left"] == 2  # the join, and the caller


@pytest.mark.parametrize(
    ("steps", "settings", "told"),
    [
        (
            ("tokenize", "softmax"),
            {},
            "step 2 ('softmax'): its input 'logits' would get the tensor 'logits', which no step "
            "and no caller gives",
        ),
        (
            ("echo", StepSettings("echo", {"x": "y"})),
            {},
            "step 2 ('echo'): its output 'y' becomes the tensor 'y', which step 1 ('echo') gives "
            "already",
        ),
        (
            ("echo", StepSettings("echo", {"x": "y"}, {"y": "x"})),
            {"inputs": ("x",)},
            "step 2 ('echo'): its output 'y' becomes the tensor 'x', which the caller gives",
        ),
        (
            (StepSettings("echo", {"x": "b"}, {"y": "a"}), StepSettings("echo", {"x": "a"})),
            {"inputs": ()},
            "step 1 ('echo'): its input 'x' would get the tensor 'b'",
        ),
        (
            (
                StepSettings("echo", {"x": "b"}, {"y": "a"}),
                StepSettings("echo", {"x": "a"}, {"y": "b"}),
            ),
            {},
            "its steps wait for each other: step 1 ('echo') for 'b', step 2 ('echo') for 'a'.",
        ),
        ((StepSettings("echo", {"X": "x"}),), {}, "the model has no input 'X', but ['x']"),
        ((StepSettings("echo", None, {"Y": "y"}),), {}, "the model has no output 'Y', but ['y']"),
        (("echo",), {"outputs": ("z",)}, "no step gives its output 'z'; they give ['y']"),
        (("echo",), {"inputs": ("x", "z")}, "no step takes its input 'z'"),
        (
            ("bert", "other"),
            {},
            "step 2 ('other'): its input 'logits' is float32 of shape [-1, 5], and the tensor "
            "'logits' is float32 of shape [-1, 4].",
        ),
        (
            ("bert", StepSettings("join", {"a": "logits", "b": "ids"})),
            {},
            "step 2 ('join'): its input 'b' is float32 of shape [-1, 4], and the tensor 'ids' is "
            "int64 of shape [-1, -1].",
        ),
    ],
)
def test_what_does_not_fit_is_named_with_its_step(
    steps: tuple[StepSettings | str, ...], settings: dict[str, tuple[str, ...]], told: str
) -> None:
    with pytest.raises(UsageError, match=r"^chain 'text'") as error:
        plan(*steps, **settings)
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("chains", "told"),
    [
        ({"text": ("echo", "bert")}, "step 2 of the chain 'text' is 'bert', expected one of"),
        ({"a": ("b",), "b": ("echo", "a")}, "a chain contains itself: a -> b -> a."),
        ({"a": ()}, "steps: got none"),
    ],
)
def test_chains_of_unknown_models_and_of_themselves_are_refused(
    chains: dict[str, tuple[str, ...]], told: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(told)):
        OrchestratorSettings(
            models=(ModelSettings("echo.onnx"), *(ChainSettings(*one) for one in chains.items()))
        )


BERT = {"ids": ("int64", (-1, -1))}
TEXT = {"text": ("string", (-1,))}


@pytest.mark.parametrize(
    ("model", "later", "text"),
    [
        ("softmax", tensors({"logits": FLOATS}, {"q": FLOATS}), r"outputs are \['p'\], .* \['q'\]"),
        ("softmax", tensors({"logits": FLOATS}, {"p": FLOATS, "q": FLOATS}), r"\['p', 'q'\]"),
        ("bert", tensors(BERT | TEXT, {"logits": FLOATS}), r"inputs are \['ids'\], .* 'text'\]"),
        ("softmax", tensors({"logits": FLOATS}, {"p": ("float32", (5,))}), "'p' is .* would be"),
    ],
)
def test_other_tensors_of_a_new_version_are_refused(
    model: str, later: ModelTensors, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = plan("tokenize", "bert", "softmax")
    before.require_kept("text", plan("tokenize", "bert", "softmax"))
    monkeypatch.setitem(MODELS, model, later)
    with pytest.raises(UsageError, match=f"^chain 'text'.*{text}"):
        before.require_kept("text", plan("tokenize", "bert", "softmax"))
