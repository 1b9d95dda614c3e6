"""Records what MindSpore computes for networks of one primitive or few, in every dtype it takes on
a CPU.

Run in MindSpore's own environment (`pip install mindspore`, numpy below 2; pytest does not collect
this file):

    python tests/oracle/primitives.py [--only TEXT] [FAMILY ...]

The cases are the lists in tests/oracle/cases/FAMILY.py. The records go into
tests/data/primitives/FAMILY.npz; tests/compiler/lowering/primitives/test_primitives.py reads them.
--only runs the cases whose expression has TEXT and prints what comes out instead of saving it. A
family takes from one to ten minutes.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("GLOG_v", "4")
sys.path[:0] = [str(Path(__file__).parents[1] / "support")]

import mindspore as ms  # noqa: E402
import numpy as np  # noqa: E402
from recorded import Case, Family, Record, make_input  # noqa: E402

CASES = Path(__file__).parent / "cases"
NAMES = "xyzwvuabcdefgh"
HEAD = """
import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, mint, nn, ops
from mindspore.ops import auto_generate as ag
class Net(nn.Cell):
    def __init__(self):
        super().__init__()
{cells}
    def construct(self, {arguments}):
        return ({calls},)
"""
METHOD = """
    def f{at}(self, {names}):
        m = self.m{at}
        return {expression}
