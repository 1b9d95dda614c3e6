"""Networks of one primitive or few, with MindSpore's results, as tests/oracle/primitives.py records
them.

One .npz per family: `index` (JSON: what was run, and what MindSpore refused), `files` (all MindIR
files, one behind the other) and `outputs` (all results, likewise). Inputs are not stored:
`make_input` makes them anew. Needs numpy alone, as MindSpore's own environment imports it too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parents[1] / "data" / "primitives"
_FLOATS = ("float32", "float16", "bfloat16", "float64")
_INTEGERS = ("int32", "int64", "int8", "int16", "uint8", "uint16", "uint32", "uint64")


@dataclass(frozen=True)
class Case:
    """An expression of the inputs x, y, z, ... and the dtypes in which to run it.

    `inputs` are words `SHAPE[:DTYPE[:VALUES]]`: `2,3`, `4:int64:0..3`, `:T:pos` (a 0-d tensor);
    DTYPE `T` is the one looped over. `dtypes` are letters: f floats, h float16, i integers, b bool,
    c complex64, 1 float32 alone. `cell` is what `m` stands for in the expression. `{T}` becomes the
    dtype. `dynamic`: exported once more with every dimension unknown. `reference` computes the same
    for a primitive that MindSpore exports but has no CPU kernel for.
    """

    expression: str
    inputs: str = "2,3"
    dtypes: str = "fib"
    cell: str = ""
    dynamic: bool = True
    reference: str = ""

    @property
    def name(self) -> str:
        """What tells the case from all others of its family."""
        return f"{self.expression}{f' with m = {self.cell}' if self.cell else ''} of {self.inputs}"

    def loop(self) -> list[str]:
        """The dtypes by name."""
        sets = {
            "f": _FLOATS,
            "h": ("float16",),
            "i": _INTEGERS,
            "b": ("bool",),
            "c": ("complex64",),
            "1": ("float32",),
            "I": ("int32",),
        }
        return [dtype for letter in self.dtypes for dtype in sets[letter]]

    def specs(self, dtype: str) -> list[tuple[tuple[int, ...], str, str]]:
        """(shape, dtype, values) of each input."""
        words = [
            (word.split(":") + ["T", "normal"][max(0, word.count(":")) :])[:3]
            for word in self.inputs.split()
        ]
        return [
            (tuple(int(n) for n in shape.split(",") if n), dtype if kind == "T" else kind, values)
            for shape, kind, values in words
        ]


@dataclass
class Record:
    """One file: a case in all dtypes that MindSpore takes, and where the file and the results lie.

    The network has the case's inputs once per dtype, and gives the results of each dtype, so many
    as `counts` says. In the dtypes `lent` MindSpore exports but does not run: their results are
    those in float32. `stands_in` is what MindSpore ran where it has no kernel at all: the same in
    other words, of which the dtype may differ.
    """

    case: str
    dynamic: bool  # exported with every dimension unknown
    dtypes: list[str]
    inputs: list[Any]  # (shape, dtype, values) each
    lent: list[str] = field(default_factory=list)
    stands_in: str = ""
    counts: list[int] = field(default_factory=list)
    file: tuple[int, int] = (0, 0)
    outputs: list[Any] = field(default_factory=list)  # (dtype, shape, start) each


def make_input(shape: Sequence[int], dtype: str, values: str, position: int) -> np.ndarray:
    """Input number `position`: float32 where the dtype is bfloat16, which represents each of the
    values exactly.
    """
    random = np.random.RandomState(position)  # the one stream that numpy never changes
    count = int(np.prod(shape, dtype=np.int64))
    return (
        _values(random, count, dtype, values)
        .reshape(shape)
        .astype("float32" if dtype == "bfloat16" else dtype)
    )


def _values(random: np.random.RandomState, count: int, dtype: str, values: str) -> np.ndarray:
    if ".." in values:
        low, high = values.split("..")
        return random.randint(int(low), int(high) + 1, count)
    if dtype == "bool":
        return np.ones(count) if values == "pos" else random.randint(0, 2, count)
    low, high = {
        "pos": (1, 255),
        "unit": (-63, 63),
        "one": (64, 191),
        "normal": (-255, 255),
        "sorted": (-255, 255),
        "prob": (1, 63),
        "special": (-255, 255),
    }[values]
    if "int" in dtype:
        low, high = {"pos": (1, 20), "unit": (-1, 1), "one": (1, 3)}.get(values, (-60, 60))
        low = max(0, low) if dtype.startswith("u") else low
    distinct = low + random.permutation(high - low + 1)
    found = np.resize(distinct, count)
    if values == "sorted":
        found = np.sort(found)
    if "int" in dtype:
        return found
    floats = found / 64
    if values == "special":
        floats[:5] = (np.nan, np.inf, -np.inf, -0.0, 0.0)[:count]
    return floats + 1j * random.permutation(floats) if dtype.startswith("complex") else floats


class Family:
    """What was recorded of one family."""

    def __init__(
        self,
        name: str,
        records: Sequence[Record] = (),
        refused: Sequence[Any] = (),
        files: bytes = b"",
        outputs: bytes = b"",
        done: int = 0,
    ) -> None:
        self.name = name
        self.done = done  # how many cases of the list were dealt with
        self.records, self.refused = list(records), list(refused)
        self.files, self.outputs = bytearray(files), bytearray(outputs)

    @classmethod
    def read(cls, name: str) -> Family:
        """The family as it was saved."""
        with np.load(FOLDER / f"{name}.npz") as arrays:
            index = json.loads(arrays["index"].tobytes())
            return cls(
                name,
                [Record(**record) for record in index["records"]],
                index["refused"],
                arrays["files"].tobytes(),
                arrays["outputs"].tobytes(),
                index["done"],
            )

    def add(self, record: Record, file: bytes, outputs: Sequence[tuple[str, np.ndarray]]) -> None:
        """Append a run; an output is its dtype's name and its bytes."""
        record.file = (len(self.files), len(self.files) + len(file))
        self.files += file
        for dtype, array in outputs:
            record.outputs.append((dtype, array.shape, len(self.outputs)))
            self.outputs += array.tobytes()
        self.records.append(record)

    def save(self) -> None:
        """Write the .npz."""
        records = [asdict(record) for record in self.records]
        text = json.dumps({"records": records, "refused": self.refused, "done": self.done}).encode()
        arrays = {"index": text, "files": bytes(self.files), "outputs": bytes(self.outputs)}
        unfinished = FOLDER / f"{self.name}.unfinished"
        with open(unfinished, "wb") as file:
            np.savez_compressed(
                file, **{name: np.frombuffer(value, np.uint8) for name, value in arrays.items()}
            )
        unfinished.rename(FOLDER / f"{self.name}.npz")

    def file(self, record: Record) -> bytes:
        """The MindIR file of a run."""
        return bytes(self.files[slice(*record.file)])

    def results(self, record: Record, named: Any = np.dtype) -> Iterator[np.ndarray]:
        """The outputs of a run; `named` gives the numpy dtype of a name."""
        for dtype, shape, start in record.outputs:
            kind = named(dtype)
            size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
            yield np.frombuffer(bytes(self.outputs[start : start + size]), kind).reshape(shape)


def families() -> list[str]:
    """The names of all recorded families."""
    return sorted(path.stem for path in FOLDER.glob("*.npz"))
