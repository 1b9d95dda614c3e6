from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from rankmesh.comm.collectives.registry import ON_ONE_HOST
from rankmesh.launch.rank.job import OutputReport, RankReport
from rankmesh.launch.run.report import print_reports, verdict

pytestmark = pytest.mark.pure

OUTPUT = OutputReport(
    "y", True, "float32", (2, 3), 24, 6, ("1.5", "-2.0", "0.25", "9.0"), True, 0.0, 0.0, ""
)


def output(**changes: Any) -> OutputReport:
    return msgspec.structs.replace(OUTPUT, **changes)


def report(rank: int, *outputs: OutputReport, **more: Any) -> RankReport:
    made = RankReport(rank, f"m{rank}.onnx", outputs, (), (), ON_ONE_HOST, "")
    return msgspec.structs.replace(made, **more)


@dataclass
class Printed:
    """What was printed, and the cells of the table's rows."""

    text: str
    rows: list[list[str]] = field(init=False)

    def __post_init__(self) -> None:
        lines = [line for line in self.text.splitlines() if line.startswith("│")]
        self.rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


def printed(
    capsys: pytest.CaptureFixture[str], *reports: RankReport, expected: bool = True
) -> Printed:
    print_reports(reports, expected)
    return Printed(capsys.readouterr().out)


def test_lines_that_the_documents_promise(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, report(0, output()), report(1, output(name="z")), expected=False).text
    assert text.splitlines() == [
        "rank 0 (m0.onnx)",
        "tensor's name is:y data size is:24 tensor elements num is:6",
        "output data is: 1.5 -2.0 0.25 9.0",
        "rank 1 (m1.onnx)",
        "tensor's name is:z data size is:24 tensor elements num is:6",
        "output data is: 1.5 -2.0 0.25 9.0",
    ]


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    none = output(name="n", has_result=False, compared=False)
    bad = output(max_absolute=0.5, max_relative=0.125, error="relative error 0.12 > 0.0001")
    scalar = output(shape=(), compared=False, first=("7",), dtype="int64")
    shown = printed(capsys, report(0, output(), none), report(1, bad, scalar))
    assert shown.rows == [
        ["0", "y", "2x3", "float32", "1.5 -2 0.25", "0", "0", "ok"],
        ["0", "n", *"------"],
        [
            "1",
            "y",
            "2x3",
            "float32",
            "1.5 -2 0.25",
            "0.5",
            "0.125",
            "differs: relative error 0.12 > 0.0001",
        ],
        ["1", "y", "0-d", "int64", "7", "-", "-", "not compared"],
    ]
    assert "tensor's name is:n has no result on this rank" in shown.text


def test_distances_that_are_no_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    nan = output(
        max_absolute=float("nan"),
        max_relative=float("nan"),
        error="NaN or infinite elements differ",
    )
    other = output(max_absolute=None, max_relative=None, error="has shape [2], the reference [3]")
    reports = [
        msgspec.msgpack.decode(msgspec.msgpack.encode(report(0, nan, other)), type=RankReport)
    ]
    assert [row[5:7] for row in printed(capsys, *reports).rows] == [["nan", "nan"], ["-", "-"]]


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (("1.2345678e-05",), "1.23457e-05"),
        (("1234567890123",), "1.23457e+12"),
        (("True", "False"), "True False"),
        (("nan", "-inf"), "nan -inf"),
        (("(1+2j)",), "(1+2j)"),
        ((), ""),
    ],
)
def test_first_values_keep_their_size(
    capsys: pytest.CaptureFixture[str], values: tuple[str, ...], shown: str
) -> None:
    assert printed(capsys, report(0, output(first=values))).rows[0][4] == shown


@pytest.mark.parametrize("name", ["logits[red]", "[/red]", "[bold]", "a[0]", "[link=x]", "a\\[b]"])
def test_names_are_not_taken_for_markup(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert printed(capsys, report(0, output(name=name))).rows[0][1] == name


def test_notes_come_last(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, report(0, output(), saved="o.npz has rank 0")).text.endswith(
        "note: o.npz has rank 0\n"
    )


def test_latency_is_the_slowest_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    fast = report(
        0, output(), seconds=(0.001, 0.001, 0.001), collective_seconds=(0.0005, 0.0005, 0.0005)
    )
    slow = report(1, output(), seconds=(0.002, 0.004, 0.003), collective_seconds=(0.0, 0.0, 0.0))
    text = printed(capsys, fast, slow, expected=False).text.splitlines()[-1]
    assert text == (
        "latency of 3 requests, slowest rank: median 3.000 ms, p10 2.200 ms, p90 3.800 ms; in "
        "collectives "
        "(shared_memory) 50.0%"
    )


def test_latency_of_one_request(capsys: pytest.CaptureFixture[str]) -> None:
    one = report(0, output(), seconds=(0.002,), collective_seconds=(0.001,))
    assert "median 2.000 ms, p10 2.000 ms, p90 2.000 ms" in printed(capsys, one).text


def test_verdict() -> None:
    good, bad = output(max_relative=2e-6), output(error="not exactly equal")
    silent = output(compared=False, has_result=False)
    assert verdict([report(0, good, silent), report(1, output(max_relative=1e-7))]) == (
        0,
        "OK: 2 outputs of 2 ranks match; largest relative error 2e-06",
    )
    assert verdict([report(0, good), report(1, bad, bad)]) == (
        1,
        "FAILED: 2 of 3 outputs differ; rank 1 y: not exactly equal",
    )
    for nothing in ([report(0)], [report(0, silent), report(1, output(compared=False))]):
        assert verdict(nothing) == (
            1,
            "FAILED: no rank has both a result and a reference, so nothing was compared",
        )
