"""Random models, run by every way that Rankmesh has, whose answers are compared with onnxruntime's:

    python tests/fuzz/fuzz_ways.py [--models 2000] [--seconds S] [--seed 0] [--real 50]

Every `--real`th model goes through real processes as well. It prints the share that was answered,
refusals by their reasons and each disagreement, writes models that show one into the folder, and
ends with 1 if there was one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from random import Random

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / ".types"), str(ROOT / "tests" / "support")]
from fuzz_child import Child, ChildEnded, answer_lines  # noqa: E402

_PATIENCE = 300.0


def answered(line: str) -> str:
    """The judgement of one model, in a child process: a line of JSON."""
    from unusual_models import random_model
    from ways import WAYS
    from ways_judged import judged

    question = json.loads(line)
    model = random_model(Random(question["seed"]))
    ways = {**WAYS, **(_real() if question["real"] else {})}
    found = judged(model, ways)
    if found.wrong:
        _write(model, Path(question["found"]) / str(question["seed"]), found.wrong)
    kinds = {name: one.kind for name, one in found.verdicts.items()}
    return json.dumps(
        {
            "ran": found.ran,
            "answered": found.answered,
            "kinds": kinds,
            "reasons": found.reasons,
            "wrong": found.wrong,
            "spellings": model.spellings,
        }
    )


def _real() -> dict[str, object]:
    """The ways by real processes; the orchestrator stays for the next model."""
    from real_ways import COMMANDS, orchestrated
    from served_models import SAMPLE

    if "orchestrator" not in _KEPT:
        context = orchestrated(Path(SAMPLE))
        _KEPT.update(context=context, orchestrator=context.__enter__())
    return {**COMMANDS, "orchestrator": _KEPT["orchestrator"]}


_KEPT: dict[str, object] = {}


def _write(model: object, folder: Path, lines: list[str]) -> None:
    """The model with a fault, its inputs, and what each way said."""
    folder.mkdir(parents=True, exist_ok=True)
    model.write(folder)  # type: ignore[attr-defined]
    (folder / "found.txt").write_text("\n".join(lines) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--real", type=int, default=50)
    parser.add_argument("--found", type=Path, default=Path("found"))
    options = parser.parse_args()
    end, counts, reasons, asked = time.monotonic() + options.seconds, Counter(), Counter(), 0
    child = Child(__file__, "--answer")
    while asked < options.models and time.monotonic() < end:
        seed = options.seed + asked
        asked += 1
        real = options.real > 0 and asked % options.real == 0
        question = {"seed": seed, "real": real, "found": str(options.found)}
        try:
            found = json.loads(child.ask(json.dumps(question), _PATIENCE))
        except ChildEnded as error:
            found = {"ran": True, "answered": False, "kinds": {}, "reasons": [], "spellings": []}
            found["wrong"] = [f"the process ended: {error}"]
        counts["models"] += 1
        counts["run by onnxruntime"] += found["ran"]
        counts["answered"] += found["ran"] and found["answered"]
        counts["disagree"] += bool(found["wrong"])
        if found["ran"]:
            counts.update(f"{name}: {kind}" for name, kind in found["kinds"].items())
        reasons.update(found["reasons"])
        for line in found["wrong"]:
            print(f"seed {seed} {found['spellings']}: {line[:400]}", flush=True)
    child.end()
    for key, count in sorted(counts.items()):
        print(f"{key}: {count}")
    for reason, count in reasons.most_common():
        print(f"refused {count} times: {reason[:300]}")
    share = counts["answered"] / max(1, counts["run by onnxruntime"])
    print(f"{share:.1%} of the models that onnxruntime runs are answered; last seed {seed}")
    return 1 if counts["disagree"] else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--answer"]:
        os.environ["RANKMESH_CACHE"] = "off"
        warnings.filterwarnings("ignore")
        answer_lines(answered)
    else:
        sys.exit(main())
