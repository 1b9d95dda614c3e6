"""HTTP routes: the path of a request with its names left open, by which requests are grouped."""

from __future__ import annotations

_OPEN = {"models": "{model}", "versions": "{version}", "region": "{region}"}
"""The part of a path that follows these."""

_KNOWN = frozenset(
    "v2 health live ready models stats versions infer config trace setting repository index load "
    "unload weights rollback openapi.json logging systemsharedmemory cudasharedmemory region "
    "status register unregister metrics overview".split()
)
_WHOLE = frozenset({"/", "/v2/models/stats"})
"""Paths without open parts, which the rules below would not know."""


def route_of(path: str) -> str:
    """The route of a path, such as `/v2/models/{model}/infer`; empty where it has an unknown part,
    as there may be any number of those.
    """
    if path in _WHOLE:
        return path
    parts = path.split("/")[1:]
    found = [_OPEN.get(before, part) for before, part in zip(("", *parts), parts, strict=False)]
    known = all(part in _KNOWN or part in _OPEN.values() for part in found)
    return "/" + "/".join(found) if found and known else ""
