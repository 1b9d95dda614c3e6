"""Slicing of the networks of slicing_networks: planned, run in lockstep and by real ranks,
compared, in a table.

    python bench/slicing_networks/export.py --out FOLDER     (in an environment of its own)
    python bench/slicing.py FOLDER [--ranks 2 3 4] [--only PATTERN ...] [--resume code|any]
                                   [--trials tensor pipeline] [--each COUNT]
    python bench/slicing.py FOLDER --fuzz 2000 [--only PATTERN ...]
    python bench/slicing.py FOLDER --table

Every network has a process of its own, and every trial a time limit. Networks of all kinds take
turns, small files first; `--each` ends a kind after so many. A pipeline has 2 stages where N is
even, else N; `--trials plan` makes plans and runs nothing. One JSON line for each network, trial
and number of ranks goes to FOLDER/slicing.jsonl as soon as it is known; the last one counts.
`--resume code` leaves out what is there for the same code, `--resume any` what is there at all, and
`--failed` takes what is there and not right. `--table` writes docs/slicing-networks.md: results of
each code, the last one first, without what was tried again later. The exit status is 1 if a result
of this run is wrong.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import math
import multiprocessing
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import slicing_table

_ROOT = Path(__file__).parent.parent
_FUZZED_WEIGHTS = 4 << 20
"""Bytes of the largest file whose plans are fuzzed."""
_ROUND = 10
"""Random plans of one network at a time."""

Row = dict[str, Any]


def main() -> None:
    """Run what the command line asks for."""
    given = _arguments()
    results = Results(given.results or given.folder / "slicing.jsonl")
    if given.table:
        page = _ROOT / "docs/slicing-networks.md"
        slicing_table.write(results.rows(), page)
        return
    begun = time.monotonic()
    tasks = list(_fuzz_tasks(given) if given.fuzz else _tasks(given, results))
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))  # where forked processes look
    wrong = 0
    with ThreadPoolExecutor(given.jobs) as pool:
        for rows in pool.map(lambda task: _run(task, given.limit, results), tasks):
            wrong += sum(one["state"] in ("wrong", "crashed", "unrun") for one in rows)
    print(f"{len(tasks)} networks, {wrong} wrong; {time.monotonic() - begun:.0f} s")
    sys.exit(1 if wrong else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("folder", type=Path, help="what slicing_networks/export.py wrote")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--only", nargs="*", default=["*"], metavar="PATTERN")
    kinds = ("tensor", "pipeline", "plan")
    parser.add_argument("--trials", nargs="+", default=kinds[:2], choices=kinds)
    parser.add_argument("--each", type=int, default=0, help="networks of a kind, at most")
    parser.add_argument("--largest", type=float, default=math.inf, help="bytes of a network")
    parser.add_argument("--resume", choices=("code", "any"), help="leave out what is there")
    parser.add_argument("--failed", action="store_true", help="take what is there and not right")
    parser.add_argument("--seconds", type=float, default=10, help="of the search of a plan")
    parser.add_argument("--limit", type=float, default=240, help="seconds of a network and N")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--fuzz", type=int, default=0, metavar="COUNT", help="random plans to run")
    parser.add_argument("--seed", type=int, default=0, help="of the first random plan")
    parser.add_argument("--results", type=Path, help="default: FOLDER/slicing.jsonl")
    parser.add_argument("--table", action="store_true", help="write docs/slicing-networks.md")
    return parser.parse_args()


class Results:
    """The file of results: a JSON line for each network, kind of trial and number of ranks."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.code = fingerprint()

    def rows(self) -> list[Row]:
        """The last row of each network, kind of trial and number of ranks, in their order."""
        found: dict[tuple[Any, ...], Row] = {}
        for line in self._path.read_text().splitlines() if self._path.exists() else ():
            row = json.loads(line)
            key = row["network"], row["trial"], row["ranks"], row.get("seed")
            found.pop(key, None)
            found[key] = row
        return list(found.values())

    def note(self, row: Row) -> None:
        """Append a row."""
        with self._lock, self._path.open("a") as file:
            file.write(json.dumps({**row, "code": self.code}) + "\n")


def fingerprint() -> str:
    """A digest of the code that decides the results."""
    digest = hashlib.sha256()
    for path in sorted((_ROOT / "compiler/slicing").rglob("*.py")):
        digest.update(path.read_bytes())
    for name in ("slicing_trials.py", "slicing_layers.py", "slicing_lockstep.py"):
        digest.update((_ROOT / "bench" / name).read_bytes())
    return digest.hexdigest()[:12]


def _networks(given: argparse.Namespace) -> list[Path]:
    """The files whose name matches, small ones first."""
    files = [*given.folder.glob("*.onnx"), *given.folder.glob("*.mindir")]
    chosen = [
        path
        for path in files
        if path.with_suffix(".npz").exists()
        and _bytes(path) <= given.largest
        and any(fnmatch.fnmatchcase(path.stem, one) for one in given.only)
    ]
    return sorted(chosen, key=lambda path: (_bytes(path), path.name))


