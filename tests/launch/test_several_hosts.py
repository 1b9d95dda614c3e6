"""Ranks on two hosts, which are network namespaces: what they compute, who is named when something
goes wrong.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hosts import Host, RunningOn, TwoHosts, why_not
from onnx import helper
from processes import COMMAND, rankmesh
from shards import all_reduce, summing, with_a_busy_rank, write_shard

pytestmark = [
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]

AT_ONCE = 40.0
"""Seconds until both hosts have ended after a failure that one of them sees; most of it is for a
busy machine.
"""

SILENCE = 50.0
"""The same after a host falls silent, or a rank is stopped."""

SCRIPT = """
    import argparse
    import numpy as np
    import rankmesh as mslite
    options = argparse.ArgumentParser()
    options.add_argument("--model")
    options.add_argument("--config", default="")
    options.add_argument("--rank", type=int, default=0)
    options.add_argument("--then", default="")
    options = options.parse_args()
    context = mslite.Context()
    context.target = ["ascend"]
    context.ascend.rank_id = options.rank
    model = mslite.Model()
    model.build_from_file(options.model, mslite.ModelType.MINDIR, context, config_path=options.config)
    inputs = model.get_inputs()
    inputs[0].set_data_from_numpy(np.ones(4, np.float32))
    print("the sum is", model.predict(inputs)[0].get_data_to_numpy()[0], flush=True)
    if options.then == "fail":
        raise ValueError("this rank has had enough")
    if options.then == "wait":
        model.predict(inputs)