"""


def module(path: Path) -> types.ModuleType:
    """A Python file as a module; MindSpore wants to find the source of what it compiles by the
    module's name.
    """
    name = f"recorded_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    made = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def network(case: Case, dtypes: list[str], folder: Path) -> Any:
    """A new cell that computes the case once per dtype; its weights come from their names."""
    path = folder / f"case_{len(list(folder.iterdir()))}.py"
    path.write_text(source(case, dtypes))
    net = module(path).Net()
    for parameter in net.get_parameters():
        draw = np.random.RandomState(len(parameter.name)).randint(-63, 64, parameter.shape) / 64
        if "var" in parameter.name:
            draw = np.abs(draw) + 0.5
        if "int" not in str(parameter.dtype).lower():
            parameter.set_data(ms.Tensor(draw, parameter.dtype))
    return net.set_train(False)


def source(case: Case, dtypes: list[str]) -> str:
    """The text of that cell, which MindSpore compiles from its source."""
    names = list(NAMES[: len(case.inputs.split())])
    cells, methods, calls, arguments = [], [], [], []
    for at, dtype in enumerate(dtypes):
        word = f"ms.{'bool_' if dtype == 'bool' else dtype}"
        own = [f"{name}{at}" for name in names]
        arguments += own
        calls.append(f"self.f{at}({', '.join(own)})")
        cells.append(f"        self.m{at} = {case.cell or None}".replace("{T}", word))
        methods.append(
            METHOD.format(
                at=at, names=", ".join(names), expression=case.expression.replace("{T}", word)
            )
        )
    head = HEAD.format(
        cells="\n".join(cells), arguments=", ".join(arguments), calls=", ".join(calls)
    )
    return head + "".join(methods)


def tensor(spec: Any, position: int) -> ms.Tensor:
    """One input as a tensor."""
    shape, dtype, values = spec
    return ms.Tensor(
        make_input(shape, dtype, values, position),
        getattr(ms, "bool_" if dtype == "bool" else dtype),
    )


def flat(value: Any) -> list[Any]:
    """The results one by one."""
    return (
        [leaf for item in value for leaf in flat(item)]
        if isinstance(value, (tuple, list))
        else [value]
    )


def stored(value: Any) -> tuple[str, np.ndarray]:
    """A result as its dtype's name and an array of its bytes: bfloat16 is the upper half of
    float32.
    """
    if not isinstance(value, ms.Tensor):
        array = np.asarray(value)
        return array.dtype.name, array
    if value.dtype == ms.bfloat16:
        wide = value.astype(ms.float32).asnumpy()
        return "bfloat16", (wide.view(np.uint32) >> 16).astype(np.uint16)
    return value.asnumpy().dtype.name, value.asnumpy()


def computed(
    case: Case, dtype: str, folder: Path, mode: int
) -> tuple[list[tuple[str, np.ndarray]], str]:
    """The results in one dtype, or why MindSpore does not run it."""
    ms.set_context(mode=mode)
    try:
        stand_in = replace(case, expression=case.reference or case.expression)
        results = network(stand_in, [dtype], folder)(*inputs_of(case, [dtype]))
        return [stored(value) for value in flat(results) if value is not None], ""
    except Exception as error:  # MindSpore raises whatever it likes
        return [], reason(error)


def reason(error: Exception) -> str:
    """The first line that says something."""
    lines = [
        line for line in str(error).splitlines() if line.strip() and not line.startswith("---")
    ]
    return lines[0][:120] if lines else type(error).__name__


def attempts(case: Case, taken: list[str]) -> Iterator[tuple[list[str], list[str]]]:
    """Which dtypes to export, taken and lent: as many as the exporter takes, so fewer and fewer."""
    lent = (
        [dtype for dtype in case.loop() if "float" in dtype and dtype not in taken]
        if "float32" in taken
        else []
    )
    yield taken, lent
    if "bfloat16" in lent:
        yield taken, ["bfloat16"]
    yield taken, []
    if case.reference and "float64" in taken:
        yield (
            [dtype for dtype in taken if dtype != "float64"],
            [dtype for dtype in lent if dtype != "float64"],
        )
        yield ["float32"], []


def export(case: Case, dtypes: list[str], dynamic: bool, folder: Path) -> tuple[bytes, str]:
    """The file of a case, or why MindSpore does not export it."""
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        net, inputs = network(case, dtypes, folder), inputs_of(case, dtypes)
        if dynamic:
            inputs = [
                ms.Tensor(shape=[None] * x.ndim, dtype=x.dtype) if x.ndim else x for x in inputs
            ]
            net.set_inputs(*inputs)
        path = folder / "case.mindir"
        path.unlink(missing_ok=True)
        ms.export(net, *inputs, file_name=str(path), file_format="MINDIR")
        return path.read_bytes(), ""
    except Exception as error:
        return b"", reason(error)


def inputs_of(case: Case, dtypes: list[str]) -> list[ms.Tensor]:
    """The inputs of the network for these dtypes."""
    return [
        tensor(spec, position)
        for dtype in dtypes
        for position, spec in enumerate(case.specs(dtype))
    ]


def run(name: str, only: str) -> None:
    """The cases of a family from where it stands, saved one by one: a kernel of MindSpore's may
    crash.
    """
    family = Family(name) if only else Family.read(name)
    with tempfile.TemporaryDirectory() as folder:
        for case in module(CASES / f"{name}.py").CASES[family.done :]:
            if only in case.expression:
                run_case(family, case, Path(folder))
            family.done += 1
            if not only:
                family.save()
    for made in family.records if only else ():
        print(
            made, list(family.results(made, lambda d: np.dtype("uint16" if d == "bfloat16" else d)))
        )


def whole(name: str) -> None:
    """A family in processes of their own, each going on behind the case that ended the one
    before."""
    cases = module(CASES / f"{name}.py").CASES
    Family(name).save()
    while subprocess.run([sys.executable, __file__, "--child", name]).returncode:
        family = Family.read(name)
        family.refused.append([cases[family.done].name, ["all"], "MindSpore crashes"])
        print(f"{name}: {family.refused[-1]}")
        family.done += 1
        family.save()


def run_case(family: Family, case: Case, folder: Path) -> None:
    """One case in all its dtypes, with known and with unknown dimensions."""
    found = {dtype: computed(case, dtype, folder, ms.PYNATIVE_MODE) for dtype in case.loop()}
    if all(why for _, why in found.values()):
        found["float32"] = computed(case, "float32", folder, ms.GRAPH_MODE)
    results = {dtype: outputs for dtype, (outputs, why) in found.items() if not why}
    refused = {dtype: why for dtype, (_, why) in found.items() if why}
    for dynamic in ((False, True) if case.dynamic else (False,)) if results else ():
        why = record(family, case, results, dynamic, folder)
        refused.update({("unknown dimensions" if dynamic else "export"): why} if why else {})
    if refused:
        family.refused.append([case.name, sorted(refused), next(iter(refused.values()))])
    notes = [
        f"({word}: {refused[word]})" for word in ("export", "unknown dimensions") if word in refused
    ]
    answer = " ".join(results) or "REFUSED " + next(iter(refused.values()))
    print(f"{family.name}: {case.name}: {answer}", *notes, flush=True)


def record(family: Family, case: Case, results: dict[str, Any], dynamic: bool, folder: Path) -> str:
    """Export a case in all float dtypes, those that MindSpore does not run lent; returns why it
    refused, or nothing.
    """
    for taken, lent in attempts(case, list(results)):
        file, why = export(case, [*taken, *lent], dynamic, folder)
        if not why:
            break
    else:
        return why
    outputs = [*(results[dtype] for dtype in taken), *(results["float32"] for _ in lent)]
    specs = [spec for dtype in (*taken, *lent) for spec in case.specs(dtype)]
    made = Record(case.name, dynamic, [*taken, *lent], specs, list(lent), case.reference)
    made.counts = [len(values) for values in outputs]
    family.add(made, file, [value for values in outputs for value in values])
    return ""


def main(arguments: list[str]) -> None:
    if arguments[:1] in (["--only"], ["--child"]):
        ms.set_context(device_target="CPU")
        only = arguments[1] if arguments[0] == "--only" else ""
        for name in arguments[2 if only else 1 :]:
            run(name, only)
    else:
        for name in arguments or sorted(path.stem for path in CASES.glob("*.py")):
            whole(name)


if __name__ == "__main__":
    main(sys.argv[1:])
