"""Export of the networks for bench/slicing.py: small networks of transformers, torchvision and
timm with random weights, written as ONNX files.

    python bench/slicing_networks/export.py --out FOLDER [--only PATTERN ...] [--list] [--again]

Runs in an environment of its own (no Rankmesh), with a build of torch for CPUs:

    pip install torch torchvision timm transformers onnx onnxscript onnxruntime sympy

Nothing is downloaded: configurations and code come from the packages, weights from a fixed seed.
For each network the folder gets NAME.onnx (and NAME.data), NAME.npz with example inputs, and
NAME.json, which is written last: what has one is not exported again unless --again asks for it.
failures.json says why others have none, and census.txt which operators occur in how many networks.
Every network has a process of its own and a time limit.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

import catalogue
from registry import NETWORKS, Network

SECONDS = 120


def main() -> None:
    arguments = _arguments()
    catalogue.register()
    # The process that others are forked from looks for modules along this path only.
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)
    chosen = [one for one in NETWORKS.values() if _matches(one, arguments.only)]
    if not chosen:
        sys.exit(f"no network matches {' '.join(arguments.only)}: --list shows the names")
    if arguments.list:
        print("\n".join(f"{one.kind:16} {one.name:34} {one.source}" for one in chosen))
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    failures = _Failures(arguments.out / "failures.json")
    failures.forget_others(NETWORKS)
    started = time.monotonic()
    for network in chosen:
        record = arguments.out / f"{network.name}.json"
        if arguments.again:
            record.unlink(missing_ok=True)
        known = failures.of(network.name) and not arguments.retry
        if not record.exists() and not known:
            seconds = network.seconds or arguments.seconds
            reason = _in_process(network, arguments.out, seconds)
            failures.note(network.name, reason)
            print(_line(network, record, reason), flush=True)
            if not arguments.no_census:
                write_census(arguments.out)
    write_census(arguments.out)
    written = sum((arguments.out / f"{one.name}.json").exists() for one in chosen)
    print(
        f"{written} of {len(chosen)} networks are in {arguments.out}; "
        f"{time.monotonic() - started:.0f} s"
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--out", type=Path, default=Path("networks"))
    parser.add_argument("--only", nargs="*", default=["*"], metavar="PATTERN")
    parser.add_argument("--list", action="store_true", help="show names and end")
    parser.add_argument("--again", action="store_true", help="export what exists again")
    parser.add_argument("--retry", action="store_true", help="try those that failed again")
    parser.add_argument("--no-census", action="store_true", help="count operators at the end only")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="limit of each network")
    return parser.parse_args()


def _matches(network: Network, patterns: list[str]) -> bool:
    texts = (network.name, network.kind, network.source)
    return any(fnmatch.fnmatchcase(text, one) for text in texts for one in patterns)


class _Failures:
    """The reasons of the networks that failed, in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _read(self) -> dict[str, str]:
        return json.loads(self.path.read_text()) if self.path.exists() else {}

    def forget_others(self, names: Container[str]) -> None:
        """Drops the reasons of networks that are no longer registered."""
        for name in self._read():
            if name not in names:
                self.note(name, None)

    def of(self, name: str) -> str | None:
        return self._read().get(name)

    def note(self, name: str, reason: str | None) -> None:
        reasons = self._read()
        if reasons.pop(name, None) == reason:
            return
        if reason:
            reasons[name] = reason
        unfinished = self.path.with_name(f"failures.{os.getpid()}")
        unfinished.write_text(json.dumps(reasons, indent=1) + "\n")
        unfinished.rename(self.path)


def _in_process(network: Network, folder: Path, seconds: float) -> str | None:
    """Writes a network in a process of its own; returns why that failed, if it did."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["preload"])
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(network.name, str(folder), theirs))
    process.start()
    theirs.close()
    reason = f"took more than {seconds:g} s"
    if mine.poll(seconds):
        try:
            reason = mine.recv()
        except EOFError:
            process.join(10)
            reason = f"its process ended with exit status {process.exitcode}"
    process.kill()
    process.join()
    return reason


def _child(name: str, folder: str, answer: Any) -> None:
    import writing

    catalogue.register()
    log = os.open(os.path.join(folder, "log.txt"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)  # exporters write pages
    os.dup2(log, 2)
    try:
        writing.write(NETWORKS[name], Path(folder) / name)
    except Exception as error:  # whatever a package raises is the reason to record
        import traceback

        traceback.print_exc()
        answer.send(f"{type(error).__name__}: {' '.join(str(error).split())[:400]}")
        return
    answer.send(None)


def _line(network: Network, record: Path, reason: str | None) -> str:
    if reason:
        return f"{network.kind:16} {network.name:34} FAILED {reason[:300]}"
    found = json.loads(record.read_text())
    size = sum(one.stat().st_size for one in record.parent.glob(f"{network.name}.*"))
    keys = [key for key in ("error", "other_error", "error_to_base") if key in found]
    errors = f"error to {found.get('base', 'torch')} " if keys else ""
    errors += " ".join(f"{found[key]:.0e}" for key in keys)
    return (
        f"{network.kind:16} {network.name:34} {found['seconds']:5} s {size / 1e6:7.1f} MB  {errors}"
    )


def write_census(folder: Path) -> None:
    """Counts the operators of all files of the folder, bodies and functions included."""
    import onnx

    cache = folder / "census.json"
    seen: dict[str, list[str]] = json.loads(cache.read_text()) if cache.exists() else {}
    for path in sorted(folder.glob("*.json")):
        file = path.with_suffix(".onnx")
        if file.exists():
            stamp = f"{file.name} {file.stat().st_mtime_ns}"
            if stamp not in seen:
                seen = {key: one for key, one in seen.items() if key.split()[0] != file.name}
                model = onnx.load(file, load_external_data=False)
                seen[stamp] = sorted(set(_operators(model)))
    cache.write_text(json.dumps(seen))
    counts = Counter(one for operators in seen.values() for one in operators)
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    lines = [f"{count:5} {name}" for name, count in ordered]
    text = f"{len(seen)} networks, {len(counts)} operators: networks, domain, operator\n"
    (folder / "census.txt").write_text(text + "\n".join(lines) + "\n")


def _operators(model: Any) -> Iterator[str]:
    for nodes in (model.graph.node, *(one.node for one in model.functions)):
        yield from _of_nodes(nodes)


def _of_nodes(nodes: Any) -> Iterator[str]:
    for node in nodes:
        yield f"{node.domain or 'ai.onnx'} {node.op_type}"
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _of_nodes(graph.node)


if __name__ == "__main__":
    main()
