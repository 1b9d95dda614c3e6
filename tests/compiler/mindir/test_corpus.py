"""Models that MindSpore exported, against the results that MindSpore computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from encrypted import ENTRIES
from mindir_models import built
from mindir_models import saved as arrays_of
from primitives import run, same

from rankmesh import Context, Model, ModelType
from rankmesh.compiler.element_types.value_types import TensorType, TupleType, ValueType
from rankmesh.compiler.lowering.lower_mindir import lower_mindir
from rankmesh.compiler.mindir.reader import read_model

DATA = Path(__file__).parents[2] / "data" / "mindir"
SAVED = sorted(
    str(path.relative_to(DATA))
    for path in DATA.rglob("*.npz")
    if not path.name.startswith(("dist_", "enc_", "state_"))
)
STATEFUL = sorted(path.name for path in DATA.glob("state_*"))
WITHOUT_REFERENCE = [saved for saved in SAVED if "exportonly" in saved]
SLICED = sorted(path.name for path in DATA.glob("dist_*"))
"""Those that tests/launch/test_run_corpus.py runs."""
# Of the largest element. MindSpore's CPU kernel of Tanh is an approximation: in float64 these
# differ as much.
FLOAT32_TOLERANCE = 5e-6
TANH_OF_MINDSPORE = {"lstm_cell": 5e-5, "tf_gemma": 1e-4, "zoo_nn": 2e-5}


def load(saved: str) -> tuple[Path, dict[str, np.ndarray]]:
    """The model file of saved inputs and outputs, and these."""
    path = DATA / saved
    with np.load(path) as arrays:
        return next(f for f in path.parent.iterdir() if f.suffix == ".mindir"), dict(arrays)


def flat(kind: ValueType) -> list[ValueType]:
    return (
        [leaf for item in kind.items or () for leaf in flat(item)]
        if isinstance(kind, TupleType)
        else [kind]
    )


def test_every_entry_is_tested() -> None:
    folders = {path.parent.relative_to(DATA) for path in DATA.rglob("*.mindir")}
    tested = {Path(saved).parent for saved in SAVED} | set(
        map(Path, [*SLICED, *STATEFUL, *ENTRIES, "old_relu"])
    )
    assert folders == tested


@pytest.mark.parametrize("saved", SAVED)
def test_model_computes_what_mindspore_computed(saved: str) -> None:
    path, arrays = load(saved)
    if saved in WITHOUT_REFERENCE:
        pytest.skip(
            "no reference: MindSpore's CPU backend has no kernel for it. Its types are tested "
            "below."
        )
    context, model = Context(), Model()
    context.cpu.thread_num = 1
    model.build_from_file(str(path), ModelType.MINDIR, context)
    inputs, references = (
        [arrays[f"{kind}_{i}"] for i in range(len(arrays)) if f"{kind}_{i}" in arrays]
        for kind in ("in", "out")
    )
    for output, reference in zip(model.predict(inputs), references, strict=True):
        got = output.get_data_to_numpy()
        same(got, reference)
        if got.dtype == np.float32:
            finite = np.isfinite(reference)
            gap = np.abs(got - reference, where=finite, out=np.zeros_like(got)).max(initial=0)
            largest = np.abs(reference[finite]).max(initial=1e-6)
            assert gap <= TANH_OF_MINDSPORE.get(path.parent.name, FLOAT32_TOLERANCE) * largest


@pytest.mark.parametrize("entry", STATEFUL)
def test_what_one_request_leaves_for_the_next(entry: str) -> None:
    model, other = built(entry), built(entry)
    calls = [dict(np.load(path)) for path in sorted((DATA / entry).glob("*.npz"))]
    for arrays in calls:
        for output, reference in zip(
            model.predict([arrays[f"in_{i}"] for i in range(len(model.get_inputs()))]),
            [arrays[f"out_{i}"] for i in range(len(arrays)) if f"out_{i}" in arrays],
            strict=True,
        ):
            same(output.get_data_to_numpy(), reference)
    first = other.predict([calls[0][f"in_{i}"] for i in range(len(other.get_inputs()))])
    same(first[0].get_data_to_numpy(), calls[0]["out_0"])


@pytest.mark.parametrize("entry", sorted(ENTRIES))
def test_encrypted_model_computes_what_mindspore_computed(entry: str) -> None:
    mode, key = ENTRIES[entry]
    inputs, references = arrays_of(entry)
    results = built(entry, dec_key=key, dec_mode=mode).predict(inputs)
    for got, reference in zip(results, references, strict=True):
        same(got.get_data_to_numpy(), reference)


def test_every_encrypted_entry_has_its_key() -> None:
    assert {path.name for path in DATA.glob("enc_*")} == set(ENTRIES)


@pytest.mark.parametrize("saved", WITHOUT_REFERENCE)
def test_model_without_reference_gives_the_recorded_types(saved: str) -> None:
    path, arrays = load(saved)
    model = read_model(str(path))
    inputs = {value.name: arrays[f"in_{i}"] for i, value in enumerate(model.entry.inputs)}
    results = run(path.parent, lower_mindir(model), inputs)
    assert [TensorType(result.dtype, result.shape) for result in results] == flat(
        model.entry.output_type
    )


def test_file_of_the_old_grammar() -> None:
    model = read_model(str(DATA / "old_relu" / "old_relu.mindir"))
    kind = model.entry.inputs[0].type
    assert isinstance(kind, TensorType) and kind.shape is not None
    x = np.linspace(-1, 1, int(np.prod(kind.shape)), dtype=kind.dtype).reshape(kind.shape)
    (got,) = run(DATA, lower_mindir(model), {model.entry.inputs[0].name: x})
    same(got, np.maximum(x, 0))


def test_what_only_tells_is_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    built("py_print")
    (warning,) = [
        record.getMessage() for record in caplog.records if "left out" in record.getMessage()
    ]
    assert warning.endswith(
        "what only shows, writes or checks values is left out: Assert (1), HistogramSummary (1), "
        "ImageSummary (1), Print (2), ScalarSummary (1), TensorDump (1), TensorSummary (1)."
    )
