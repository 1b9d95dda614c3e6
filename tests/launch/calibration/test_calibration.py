"""Calibration: constants that explain the times of probes, and a real measurement."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rankmesh.comm.job.shard import find_shards
from rankmesh.launch.calibration import probes
from rankmesh.launch.calibration.calibrate import calibrate, costs_from
from rankmesh.worker.slicing.planning.costs import HostCosts
from rankmesh.worker.slicing.planning.host_costs import costs_path, keep_costs, plan_costs


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def predicted(costs: HostCosts, ranks: int) -> dict[str, float]:
    """The times of the probes by the same constants, after 1 ms that every request costs."""
    share = 2 * (ranks - 1) / ranks

    def exchange(elements: int, traffic: float) -> float:
        nbytes = 4 * elements
        each = costs.latency + costs.call + nbytes * share * costs.exchanged_byte + traffic
        return 1e-3 + probes.EXCHANGES * each

    def turn(elements: int, nodes: int) -> float:
        return (costs.latency + 4 * elements * share * costs.exchanged_byte) / nodes

    rows, pixels = probes.ROWS * probes.WIDTH, probes.CHANNELS * probes.IMAGE**2
    product = costs.call + 2 * rows * probes.WIDTH * costs.flop + turn(rows, probes.PRODUCT_TURN)
    small, large = (2 * pixels * probes.CHANNELS * side**2 for side in (1, probes.KERNEL))
    convolved = (
        costs.call
        + (small + large) / 2 * costs.convolved_flop
        + turn(pixels, probes.CONVOLUTION_TURN)
    )
    copy = costs.call + 12 * probes.COPIED * costs.byte
    grown = 12 * (probes.LARGE - probes.SMALL) * costs.byte
    return {
        "nothing": 1e-3,
        "calls": 1e-3 + probes.CALLS * costs.call,
        "products": 1e-3 + probes.PRODUCTS * product,
        "convolutions": 1e-3 + probes.CONVOLUTIONS * convolved,
        "copies": 1e-3 + probes.COPIES * copy,
        "small": exchange(probes.SMALL, 0.0),
        "large": exchange(probes.LARGE, grown),
    }


@pytest.mark.pure
@pytest.mark.parametrize("ranks", [2, 4])
def test_costs_explain_the_times(ranks: int) -> None:
    costs = HostCosts(20e-6, 1e-10, 2e-11, 3e-11, 5e-11, 1e-6)
    found = costs_from(predicted(costs, ranks), ranks)
    assert found.flop == pytest.approx(costs.flop, rel=1e-3)  # so does that of its latency
    assert found.convolved_flop == pytest.approx(costs.convolved_flop, rel=1e-3)
    assert found.byte == pytest.approx(costs.byte)
    assert found.call == pytest.approx(costs.call)
    assert found.latency == pytest.approx(costs.latency, rel=1e-2)  # 1 KiB counts as nothing
    assert found.exchanged_byte == pytest.approx(costs.exchanged_byte, rel=1e-6)


@pytest.mark.pure
def test_costs_of_noise_are_positive() -> None:
    found = costs_from(dict.fromkeys(probes.PROBES, 1e-3), 2)
    assert min(found.latency, found.exchanged_byte, found.flop, found.byte, found.call) > 0


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


def test_calibration_of_this_host(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnx")
    found, path = calibrate(2, repeat=1)
    assert set(found) == {1, 2}
    assert path == costs_path()
    assert plan_costs(2).measured
    assert plan_costs(2).together == found[2]