"""  # noqa: E501


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoHosts]:
    with TwoHosts(tmp_path_factory.mktemp("hosts")) as both:
        yield both


@pytest.fixture
def key_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "key"
    assert rankmesh("key", "make", path).returncode == 0
    monkeypatch.setenv("RANKMESH_KEY_FILE", str(path))
    return path


def ends(*processes: subprocess.Popen[str]) -> list[tuple[int, str, str]]:
    """Exit status, standard output and error of each."""
    try:
        texts = [process.communicate(timeout=80) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return [(process.returncode, *text) for process, text in zip(processes, texts, strict=True)]


def test_ranks_compute_what_they_should(hosts: TwoHosts, key_file: Path, tmp_path: Path) -> None:
    """With two ranks on each host; other tests compute with one."""
    each = 2
    model, table = in_groups(tmp_path, 2 * each), hosts.rank_table(tmp_path / "table.json", each)
    one, two = ends(
        *(
            host.start(
                *COMMAND,
                "run",
                model,
                "--rank-table",
                table,
                "--inputs",
                tmp_path / "in{rank}.npz",
                "--expect",
                tmp_path / "out{rank}.npz",
                "--atol",
                0,
                "-v",
            )
            for host in hosts.both
        )
    )
    assert one[0] == two[0] == 0, one[2] + two[2]
    assert f"OK: {2 * each} outputs of {2 * each} ranks match" in one[1] and not two[1]
    assert "collectives hierarchical (the ranks are on several hosts)" in one[2]


def in_groups(folder: Path, ranks: int) -> str:
    """Sums of all ranks, then of groups with members on both hosts; inputs and results beside
    them."""
    x = np.random.default_rng(ranks).integers(-8, 8, (ranks, 4)).astype(np.float32)
    for rank in range(ranks):
        group = [r for r in range(ranks) if r % 2 == rank % 2] if ranks > 2 else [0, 1]
        write_shard(
            folder / f"groups{rank}.onnx",
            [
                all_reduce("x", "a"),
                helper.make_node("Add", ["a", "x"], ["b"]),
                helper.make_node(
                    "AllReduce",
                    ["b"],
                    ["y"],
                    name="halves",
                    domain="rankmesh",
                    group=f"half{rank % 2}",
                    ranks=group,
                ),
            ],
        )
        np.savez(folder / f"in{rank}.npz", x=x[rank])
        np.savez(folder / f"out{rank}.npz", out_0=len(group) * x.sum(axis=0) + x[group].sum(axis=0))
    return str(folder / "groups{rank}.onnx")


def busy(hosts: TwoHosts, folder: Path) -> tuple[RunningOn, RunningOn]:
    """Runs of two ranks, of which rank 1 computes while rank 0 waits for it."""
    model, table = with_a_busy_rank(folder, 2), hosts.rank_table(folder / "table.json", 1)
    one, two = (RunningOn(host, model, "--rank-table", table) for host in hosts.both)
    return one, two


def test_killed_rank_is_named_on_both_hosts(
    hosts: TwoHosts, key_file: Path, tmp_path: Path
) -> None:
    one, two = busy(hosts, tmp_path)
    with one, two:
        one.wait_inside_collective(0)
        two.rank(1).kill()
        began = time.monotonic()
        errors = [run.end() for run in (one, two)]
    assert time.monotonic() - began < AT_ONCE
    for status, text in errors:
        assert status == 4 and "rank 1" in text
        first_seen = (
            "was killed by SIGKILL",
            "whose process has ended",
            "is gone",
            "died: it was",
        )  # by any of them
        assert any(said in text for said in first_seen), text


def test_rank_0_that_is_killed_is_named_on_both_hosts(
    hosts: TwoHosts, key_file: Path, tmp_path: Path
) -> None:
    one, two = busy(hosts, tmp_path)
    with one, two:
        one.wait_inside_collective(0)
        one.rank(0).kill()
        began = time.monotonic()
        (_, here), (status, there) = one.end(), two.end()
    assert time.monotonic() - began < AT_ONCE
    assert "rank 0 of 2 on one" in here and "was killed by SIGKILL" in here
    assert status == 4 and "rank 0 of 2 (one, process " in there and "is gone" in there


@pytest.mark.slow
def test_host_without_a_network_is_named(hosts: TwoHosts, key_file: Path, tmp_path: Path) -> None:
    one, two = busy(hosts, tmp_path)
    with one, two:
        one.wait_inside_collective(0)
        hosts.two.set_cable("down")
        began = time.monotonic()
        try:
            (here, one_said), (there, two_said) = one.end(), two.end()
        finally:
            hosts.two.set_cable("up")
    assert time.monotonic() - began < SILENCE
    assert here == there == 4
    assert (
        "rank 1 of 2 (two, process " in one_said
        and "its host or the network to it is down" in one_said
    )
    assert "rank 0 of 2 (one, process " in two_said


@pytest.mark.slow
def test_stopped_rank_is_named(hosts: TwoHosts, key_file: Path, tmp_path: Path) -> None:
    one, two = busy(hosts, tmp_path)
    with one, two:
        one.wait_inside_collective(0)
        two.rank(1).suspend()
        began = time.monotonic()
        (here, one_said), (there, two_said) = one.end(), two.end()
    assert time.monotonic() - began < SILENCE
    assert here == there == 4
    assert (
        "rank 1 of 2 (two, process " in one_said
        and "rank 1 of 2 on two" in two_said
        and "is stopped" in two_said
    )


@pytest.mark.slow
def test_other_keys_and_a_second_job(hosts: TwoHosts, key_file: Path, tmp_path: Path) -> None:
    model, table = summing(tmp_path), hosts.rank_table(tmp_path / "table.json", 1)
    other = tmp_path / "other"
    assert rankmesh("key", "make", other).returncode == 0
    arguments = [*COMMAND, "run", model, "--rank-table", table]
    first = hosts.one.start(*arguments, RANKMESH_COLLECTIVE_TIMEOUT="20")
    ((status, _, errors),) = ends(hosts.two.start(*arguments, RANKMESH_KEY_FILE=str(other)))
    assert (
        status == 2
        and "rank 1 of 2 on two: rank 0 at 10.77.0.1:29410 does not take our keys" in errors
    )
    ((status, _, errors),) = ends(hosts.one.start(*arguments))
    assert (
        status == 2
        and "rank 0 of 2 (one, process " in errors
        and "of this job runs already" in errors
    )
    ((status, _, errors),) = ends(first)
    assert status == 4 and "rank 1 never came (expected on 10.77.0.2)" in errors
    assert "without this key file's keys ended" in errors


def script(folder: Path) -> Path:
    path = folder / "main.py"
    path.write_text(textwrap.dedent(SCRIPT))
    return path


def test_launched_script_that_raises_is_named_on_both_hosts(
    hosts: TwoHosts, key_file: Path, tmp_path: Path
) -> None:
    table = hosts.rank_table(tmp_path / "table.json", 1)
    arguments = [
        *COMMAND,
        "launch",
        "--rank-table",
        table,
        "--log-dir",
        tmp_path,
        script(tmp_path),
        "--model",
        summing(tmp_path),
        "--rank",
        "{rank}",
        "--then",
    ]
    one, two = ends(hosts.one.start(*arguments, "wait"), hosts.two.start(*arguments, "fail"))
    assert "[rank 0] the sum is 4.0" in one[1] and "[rank 1] the sum is 4.0" in two[1]
    assert (
        one[0] == 4 and "rank 1 of 2 on two raised ValueError: this rank has had enough" in one[2]
    )
    assert two[0] == 1 and "rank 1 of 2 on two (pid" in two[2] and "exited with status 1" in two[2]
    assert "the sum is" in (tmp_path / "rank_1.log").read_text()


def by_hand(host: Host, folder: Path, rank: int, then: str) -> subprocess.Popen[str]:
    """One rank as a shell line starts it, with a rank table and nobody who watches."""
    return host.start(
        sys.executable,
        script(folder),
        "--model",
        folder / f"sum{rank}.onnx",
        "--rank",
        rank,
        "--config",
        folder / "config.ini",
        "--then",
        then,
    )


def test_shell_lines_with_a_rank_table(hosts: TwoHosts, key_file: Path, tmp_path: Path) -> None:
    hosts.rank_table(tmp_path / "table.json", 1)
    summing(tmp_path)
    (tmp_path / "config.ini").write_text(
        f"[ascend_context]\nrank_table_file={tmp_path / 'table.json'}\n"
    )
    one, two = ends(
        by_hand(hosts.one, tmp_path, 0, "wait"), by_hand(hosts.two, tmp_path, 1, "fail")
    )
    assert "the sum is 4.0" in one[1] and "the sum is 4.0" in two[1]
    assert (
        one[0] == 4 and "rank 1 of 2 on two raised ValueError: this rank has had enough" in one[2]
    )
    assert two[0] == 1 and "Traceback" in two[2]


@pytest.mark.slow
def test_torchrun_on_both_hosts(hosts: TwoHosts, key_file: Path, tmp_path: Path) -> None:
    model = summing(tmp_path)
    (tmp_path / "hosts").write_text("".join(f"{host.address} {host.name}\n" for host in hosts.both))
    one, two = ends(
        *(
            host.start(
                sys.executable,
                "-m",
                "torch.distributed.run",
                "--nnodes",
                2,
                "--node-rank",
                number,
                "--nproc-per-node",
                1,
                "--master-addr",
                hosts.one.address,
                "--master-port",
                29411,
                "-m",
                "rankmesh",
                "run",
                model,
            )
            for number, host in enumerate(hosts.both)
        )
    )
    assert one[0] == two[0] == 0, one[2] + two[2]
    assert one[1].count("output data is: 4.0 4.0 4.0 4.0") == 2 and "output data" not in two[1]