def _bytes(path: Path) -> int:
    data = path.with_suffix(".data")
    return path.stat().st_size + (data.stat().st_size if data.exists() else 0)


def _tasks(given: argparse.Namespace, results: Results) -> Iterator[Row]:
    """One task for each network, with all trials of it that are wanted."""
    known = {(row["network"], row["trial"], row["ranks"]): row for row in results.rows()}
    for path in _in_turns(_networks(given), given.each):
        wanted = []
        for trial in given.trials:
            for ranks in given.ranks:
                row = known.get((path.stem, trial, ranks))
                if given.failed and (row is None or row["state"] == "right"):
                    continue
                there = row is not None and (given.resume == "any" or row["code"] == results.code)
                if not (given.resume and there):
                    wanted.append((trial, ranks))
        if wanted:
            yield {"path": str(path), "wanted": wanted, "seconds": given.seconds}


def _in_turns(paths: Sequence[Path], most: int) -> list[Path]:
    """The first networks of each kind, then the second ones; at most so many of a kind."""
    kinds: dict[str, list[Path]] = defaultdict(list)
    for path in paths:
        record = path.with_suffix(".json")
        kind = json.loads(record.read_text()).get("kind") if record.exists() else path.suffix
        kinds[kind].append(path)
    turns = zip_longest(*(found[: most or None] for found in kinds.values()))
    return [path for turn in turns for path in turn if path is not None]


def _fuzz_tasks(given: argparse.Namespace) -> Iterator[Row]:
    """Rounds of random plans over all small networks, until there are enough."""
    small = [path for path in _networks(given) if _bytes(path) <= _FUZZED_WEIGHTS]
    rounds = -(-given.fuzz // _ROUND)
    for at in range(rounds if small else 0):
        lap, index = divmod(at, len(small))
        path = small[index * 37 % len(small)] if len(small) % 37 else small[index]
        ranks = given.ranks[(at + lap) % len(given.ranks)]
        seed = given.seed + lap * _ROUND
        yield {"path": str(path), "wanted": [("fuzz", ranks)], "seed": seed}


def _run(task: Row, limit: float, results: Results) -> Sequence[Row]:
    """Carry out the trials of a network in a process of its own; note and print their rows."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["slicing_trials"])
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(task, theirs))
    process.start()
    theirs.close()
    rows: list[Row] = []
    for trial, ranks in task["wanted"]:
        begun = time.monotonic()
        row: Row = {"state": "late", "reason": f"took more than {limit:g} s"}
        if mine.poll(limit):
            try:
                row = mine.recv()
            except EOFError:
                process.join(10)
                row = {"state": "crashed", "reason": f"its process ended with {process.exitcode}"}
        about = {"network": Path(task["path"]).stem, "trial": trial, "ranks": ranks}
        seed = {"seed": task["seed"]} if trial == "fuzz" else {}
        rows.append({**about, **seed, **row, "seconds": round(time.monotonic() - begun, 1)})
        results.note(rows[-1])
        print(_line(rows[-1]), flush=True)
        if row["state"] in ("late", "crashed") and not row.get("kind"):
            break
    process.kill()
    process.join()
    return rows


def _child(task: Row, answer: Connection) -> None:
    import slicing_trials

    from rankmesh.comm.errors import ModelError

    trial = slicing_trials.NetworkTrial(Path(task["path"]))
    about = {"kind": trial.record.get("kind", "mindir"), "source": trial.record.get("source", "")}
    for kind, ranks in task["wanted"]:
        try:
            if kind == "fuzz":
                row = trial.fuzzed(ranks, range(task["seed"], task["seed"] + _ROUND))
            else:
                row = trial.sliced(kind, ranks, task["seconds"])
        except ModelError as error:
            row = {"state": "refused", "reason": slicing_trials.shortened(error)}
        except Exception as error:  # whatever is raised is the reason to record
            row = {"state": "crashed", "reason": slicing_trials.shortened(error)}
        if "reason" in row:  # the page that shows it knows no folders
            row["reason"] = row["reason"].replace(f"{trial.path.parent}/", "")
        answer.send({**about, **row})


def _line(row: Row) -> str:
    parts = [f"{row['network']:34} {row['trial']} {row['ranks']} {row['state']:8}"]
    if row.get("errors"):
        parts.append(f"{max(row['errors']):.1e}")
    if row.get("share"):
        gap = "unknown" if row["gap"] is None else f"{row['gap']:.2%}"
        parts.append(f"weights {row['share']:.3f} of 1/N, gap {gap}")
        parts.append(f"{row['plan_seconds']:.1f} s {row['collectives']} {' '.join(row['unknown'])}")
    if row.get("counted", row.get("collectives")) != row.get("collectives"):
        parts.append(f"counted {row['counted']}")
    parts += [str(row[key]) for key in ("bad", "miscounted") if row.get(key)]
    return "  ".join([*parts, row.get("reason", "")])


if __name__ == "__main__":
    main()
