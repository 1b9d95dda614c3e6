"""The run of `rankmesh slice`: plans, shows the progress, and prints the report."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...comm.errors import UsageError
from ...comm.job.names import require_utf8_path
from ...compiler.slicing.slicer import (
    Progress,
    SlicingReport,
    plan_slices,
    read_slicing_plan,
    slice_model,
)
from ..options.progress_bar import progress_bar
from ..supervision.signals import interruptible

if TYPE_CHECKING:
    from ...compiler.slicing.slicing_plan import SlicingPlan

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]*)")


@dataclass(frozen=True, slots=True)
class SliceOptions:
    """The user's options; None: not given."""

    model: str
    ranks: int | None
    output: str | None
    memory: str | None
    stages: int
    sizes: str | None
    plan: str | None
    dry_run: bool
    verify: str
    force: bool
    collectives: str
    picture: str | None
    annotate: str | None
    json: bool

    @property
    def folder(self) -> str:
        """The folder of the shards."""
        model = os.path.abspath(self.model)
        stem = model if os.path.isdir(model) else os.path.splitext(self.model)[0]
        return self.output or f"{stem}_shards"


def slice_and_print(options: SliceOptions) -> None:
    """Carry out the command; no shards are left of one that a signal ends."""
    require_utf8_path(options.model)
    require_utf8_path(options.folder)
    report = None
    with interruptible("no shards were written"):
        _check_picture(options.picture)
        with progress_bar() as progress:
            plan = _plan(options, progress)
        if options.picture is not None:
            with open(options.picture, "w", encoding="utf-8") as file:
                file.write(plan.picture())
        if options.annotate is not None:
            plan.annotate(options.annotate)
        if not options.dry_run:
            with progress_bar() as progress:
                how = options.verify, options.force, progress, options.collectives
                report = slice_model(options.model, plan, options.folder, *how)
    if report is None:
        _print_plan(options, plan)
    elif options.json:
        print(json.dumps(_fields(plan, report), indent=1))
    else:
        print(f"{report}\n\nRun it: rankmesh run '{report.pattern}'")


def _plan(options: SliceOptions, progress: Progress | None) -> SlicingPlan:
    if options.plan is not None:
        given = {"--memory": options.memory, "--sizes": options.sizes}
        wrong = [name for name, value in given.items() if value is not None]
        if wrong:
            raise UsageError(f"--plan gives the whole plan: leave {wrong[0]} out.")
        plan = read_slicing_plan(options.model, options.plan)
        if options.ranks not in (None, plan.ranks):
            raise UsageError(
                f"{options.plan} is for {plan.ranks} ranks, and --ranks says {options.ranks}."
            )
        return plan
    if options.ranks is None:
        raise UsageError("Give the number of ranks, as --ranks N, or a plan, as --plan FILE.")
    memory = size_of(options.memory) if options.memory else None
    sizes = sizes_of(options.sizes)
    how = options.model, options.ranks, memory
    return plan_slices(*how, stages=options.stages, sizes=sizes, progress=progress)


def _check_picture(path: str | None) -> None:
    """UsageError where the picture cannot be written; the search for a plan takes long."""
    if path is None:
        return
    if os.path.isdir(path) or not os.access(os.path.dirname(os.path.abspath(path)), os.W_OK):
        raise UsageError(f"--picture {path}: expected a file in a folder that can be written.")


def size_of(text: str) -> int:
    """The bytes of a size such as 12GB (10^9) or 12GiB (2^30); UsageError for another text."""
    match = _SIZE.fullmatch(text.strip())
    unit = match[2].upper() if match else ""
    if not match or unit not in _UNITS:
        raise UsageError(f"--memory {text}: expected a size such as 12GB, 800MB or 8GiB.")
    return int(float(match[1]) * _UNITS[unit])


def sizes_of(text: str | None) -> Mapping[str, int]:
    """The sizes of open dimensions in NAME=N,NAME=N; UsageError for another text."""
    found = {}
    for one in (text or "").split(",") if text else []:
        name, _, number = one.partition("=")
        if not name.strip() or not number.strip().isdecimal() or int(number) < 1:
            raise UsageError(
                f"--sizes {text}: expected NAME=N,NAME=N, such as batch=1,sequence=512."
            )
        found[name.strip()] = int(number)
    return found


def _print_plan(options: SliceOptions, plan: SlicingPlan) -> None:
    if options.output is not None:
        os.makedirs(options.output, exist_ok=True)
        plan.save(os.path.join(options.output, "plan.json"))
    if options.json:
        print(json.dumps(_fields(plan, None), indent=1))
    else:
        print(plan)


def _fields(plan: SlicingPlan, report: SlicingReport | None) -> dict[str, object]:
    found: dict[str, object] = {
        "model": plan.path,
        "ranks": plan.ranks,
        "weight_bytes": list(plan.weight_bytes),
        "predicted_seconds": plan.predicted_seconds,
        "stage_seconds": list(plan.stage_seconds),
        "gap": plan.gap,
        "search": plan.search or None,
        "note": plan.note or None,
        "operators_without_a_rule": list(plan.unknown),
    }
    if report is not None:
        found |= {
            "files": list(report.files),
            "file_bytes": list(report.nbytes),
            "collectives": [dict(one) for one in report.collectives],
            "verification": report.verification,
            "proof": report.proof,
            "error": report.error,
        }
    return found
