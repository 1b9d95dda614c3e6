"""Placement texts: placements as plan files write them, and their reading within bounds.

The texts are those of `str`: `replicated`, `partial(sum)`, `split(axis=1, bounds=[0, 8, 16])`, and
with segments `split(axis=1, bounds=[0, 1, 2], ratios=[8, 2, 2])`; parts that overlap are
`windows(axis=2, starts=[0, 27], stops=[29, 56])`.
"""

from __future__ import annotations

import re

from .placements import MAX, SUM, WHOLE, Placement, Split, Windows, split

_SPLIT = re.compile(
    r"split\(axis=(?P<axis>\d{1,3}), *bounds=\[(?P<bounds>[\d, ]+)\]"
    r"(?:, *ratios=\[(?P<ratios>[\d, ]+)\])?\)"
)
_WINDOWS = re.compile(
    r"windows\(axis=(?P<axis>\d{1,3}), *starts=\[(?P<starts>[\d, ]+)\],"
    r" *stops=\[(?P<stops>[\d, ]+)\]\)"
)
_OTHERS: dict[str, Placement] = {"replicated": WHOLE, "partial(sum)": SUM, "partial(max)": MAX}
_LONGEST = 1 << 20
_MOST = 1 << 40
"""Elements of the longest axis."""


def placement_of(text: object, ranks: int) -> Placement:
    """The placement that a text describes, for `ranks` ranks; ValueError says what is wrong."""
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise ValueError(f"a placement is a text such as 'replicated', not {str(text)[:60]!r}")
    plain = text.strip()
    if plain in _OTHERS:
        return _OTHERS[plain]
    windows = _WINDOWS.fullmatch(plain)
    if windows is not None:
        starts, stops = _numbers(windows["starts"]), _numbers(windows["stops"])
        return _windows(plain, int(windows["axis"]), starts, stops, ranks)
    match = _SPLIT.fullmatch(plain)
    if match is None:
        raise ValueError(
            f"{plain[:80]!r} is no placement; expected 'replicated', 'partial(sum)', "
            "'partial(max)', 'split(axis=0, bounds=[0, 8, 16])' or 'windows(axis=2, starts=[0, 7], "
            "stops=[9, 16])'"
        )
    bounds, ratios = _numbers(match["bounds"]), _numbers(match["ratios"] or "1")
    return _split(plain, int(match["axis"]), bounds, ratios, ranks)


def _numbers(text: str) -> list[int]:
    found = [int(one) for one in text.split(",") if one.strip()]
    if any(one > _MOST for one in found):
        raise ValueError(f"{max(found)} is larger than any axis")
    return found


def _split(text: str, axis: int, bounds: list[int], ratios: list[int], ranks: int) -> Split:
    if len(bounds) != ranks + 1:
        raise ValueError(
            f"{text!r} has {len(bounds)} bounds; {ranks} ranks need {ranks + 1}, from 0 to the "
            "length of the axis"
        )
    if not ratios or min(ratios) < 1:
        raise ValueError(f"{text!r}: every ratio must be at least 1")
    found = split(axis, bounds, ratios) if bounds[0] == 0 else None
    if found is None:
        raise ValueError(
            f"{text!r}: bounds begin with 0 and grow, so that no rank has an empty part"
        )
    return found


def _windows(text: str, axis: int, starts: list[int], stops: list[int], ranks: int) -> Windows:
    if not len(starts) == len(stops) == ranks:
        raise ValueError(
            f"{text!r} has {len(starts)} starts and {len(stops)} stops; {ranks} ranks need {ranks} "
            "of each"
        )
    if any(start >= stop for start, stop in zip(starts, stops, strict=True)):
        raise ValueError(f"{text!r}: every stop is greater than its start, as no part is empty")
    return Windows(axis, tuple(starts), tuple(stops))
