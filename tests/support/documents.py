"""Changes one place of a JSON document."""

from __future__ import annotations

import copy
import functools
import operator
import re
from typing import Any


def changed(document: Any, place: str, value: object) -> Any:
    """A copy with one place replaced (`...` removes it); a place is dotted, list indices
    included."""
    result = copy.deepcopy(document)
    *way, last = [int(part) if part.isdigit() else part for part in place.split(".")]
    holder = functools.reduce(operator.getitem, way, result)
    if value is ...:
        del holder[last]
    else:
        holder[last] = value
    return result


def json_path(place: str) -> str:
    """The place as messages write it: a.0.b is a[0].b."""
    return re.sub(r"\.(\d+)", r"[\1]", place)
