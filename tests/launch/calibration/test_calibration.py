"""Calibration: constants that explain the times of probes, and a real measurement."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rankmesh.comm.job.shard import find_shards
from rankmesh.compiler.slicing.planning.costs import HostCosts
from rankmesh.compiler.slicing.planning.host_costs import costs_path, keep_costs, plan_costs
from rankmesh.launch.calibration import probes
from rankmesh.launch.calibration.calibrate import calibrate, costs_from, shared_costs


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


START = 1e-3
"""Seconds that every request costs."""


def of_one(costs: HostCosts) -> dict[str, float]:
    """The times of the probes of one rank by these constants."""
    products, convolutions, images = arithmetic(costs)
    copy = costs.call + 12 * probes.COPIED * costs.byte
    return {
        "nothing": START,
        "calls": START + probes.CALLS * costs.call,
        "products": START + probes.PRODUCTS * products,
        "convolutions": START + probes.CONVOLUTIONS * convolutions,
        "images": START + probes.IMAGES * images,
        "copies": START + probes.COPIES * copy,
    }


def arithmetic(costs: HostCosts) -> tuple[float, float, float]:
    """The times of a product, of a convolution, and of one of large images."""
    product = 2 * probes.ROWS * probes.WIDTH**2 * costs.flop
    small = 2 * (probes.CHANNELS * probes.IMAGE) ** 2 * costs.convolved_flop
    large = 2 * (probes.FEW_CHANNELS * probes.LARGE_IMAGE) ** 2 * costs.convolved_flop
    convolution = small * (1 + probes.KERNEL**2) / 2
    return costs.call + product, costs.call + convolution, costs.call + large


def of_several(costs: HostCosts, ranks: int) -> dict[str, float]:
    """The times of the probes of several ranks by these constants."""
    share = 2 * (ranks - 1) / ranks

    def exchange(elements: int) -> float:
        return costs.latency + 4 * elements * share * costs.exchanged_byte

    def exchanges(elements: int) -> float:
        traffic = 12 * elements * costs.byte
        return START + probes.EXCHANGES * (costs.call + traffic + exchange(elements))

    rows, pixels = probes.ROWS * probes.WIDTH, probes.CHANNELS * probes.IMAGE**2
    large = probes.FEW_CHANNELS * probes.LARGE_IMAGE**2
    activation = 3 * costs.call + 8 * large * costs.byte  # with two Reshapes
    layouts = 4 * large * costs.image_byte
    turn = exchange(rows) * probes.PRODUCTS / probes.PRODUCT_TURN
    turns = exchange(pixels) * probes.CONVOLUTIONS / probes.CONVOLUTION_TURN
    found = of_one(costs)
    return {
        **found,
        "products": found["products"] + turn,
        "convolutions": found["convolutions"] + turns,
        "images": found["images"] + probes.IMAGES * (activation + exchange(large) + layouts),
        "works": START,
        "exchanged works": START + probes.EXCHANGES * exchange(probes.WORKED),
        "small": exchanges(probes.SMALL),
        "large": exchanges(probes.LARGE),
    }


@pytest.mark.pure
@pytest.mark.parametrize("ranks", [2, 4])
def test_costs_explain_the_times(ranks: int) -> None:
    costs = HostCosts(20e-6, 1e-10, 2e-11, 3e-11, 5e-11, 1e-6, 4e-10)
    one = costs_from(of_one(costs))
    found = shared_costs(of_several(costs, ranks), ranks, of_one(costs), one)
    for name in ("call", "byte", "flop", "convolved_flop"):
        assert getattr(one, name) == pytest.approx(getattr(costs, name), rel=1e-6)
    for name in HostCosts.__struct_fields__:
        assert getattr(found, name) == pytest.approx(getattr(costs, name), rel=1e-6)


@pytest.mark.pure
def test_several_ranks_compute_no_faster_than_one() -> None:
    one = HostCosts(flop=1e-9, convolved_flop=2e-9)
    found = shared_costs(of_several(HostCosts(), 2), 2, of_one(HostCosts()), one)
    assert (found.flop, found.convolved_flop) == (1e-9, 2e-9)


@pytest.mark.pure
def test_costs_of_noise_are_positive() -> None:
    times = dict.fromkeys(probes.PROBES, 1e-3)
    found = shared_costs(times, 2, times, costs_from(times))
    assert min(msgspec.structs.astuple(found)) > 0


@pytest.mark.pure
def test_costs_are_kept_and_read() -> None:
    assert not plan_costs(2).measured
    two, four = HostCosts(latency=1e-4), HostCosts(latency=2e-4)
    keep_costs({1: HostCosts(), 2: two})
    keep_costs({1: HostCosts(), 4: four})
    assert plan_costs(2).together == two
    assert plan_costs(4).together == four
    assert plan_costs(2).measured and not plan_costs(3).measured


@pytest.mark.pure
@pytest.mark.parametrize("change", ["processor", "infinite", "no JSON"])
def test_costs_that_do_not_fit_are_not_used(change: str) -> None:
    path = Path(keep_costs({1: HostCosts(), 2: HostCosts()}))
    text = path.read_text()
    if change == "processor":
        data = json.loads(text)
        text = json.dumps({**data, "processor": "another"})
    elif change == "infinite":
        text = re.sub('"flop": [^,]*', '"flop": 1e400', text)
    else:
        text = text[:-10]
    path.write_text(text)
    assert not plan_costs(2).measured


@pytest.mark.pure
def test_probes_of_one_rank_do_not_count_the_shards_of_several(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    found = {ranks: probes.write_probe("nothing", ranks, tmp_path) for ranks in (2, 1)}
    assert {ranks: find_shards(pattern).count for ranks, pattern in found.items()} == {2: 2, 1: 1}


def test_calibration_of_this_host(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every probe runs on two ranks, with fewer nodes, and one on one: the others have the same
    nodes there, without the exchanges, and take as long as that one.
    """
    pytest.importorskip("onnx")
    for length in ("PRODUCTS", "CONVOLUTIONS", "IMAGES", "COPIES", "EXCHANGES"):
        monkeypatch.setattr(probes, length, 4)
    start, of_one = subprocess.run, []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        if find_shards(command[4]).count > 1:
            return start(command, **options)
        if not of_one:
            of_one.append(start(command, **options))
        return of_one[0]

    monkeypatch.setattr(subprocess, "run", run)
    found, path = calibrate(2, repeat=1)
    assert set(found) == {1, 2}
    assert path == costs_path()
    assert plan_costs(2).measured
    assert plan_costs(2).together == found[2]
