"""Steps of a path: every folder and link that the kernel passes on its way to a file, as they are now."""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_MOST_LINKS = 40
"""As the kernel allows."""


class Step(NamedTuple):
    """What lies at `path`, which leads through no link, and what a link there says; "" of what is none."""

    path: str
    status: os.stat_result
    target: str = ""


def path_steps(path: str) -> Iterator[Step]:
    """The steps from `/` to the file or folder itself; OSError from the first one on that is missing."""
    here, links = "/", 0
    left = deque(str(Path(path).absolute()).split("/"))
    yield Step(here, os.lstat(here))
    while left:
        name = left.popleft()
        if name in ("", ".", ".."):
            here = os.path.dirname(here) if name == ".." else here
            continue
        place = os.path.join(here, name)
        step = Step(place, os.lstat(place))
        if not stat.S_ISLNK(step.status.st_mode):
            here = place
            yield step
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        target = os.readlink(place)
        yield step._replace(target=target)
        here = "/" if target.startswith("/") else here
        left.extendleft(reversed(target.split("/")))
