"""The arithmetic of `rankmesh bench`, without a server: schedules, percentiles, shares, reports."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from rankmesh.comm.errors import InputError, UsageError
from rankmesh.comm.serving.tensor_spec import TensorSpec
from rankmesh.launch.bench.advice import advice_of
from rankmesh.launch.bench.arrivals import poisson
from rankmesh.launch.bench.curves import curves, round_up
from rankmesh.launch.bench.figures import LevelFigures, MeasuredTime, figures, quantiles
from rankmesh.launch.bench.inputs import random_inputs, shapes_of
from rankmesh.launch.bench.levels import Level, levels_of
from rankmesh.launch.bench.reference import Reference
from rankmesh.launch.bench.report import (
    FORM,
    BenchReport,
    ratio_lines,
    read_report,
    write_report,
)
from rankmesh.launch.bench.samples import Samples
from rankmesh.launch.bench.table import HEADER, line, row
from rankmesh.launch.bench.targets.observation import Observation, Setup, Shares, TimeSum, shares
from rankmesh.launch.bench.targets.server_address import TlsOptions, address_of, is_address
from rankmesh.launch.bench.targets.statistics import StatisticsMessage, observed
from rankmesh.launch.bench.targets.target import BenchedModel, chosen_model

pytestmark = pytest.mark.pure
NO_TLS = TlsOptions()


def level(**changes: Any) -> LevelFigures:
    found = LevelFigures(
        clients=8,
        rate=None,
        seconds=5.0,
        answered=500,
        throughput=100.0,
        mean=0.08,
        p50=0.07,
        p90=0.1,
        p99=0.2,
        longest=0.3,
        failed={},
        wrong=0,
        shares=Shares(0.6, 0.3),
        processors=0.5,
        idle=1.2,
        generator=0.1,
        lag=None,
    )
    return msgspec.structs.replace(found, **changes)


def report(*levels: LevelFigures, target: str = "http://h:1") -> BenchReport:
    setup = Setup(replicas=1)
    return BenchReport(
        FORM, "0", "2026", target, "REST", "m", setup, 5.0, 1.0, 0, levels, {}, True, ()
    )


def test_arrivals_are_a_poisson_process_that_a_seed_repeats() -> None:
    found = list(poisson(1000.0, 20.0, 7))
    gaps = [after - before for before, after in pairwise(found)]
    assert abs(len(found) - 20_000) < 5 * 20_000**0.5
    assert min(gaps) > 0 and found[-1] < 20.0
    assert abs(np.std(gaps) / np.mean(gaps) - 1) < 0.05  # as of independent arrivals
    assert list(poisson(1000.0, 20.0, 7)) == found
    assert list(poisson(1000.0, 20.0, 8)) != found


def test_quantiles_are_interpolated() -> None:
    assert quantiles([1.0, 2.0, 3.0, 4.0], (0.5, 1.0)) == [2.5, 4.0]
    assert quantiles([], (0.5, 0.9)) == [None, None]


def test_figures_count_answers_of_the_window_and_latencies_of_all(
    reference: Reference,
) -> None:
    samples = Samples(reference)
    for ended, seconds in ((11.0, 0.1), (12.0, 0.3), (14.5, 2.0)):
        samples.ends.append(ended)
        samples.latencies.append(seconds)
    samples.lags.append(0.25)
    before = Observation(TimeSum(10, 1.0), TimeSum(5, 1.0), 1.0, 0.5, 4.0, 100.0)
    after = Observation(TimeSum(13, 1.6), TimeSum(7, 1.8), 3.0, 1.0, 8.0, 102.0)
    found = figures(Level(rate=2.0), samples, MeasuredTime(14.0, 4.0, 1.0, before, after))
    assert found.throughput == 0.5 and found.answered == 3
    assert found.mean == pytest.approx(0.8) and found.longest == 2.0
    assert found.shares == Shares(*map(pytest.approx, (0.25, 0.5, 0.125)))
    assert (found.processors, found.idle, found.generator) == (1.0, 0.5, 0.25)
    assert found.lag == 0.25 and found.late and not found.busy


@pytest.fixture
def reference() -> Reference:
    return Reference(None, {})  # type: ignore[arg-type]  # no answer is compared


def test_shares_of_the_latency_are_of_means() -> None:
    first, last = Observation(), Observation(TimeSum(4, 0.4), TimeSum(2, 0.1))
    assert shares(first, last, 0.2) == Shares(pytest.approx(0.5), pytest.approx(0.25), None)
    assert shares(first, first, 0.2) == Shares()
    assert shares(first, last, None) == Shares()


def test_statistics_of_other_servers_are_read() -> None:
    page = (
        b'{"model_stats":[{"name":"m","inference_stats":{"queue":{"count":3,"ns":3000},'
        b'"compute_infer":{"count":3,"ns":9000},"cache_hit":{"count":0,"ns":0}}},{"name":"m"}]}'
    )
    found = observed(msgspec.json.decode(page, type=StatisticsMessage).model_stats)
    assert found.queue == TimeSum(3, 3e-6) and found.run == TimeSum(3, pytest.approx(9e-6))


@pytest.mark.parametrize(
    ("clients", "rate", "levels"),
    [
        (None, None, [Level(1), Level(2), Level(4), Level(8)]),
        ("3", None, [Level(3)]),
        (None, "0.5, 20", [Level(rate=0.5), Level(rate=20.0)]),
    ],
)
def test_levels(clients: str | None, rate: str | None, levels: list[Level]) -> None:
    assert levels_of(clients, rate) == levels


@pytest.mark.parametrize(
    ("clients", "rate", "told"),
    [
        ("0", None, "--clients 0: expected"),
        ("1,", None, "--clients ''"),
        ("1.5", None, "--clients 1.5"),
        (None, "nan", "--rate nan"),
        (None, "-1", "--rate -1"),
        ("1", "1", "leave one out"),
    ],
)
def test_wrong_levels_are_refused(clients: str | None, rate: str | None, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        levels_of(clients, rate)


def test_random_inputs_follow_the_model_and_the_seed() -> None:
    inputs = (
        TensorSpec("ids", "int64", (-1, 4)),
        TensorSpec("x", "float32", (2, 3)),
        TensorSpec("half", "bfloat16", (2,)),
        TensorSpec("flags", "bool", (5,)),
    )
    model = BenchedModel("m", "", inputs, ())
    found = random_inputs(model, {"ids": (1, 4)}, 3)
    assert {name: (a.dtype.name, a.shape) for name, a in found.items()} == {
        "ids": ("int64", (1, 4)),
        "x": ("float32", (2, 3)),
        "half": ("bfloat16", (2,)),
        "flags": ("bool", (5,)),
    }
    assert set(found["ids"].ravel()) <= {0, 1}
    again = random_inputs(model, {"ids": (1, 4)}, 3)
    assert all(np.array_equal(found[name], again[name]) for name in found)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, r"open shape \[-1, 4\]: give one with --shape ids:1,4"),
        ({"ids": (1, 5)}, r"--shape ids:1,5: the model has \[-1, 4\]"),
        ({"y": (1,)}, "no such input"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(given: Any, told: str) -> None:
    model = BenchedModel("m", "", (TensorSpec("ids", "int64", (-1, 4)),), ())
    with pytest.raises(UsageError, match=told):
        random_inputs(model, given, 0)


def test_shapes_of_options() -> None:
    assert shapes_of(["a:1,2", "b:c:3"]) == {"a": (1, 2), "b:c": (3,)}
    for text in ("a", ":1", "a:", "a:-1", "a:1,x"):
        with pytest.raises(UsageError, match="expected NAME:1,128"):
            shapes_of([text])


def test_addresses_of_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANKMESH_TOKEN", raising=False)
    assert is_address("http://h") and is_address("localhost:8000") and is_address("[::1]:80")
    assert not is_address("model.onnx") and not is_address("models/llama{rank}.onnx")
    found = address_of("https://h", None, TlsOptions("ca.pem"))
    assert (found.host, found.port, found.tls) == ("h", 443, TlsOptions("ca.pem"))
    assert address_of("http://[::1]:8000", None, NO_TLS).name == "[::1]:8000"
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    assert address_of("h:80", str(token), NO_TLS).token == "s3cret"
    monkeypatch.setenv("RANKMESH_TOKEN", "other")
    assert address_of("h:80", None, NO_TLS).token == "other"


@pytest.mark.parametrize(
    "url", ["ftp://h", "http://", "http://h:x", "http://h/v2", "http://h?q", "http://h:99999"]
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(UsageError, match="expected"):
        address_of(url, None, NO_TLS)


def test_files_of_tls_need_https(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="https://"):
        address_of("http://h:1", None, TlsOptions("ca.pem"))
    with pytest.raises(UsageError, match="cannot be used"):
        address_of("https://h:1", None, TlsOptions(str(tmp_path / "no.pem"))).tls_context()


def test_tokens_are_one_line(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a\r\nX-Other: b")
    with pytest.raises(UsageError, match="one token"):
        address_of("h:80", str(token), NO_TLS)


def test_a_model_is_chosen() -> None:
    assert chosen_model(None, ["a"]) == "a" and chosen_model("b", ["a", "b"]) == "b"
    for wanted, names in ((None, ["a", "b"]), (None, []), ("c", ["a"])):
        with pytest.raises(UsageError, match="--model"):
            chosen_model(wanted, names)


def test_rows_have_a_cell_for_each_column() -> None:
    text = row(level(failed={"HTTP 503": 2, "timeout": 1}, generator=0.9))
    assert len(text) == len(line(HEADER))
    assert [*text.split()][:2] == ["8", "clients"] and "90% (!)" in text and " 3 " in text
    empty = level(mean=None, p50=None, p90=None, p99=None, longest=None, shares=Shares())
    assert row(empty).count(" - ") == 8


@pytest.mark.parametrize(
    ("levels", "setup", "told"),
    [
        ([level()], Setup(1), "60% of the latency is in the queue.* try 2 replicas in place of 1"),
        ([level(idle=0.1)], Setup(1), "take a smaller model"),
        ([level(idle=0.1)], Setup(1, batching=False, batchable=True), "batching .* may run"),
        ([level(idle=0.1)], Setup(1, batching=True, batchable=True), "smaller model"),
        ([level(processors=None)], Setup(), "more replicas may help"),
        ([level(shares=Shares(0.1, 0.9))], Setup(1), "10% of the latency .* replicas are enough"),
        ([level(shares=Shares())], Setup(1), "tells nothing of its queue"),
        ([level(generator=0.95)], Setup(1), r"generator was the limit \(95% of a core\)"),
        ([level(rate=9.0, lag=0.02)], Setup(1), "itself was late, by 20 ms"),
        ([level(answered=0, throughput=0.0)], Setup(1), None),
        ([], Setup(1), None),
    ],
)
def test_advice_has_its_figures(levels: list[LevelFigures], setup: Setup, told: str | None) -> None:
    found = " ".join(advice_of(levels, setup))
    assert not found if told is None else re.search(told, found)


def test_the_advice_is_for_the_level_that_saturates() -> None:
    levels = [level(clients=n, throughput=x) for n, x in ((1, 50.0), (2, 98.0), (4, 101.0))]
    assert "At 2 clients, 98.0 requests/s" in " ".join(advice_of(levels, Setup(1)))


def test_reports_are_kept_and_compared(tmp_path: Path) -> None:
    earlier = report(level(throughput=50.0, p99=None), level(clients=4))
    path = str(tmp_path / "r.json")
    write_report(path, earlier)
    assert read_report(path) == earlier
    table = ratio_lines(report(level(), level(clients=1)), read_report(path))
    assert len(table) == 2 and table[1].split() == [
        *("8", "clients", "2.00x", "1.00x", "1.00x", "1.00x"),
        "-",
    ]
    assert "nothing to compare" in ratio_lines(report(level(clients=2)), earlier)[0]


@pytest.mark.parametrize("text", ["", "[]", '{"form": 2}', "\xff", '{"form": 1}'])
def test_other_files_are_no_reports(tmp_path: Path, text: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match="is no report"):
        read_report(str(path))


def test_curves_are_svg_without_anything_from_outside() -> None:
    made = report(level(clients=1), level(p99=None), target="http://h:1/<script>")
    text = curves(made)
    root = ET.fromstring(text)
    assert root.tag.endswith("svg") and "<script" not in text
    lines = root.findall(".//{*}polyline[@stroke-width='2']")
    assert [len(one.get("points", "").split()) for one in lines] == [2, 2, 2, 1]
    assert curves(report(level(mean=None, p50=None, p90=None, p99=None, throughput=0.0)))


def test_axes_end_at_round_numbers() -> None:
    assert [round_up(x) for x in (0.3, 1.0, 2.2, 4.1, 83.0, 999.0)] == [0.4, 1, 2.5, 5, 100, 1000]
