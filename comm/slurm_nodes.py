"""Which node each task of a Slurm step runs on, by the step's variables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_MOST = 1 << 17
_LIST = re.compile(r"([\w.-]+)(?:\[([\d,-]+)\]([\w.-]*))?(?:,|$)", re.ASCII)
_TASKS = re.compile(r"(\d{1,6})(?:\(x(\d{1,6})\))?(?:,|$)", re.ASCII)


def nodes_of_tasks(variables: Mapping[str, str]) -> tuple[str, ...]:
    """The node of each task in rank order; empty where the variables do not tell, as with other distributions."""
    if not variables.get("SLURM_DISTRIBUTION", "block").startswith("block"):
        return ()
    nodes = list(_names(variables.get("SLURM_STEP_NODELIST", "")))
    tasks = [int(count) for count, repeat in _TASKS.findall(variables.get("SLURM_STEP_TASKS_PER_NODE", ""))
             for _ in range(min(int(repeat or 1), _MOST))]
    if len(nodes) != len(tasks) or sum(tasks) > _MOST:
        return ()
    return tuple(node for node, count in zip(nodes, tasks, strict=True) for _ in range(count))


def _names(text: str) -> Iterator[str]:
    """The names in a list such as node[07-09,12],other3."""
    for name, ranges, end in _LIST.findall(text):
        for part in ranges.split(",") if ranges else ("",):
            first, _, last = part.partition("-")
            if not part:
                yield name
            else:
                numbers = range(int(first), min(int(last or first), int(first) + _MOST) + 1)
                yield from (f"{name}{number:0{len(first)}}{end}" for number in numbers)
