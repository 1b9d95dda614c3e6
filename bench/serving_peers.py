"""Servers beside `rankmesh serve`: mosec, MLServer, LitServe and Triton, under the same loads.

    python bench/serving_peers.py --mosec PYTHON --mlserver PYTHON --litserve PYTHON
        --triton FOLDER --tritonclient PYTHON [--rounds 12] [--rows echo,large,mobilenetv2]

PYTHON is an interpreter of an environment with that package, numpy and onnxruntime, and FOLDER has
nvidia-pytriton, onnxruntime and numpy < 2, as `pip install --target FOLDER` puts them. A peer that
is not given is left out. Each server and each load generator is a process of its own. They take
turns, and every reply is checked.

- echo: 4 KB by 8 clients, in the form that each server takes with the least work.
- large: 16 MB there and back, one request after the other.
- mobilenetv2: 8 clients of two workers with a thread each; the same ONNX file everywhere.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median

from peers.models import write
from peers.rows import (
    Contender,
    Row,
    Turn,
    connect_load,
    http_load,
    in_process,
    measured,
    socket_load,
    triton_load,
)
from peers.servers import Peers
from report import print_machine, print_table, ratios, spread

_CLIENTS = 8
_FORMS = {"mosec": "mosec", "mlserver": "base64", "litserve": "litserve", "triton": "binary"}
_ECHO_BARS = {"mosec": ">= 1.2", "mlserver": ">= 3", "litserve": ">= 3", "triton": ">= 1"}
_BY_CLIENT = "rankmesh, tritonclient"


def echo(given: argparse.Namespace) -> Row:
    load = http_load("binary", _CLIENTS, given.seconds)
    ours = [Contender("rankmesh", "rankmesh", load)]
    ours += [Contender("rankmesh (control)", "rankmesh control", load, "rankmesh")]
    return Row("echo", "small", 1, [*ours, *_over_http(given, _ECHO_BARS, given.seconds)])


def large(given: argparse.Namespace) -> Row:
    plain, bare = (socket_load(kind, given.seconds) for kind in ("http", "bare"))
    contenders = [
        Contender("rankmesh", "rankmesh", plain),
        Contender("rankmesh (control)", "rankmesh control", plain, "rankmesh"),
        Contender("bare", "bare", bare, "rankmesh", "<= 1.25"),
        Contender("bare (control)", "bare control", bare, "bare"),
    ]
    if given.tritonclient and given.triton:
        for kind, bar in (("http", "<= 0.75"), ("memory", "<= 0.5")):
            load = triton_load(given.tritonclient, kind, 1, 1.5 * given.seconds)
            ours = f"rankmesh, tritonclient {kind}"
            contenders.append(Contender(ours, "rankmesh", load))
            contenders.append(Contender(f"triton, {kind}", "triton", load, ours, bar))
        local = connect_load(given.seconds)
        contenders.append(Contender("rankmesh.connect", "rankmesh", local, ours))
    return Row("large", "large", 1, contenders, "milliseconds")


def mobilenetv2(given: argparse.Namespace) -> Row:
    load = http_load("binary", _CLIENTS, given.seconds)
    contenders = [Contender("rankmesh", "rankmesh", load)]
    contenders += [Contender("rankmesh (control)", "rankmesh control", load, "rankmesh")]
    bars = dict.fromkeys(_FORMS, ">= 1.05")
    contenders += _over_http(given, bars, given.seconds)
    alone = in_process(2, _CLIENTS, given.seconds)
    base = "rankmesh"
    if given.tritonclient:
        base = _BY_CLIENT
        load = triton_load(given.tritonclient, given.client, _CLIENTS, given.seconds)
        contenders.append(Contender(base, "rankmesh", load))
        if given.triton:
            triton = Contender("triton, tritonclient", "triton", load, base, ">= 1.05")
            contenders.append(triton)
    contenders.append(Contender("orchestrator in process", "", alone, base, ">= 0.8"))
    return Row("mobilenetv2", "mobilenetv2", 2, contenders)


ROWS = {one.__name__: one for one in (echo, large, mobilenetv2)}


def _over_http(
    given: argparse.Namespace, bars: Mapping[str, str], seconds: float
) -> list[Contender]:
    return [
        Contender(peer, peer, http_load(form, _CLIENTS, seconds), "rankmesh", bars[peer])
        for peer, form in _FORMS.items()
        if getattr(given, peer)
    ]


def show(row: Row, found: Mapping[str, Sequence[Turn]]) -> None:
    """One table. The ratio is Rankmesh's figure to the contender's, round by round."""
    header = ["contender", "requests/s", "ms", "µs of the server", "ranks' part", "ratio", "bar"]
    lines = []
    print(f"\n{row.title}: ratios of {row.figure}\n")
    for one in row.contenders:
        turns = found[one.name]
        ratio = ""
        if one.against:
            own, other = (
                [getattr(turn, row.figure) for turn in found[name]]
                for name in (one.against, one.name)
            )
            ratio = spread(ratios(own, other), 2)
        parts = [turn.ranks / turn.server for turn in turns if turn.server and turn.ranks]
        figures = [
            spread([turn.rate for turn in turns], 0 if row.figure == "rate" else 1),
            f"{median(turn.milliseconds for turn in turns):.2f}",
            f"{median(turn.server for turn in turns):.0f}",
            f"{median(parts):.3f}" if parts else "",
        ]
        lines.append([one.name, *figures, ratio, one.bar])
    print_table(header, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    for peer in ("mosec", "mlserver", "litserve", "tritonclient"):
        parser.add_argument(f"--{peer}", metavar="PYTHON")
    parser.add_argument("--triton", metavar="FOLDER", type=Path)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each turn")
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--client", choices=["http", "grpc"], default="http", help="tritonclient's")
    parser.add_argument("--json", metavar="FILE", type=Path, help="all turns")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # which ends all servers
    peers = Peers(given.mosec, given.mlserver, given.litserve, given.triton)
    print_machine("onnxruntime", "numpy", "uvloop")
    document = {}
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        for name in given.rows.split(","):
            row = ROWS[name](given)
            found = measured(row, Path(folder), peers, given.rounds)
            show(row, found)
            document[name] = {key: [asdict(one) for one in turns] for key, turns in found.items()}
    if given.json:
        given.json.write_text(json.dumps(document))


if __name__ == "__main__":
    main()
