"""Table of slicing: the results of bench/slicing.py as a page."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]

_BEGIN, _END = "<!-- networks: bench/slicing.py --table -->", "<!-- /networks -->"
_STATES = {
    "right": "sliced and right",
    "unsplit": "right, nothing to split",
    "planned": "planned, too large to run",
    "refused": "refused with a reason",
    "wrong": "wrong",
    "unrun": "right in lockstep, and ranks do not run it",
    "crashed": "failed with an unexpected error",
    "late": "time limit",
}


def write(rows: Sequence[Row], page: Path) -> None:
    """Put tables between the markers of a page: those of each code, that of the last row first."""
    text = page.read_text()
    before, rest = text.split(_BEGIN, 1)
    after = rest.split(_END, 1)[1]
    lines: list[str] = []
    for code in dict.fromkeys(row["code"] for row in reversed(rows)):
        own = [row for row in rows if row["code"] == code]
        lines += _lines(own, f"Results of the code {code}")
    page.write_text("\n".join((f"{before}{_BEGIN}", "", *lines, f"{_END}{after}")))


def state(row: Row) -> str:
    """The state of a row; plans that split no weight have one of their own."""
    if (
        row["state"] == "right"
        and not row["collectives"]
        and (row["share"] or 0) in (0, row["ranks"])
    ):
        return "unsplit"
    return row["state"]


def _lines(rows: Sequence[Row], title: str) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    tensor = [row for row in rows if row["trial"] == "tensor"]
    counts = sorted({row["ranks"] for row in tensor})
    run = [row for row in rows if row["trial"] in ("tensor", "pipeline")]
    if run:
        yield from _summary(run)
    yield from _counted(rows)
    trials = [row for row in rows if row["trial"] in ("tensor", "plan")]
    if trials:
        yield from _weights(trials)
        yield from _exchanged(trials)
    yield from _fuzz([row for row in rows if row["trial"] == "fuzz"])
    yield from _failures(rows)
    if counts:
        yield from _networks([row for row in rows if row["trial"] != "plan"], counts)


def _table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    yield "| " + " | ".join(header) + " |"
    yield "|" + "---|" * len(header)
    for row in rows:
        yield "| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |"
    yield ""


def _summary(rows: Sequence[Row]) -> Iterator[str]:
    found = Counter((state(row), row["trial"], row["ranks"]) for row in rows)
    found_in = {(row["trial"] == "pipeline", row["ranks"], row["trial"]) for row in rows}
    tried = [(trial, ranks) for _, ranks, trial in sorted(found_in)]
    yield "### Counts"
    yield ""
    stages = {(row["trial"], row["ranks"]): row["stages"] for row in rows if "stages" in row}
    header = ["result"]
    for one in tried:
        many = stages.get(one, 1) > 1
        header.append(f"{one[1]} ranks" + (f" in {stages[one]} stages" if many else ""))
    lines = [
        [text, *(found[(one, *column)] for column in tried)]
        for one, text in _STATES.items()
        if any(found[(one, *column)] for column in tried)
    ]
    total = Counter((row["trial"], row["ranks"]) for row in rows)
    lines.append(["networks", *(total[column] for column in tried)])
    yield from _table(header, lines)


def _counted(rows: Sequence[Row]) -> Iterator[str]:
    """How many plans have the collectives and bytes that were predicted."""
    known = [row for row in rows if "counted" in row]
    wrong = [
        row
        for row in known
        if (row["counted"], row["counted_bytes"]) != (row["collectives"], row["bytes"])
    ]
    random = sum(row.get("plans", 0) for row in rows)
    other = sum(len(row.get("miscounted", ())) for row in rows)
    yield "### Predicted and counted collectives"
    yield ""
    right = [(len(known) - len(wrong), len(known), "plans")]
    right.append((random - other, random, "random plans"))
    found = " and in ".join(f"{many} of {total} {kind}" for many, total, kind in right if total)
    yield (
        f"In {found} the graphs have the collectives that were predicted, by kind, number and "
        "bytes."
    )
    names = sorted({row["network"] for row in (*wrong, *(r for r in rows if r.get("miscounted")))})
    if names:
        yield f"They differ for {', '.join(names)}."
    yield ""


def _weights(rows: Sequence[Row]) -> Iterator[str]:
    """How near the heaviest rank is to its part, by kind of network."""
    yield "### Weights of the heaviest rank"
    yield ""
    yield "In parts of 1/N of the weights with two axes or more: networks at 1.02, 1.10, and above."
    yield ""
    yield from _graded(rows, "splittable_share", (1.02, 1.10))


def _exchanged(rows: Sequence[Row]) -> Iterator[str]:
    """How many AllReduces the layers of networks need, by kind."""
    if any(row.get("per_layer") is not None for row in rows):
        yield "### AllReduces of a layer"
        yield ""
        yield "Of the layer that needs most of them: networks with up to 2, up to 3, and with more."
        yield ""
        yield from _graded(rows, "per_layer", (2, 3))


def _graded(rows: Sequence[Row], key: str, limits: Sequence[float]) -> Iterator[str]:
    """The networks of each kind and number of ranks up to each limit, and above all of them."""
    latest = {(row["network"], row["ranks"]): row for row in rows if row.get(key) is not None}
    counts = sorted({ranks for _, ranks in latest})
    found: dict[str, Counter[tuple[int, int]]] = defaultdict(Counter)
    for row in latest.values():
        if row["state"] in ("right", "planned"):
            grade = sum(row[key] > limit for limit in limits)
            found[row["kind"]][row["ranks"], grade] += 1
    lines = [
        [
            kind,
            *(" / ".join(str(cells[count, grade]) for grade in range(3)) for count in counts),
        ]
        for kind, cells in sorted(found.items())
    ]
    yield from _table(["kind", *(f"{count} ranks" for count in counts)], lines)


def _fuzz(rows: Sequence[Row]) -> Iterator[str]:
    if not rows:
        return
    plans = sum(row.get("plans", 0) for row in rows)
    bad = sum(len(row.get("bad", {})) for row in rows)
    networks = len({row["network"] for row in rows if row.get("plans")})
    yield "### Random plans"
    yield ""
    yield f"{plans} random plans of {networks} networks ran in lockstep; {bad} were not right."
    yield ""


def _failures(rows: Sequence[Row]) -> Iterator[str]:
    bad: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows:
        if row["state"] not in ("right", "planned"):
            text = row.get("reason") or _difference(row)
            bad[row["network"], f"{row['state']}: {text[:240]}"].append(_label(row))
    if not bad:
        return
    yield "### Networks that are not sliced"
    yield ""
    lines = [[name, ", ".join(labels), text] for (name, text), labels in sorted(bad.items())]
    yield from _table(["network", "ranks", "reason"], lines)


def _difference(row: Row) -> str:
    if row.get("bad"):
        return "; ".join(f"seed {seed}: {text}" for seed, text in list(row["bad"].items())[:2])
    return f"error {max(row['errors']):.1e}"


def _label(row: Row) -> str:
    kind = {"fuzz": " (random)", "pipeline": " (pipeline)"}.get(row["trial"], "")
    return f"{row['ranks']}{kind}"


def _networks(rows: Sequence[Row], counts: Sequence[int]) -> Iterator[str]:
    """One line for each network; cells have a number for each number of ranks."""
    grouped: dict[tuple[str, str], dict[int, Row]] = defaultdict(dict)
    piped: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if "share" in row and row["trial"] == "tensor":
            grouped[row["kind"], row["network"]][row["ranks"]] = row
        elif row["trial"] == "pipeline":
            piped[row["network"]] += row.get("errors", ())
    yield "### All networks"
    yield ""
    yield (
        f"Cells are for {', '.join(map(str, counts))} ranks. The errors are the largest of all "
        "numbers of ranks, without and with stages. Weights are those of the heaviest "
        "rank in parts of 1/N of all weights, and of those with two axes or more. AllReduces per "
        "layer are those of the layer that has most of them, without the collectives of outputs."
    )
    yield ""
    header = [
        "network",
        "kind",
        "error",
        "pipeline",
        "weights",
        "two axes",
        "per layer",
    ]
    header += ["collectives", "bytes", "gap", "plan (s)", "without a rule"]
    lines = []
    for (kind, name), by_ranks in sorted(grouped.items()):
        some = [by_ranks.get(count) for count in counts]
        errors = [max(row["errors"]) for row in some if row and row["errors"]]
        unknown = sorted({one for row in some if row for one in row["unknown"]})
        lines.append(
            [
                name,
                kind,
                f"{max(errors):.0e}" if errors else "not run",
                f"{max(piped[name]):.0e}" if piped[name] else "not run",
                _cells(some, "share", ".2f"),
                _cells(some, "splittable_share", ".2f"),
                _cells(some, "per_layer", "g"),
                ", ".join(_collectives(row["collectives"]) if row else "-" for row in some),
                _cells(some, "bytes", "d"),
                _cells(some, "gap", ".0%"),
                _cells(some, "plan_seconds", ".0f"),
                ", ".join(unknown),
            ]
        )
    yield from _table(header, lines)


def _cells(rows: Sequence[Row | None], key: str, form: str) -> str:
    found = ["-" if row is None or row.get(key) is None else format(row[key], form) for row in rows]
    return found[0] if len(set(found)) == 1 else ", ".join(found)


def _collectives(counts: Mapping[str, int]) -> str:
    """Collectives in short: 4 AR, 1 AG."""
    short = {
        "AllReduce": "AR",
        "AllGather": "AG",
        "ReduceScatter": "RS",
        "AllToAll": "AA",
    }
    return " ".join(f"{count} {short[kind]}" for kind, count in counts.items()) or "none"
