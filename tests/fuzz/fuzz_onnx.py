"""Random ONNX models whose structure is changed, read and run by every way in a child process:

    python tests/fuzz/fuzz_onnx.py [--models 5000] [--seconds S] [--seed 0] [--found FOLDER]

Any file must give an error for the user, or the answer of onnxruntime. It prints how many got past
the reader, how each way ended, and each fault, with the end of a process or a hang among them;
writes these models into the folder, and ends with 1 if there was one.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / ".types"), str(ROOT / "tests" / "support")]
from fuzz_child import Child, ChildEnded, answer_lines  # noqa: E402

_PATIENCE = 300.0
_MEMORY = 12 << 30


def answered(line: str) -> str:
    """What became of one model, in a child process: a line of JSON."""
    from onnx_fuzz import survived
    from ways import WAYS

    question = json.loads(line)
    ways = {name: WAYS[name] for name in question["ways"] or WAYS}
    found = survived(question["seed"], ways)
    if found.faults:
        folder = Path(question["found"]) / str(question["seed"])
        folder.mkdir(parents=True, exist_ok=True)
        found.model.write(folder)
        (folder / "found.txt").write_text("\n".join([*found.changes, *found.faults]))
    return json.dumps(
        {"changes": found.changes, "parsed": found.parsed, "read": found.read, "ran": found.ran}
        | {"kinds": found.kinds, "faults": found.faults}
    )


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--found", type=Path, default=Path("found"))
    parser.add_argument("--ways", nargs="*", default=[])
    options = parser.parse_args()
    end, counts, asked = time.monotonic() + options.seconds, Counter(), 0
    child = Child(__file__, "--answer")
    while asked < options.models and time.monotonic() < end:
        seed = options.seed + asked
        asked += 1
        question = {"seed": seed, "ways": options.ways, "found": str(options.found)}
        try:
            found = json.loads(child.ask(json.dumps(question), _PATIENCE))
        except ChildEnded as error:
            faults = [f"the process ended: {error}"]
            found = {"changes": [], "kinds": {}, "faults": faults}
            found |= dict.fromkeys(("parsed", "read", "ran"), False)
        counts["past the parser"] += found["parsed"]
        counts["past every check of the reader"] += found["read"]
        counts["run by onnxruntime"] += found["ran"]
        counts["with a fault"] += bool(found["faults"])
        counts.update(f"{name}: {kind}" for name, kind in found["kinds"].items())
        for line in found["faults"]:
            print(f"seed {seed} {found['changes']}: {line[:400]}", flush=True)
    child.end()
    for key, count in sorted(counts.items()):
        print(f"{key}: {count}")
    print(f"{counts['past the parser'] / max(1, asked):.1%} of {asked} got past the parser")
    return 1 if counts["with a fault"] else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--answer"]:
        os.environ["RANKMESH_CACHE"] = "off"
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        warnings.filterwarnings("ignore")
        answer_lines(answered)
    else:
        sys.exit(main())
