"""Model table: the models of an orchestrator by name and version, and which version answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from ..comm.errors import Closed, UsageError
from .requests.loaded_versions import LoadedVersions, NotLoaded
from .served import Served


class ModelVersions(NamedTuple):
    """The versions of one model that take requests, by number."""

    current: Served
    all: Mapping[int, Served]


class ModelTable:
    """All models. Each change replaces a mapping, so that readers in any thread take no lock."""

    def __init__(self) -> None:
        self.living: tuple[Served, ...] = ()
        """All versions that have ranks: those that start, that take requests, and that end."""

        self.serving: Mapping[str, ModelVersions] = {}
        """The versions that take requests, by name."""

        self.loaded: Mapping[str, LoadedVersions] = {}
        """The numbers of these."""

        self.changed: Callable[[], None] | None = None
        """Called after each change of `loaded`, in any thread."""

        self._numbers: dict[str, int] = {}
        self._closed = False
        self._lock = threading.Lock()

    def find(self, name: str | None, version: int | None = None) -> Served:
        """A version of a model: by default the current one of the only one; NotLoaded where there
        is none such.
        """
        return _find(self.serving, name, version)

    @contextmanager
    def number(self, name: str, wanted: int | None = None) -> Iterator[int]:
        """The number of the next version of a model, or the `wanted` one; after an error it is free
        again.
        """
        with self._lock:
            number = self._numbers.get(name, 0) + 1 if wanted is None else wanted
            self._numbers[name] = max(number, self._numbers.get(name, 0))
        try:
            yield number
        except BaseException:
            with self._lock:
                self._give_back(name, number)
            raise

    def starts(self, models: Iterable[Served]) -> None:
        """Models whose ranks are about to start. Raises Closed after `close`."""
        with self._lock:
            self._require_open()
            self.living = (*self.living, *models)

    def ready(self, models: Iterable[Served], switch: bool) -> None:
        """Models that take requests from now on, with `switch` those that name no version, too.

        Raises Closed after `close`, and UsageError where a chain would have a step that does not
        fit.
        """
        with self._lock:
            self._require_open()
            serving = dict(self.serving)
            for model in models:
                before = serving.get(model.label)
                every = {**before.all, model.version: model} if before else {model.version: model}
                current = model if switch or before is None else before.current
                serving[model.label] = ModelVersions(current, every)
            self._replace(serving)

    def replace(self, models: Sequence[Served], followed_by: Collection[str] = ()) -> list[Served]:
        """Have versions of one model, of which the last is current, take the place of all that are
        loaded, which are returned: they take no more requests.

        Raises as `ready`; chains that are replaced next, `followed_by`, need not fit.
        """
        with self._lock:
            self._require_open()
            name = models[0].label
            before = self.serving.get(name)
            every = {one.version: one for one in models}
            serving = {**self.serving, name: ModelVersions(models[-1], every)}
            self._replace(serving, followed_by)
            return [] if before is None else [*before.all.values()]

    def switch(self, name: str, version: int) -> None:
        """Have a version answer the requests that name none. Raises NotLoaded, and UsageError
        where it does not fit a chain.
        """
        with self._lock:
            model = self.find(name, version)
            versions = self.serving[name]
            self._replace({**self.serving, name: ModelVersions(model, versions.all)})

    def withdraw(self, name: str, version: int | None) -> list[Served]:
        """Versions that are to take no more requests: one, or with None all of the model.

        Where the current one goes, the newest of the others becomes it. Raises NotLoaded, and
        UsageError where a chain needs these versions, or would not fit the new current one.
        """
        with self._lock:
            model = self.find(name, version)
            versions = self.serving[name]
            gone = [model] if version is not None else [*versions.all.values()]
            left = {number: one for number, one in versions.all.items() if one not in gone}
            self._require_unused(gone, bool(left))
            serving = {**self.serving}
            if left:
                current = left[max(left)] if versions.current in gone else versions.current
                serving[name] = ModelVersions(current, left)
            else:
                del serving[name]
            self._replace(serving)
            return gone

    def ended(self, models: Iterable[Served]) -> None:
        """Models that have no ranks any more; the numbers of those that were never ready are
        free.
        """
        gone = set(models)
        with self._lock:
            self.living = tuple(one for one in self.living if one not in gone)
            for one in gone:
                if one.client is None:
                    self._give_back(one.label, one.version)

    def close(self) -> bool:
        """Take no more models; whether this is the first time."""
        with self._lock:
            first = not self._closed
            self._closed = True
            return first

    def _require_open(self) -> None:
        if self._closed:
            raise Closed("the orchestrator is closed: it loads no more models.")

    def _require_unused(self, gone: Sequence[Served], left: bool) -> None:
        """Raise UsageError where a chain has versions among its steps that are to go; if others of
        the model are `left`, only steps count that name the version.
        """
        steps: set[tuple[str, int | None]] = {(one.label, one.version) for one in gone}
        if not left:
            steps |= {(one.label, None) for one in gone}
        for versions in self.serving.values():
            for chain in versions.all.values():
                if chain not in gone and not steps.isdisjoint(chain.steps):
                    raise UsageError(
                        f"{gone[0].name} is a step of the chain '{chain.label}': unload that first."
                    )

    def _require_chains(
        self, serving: Mapping[str, ModelVersions], followed_by: Collection[str]
    ) -> None:
        """Raise UsageError where the steps of a chain are to change, and would not fit it."""
        for name, versions in serving.items():
            for chain in versions.all.values() if name not in followed_by else ():
                for step in chain.steps:
                    old, new = _step(self.serving, *step), _step(serving, *step)
                    if old is not None and old is not new:
                        _require_fit(chain, serving, old, new)

    def _give_back(self, name: str, number: int) -> None:
        taken = self.serving[name].all if name in self.serving else {}
        if self._numbers[name] == number and number not in taken:
            self._numbers[name] -= 1

    def _replace(
        self, serving: Mapping[str, ModelVersions], followed_by: Collection[str] = ()
    ) -> None:
        self._require_chains(serving, followed_by)
        self.serving = serving
        self.loaded = {
            name: LoadedVersions(one.current.version, tuple(sorted(one.all)))
            for name, one in serving.items()
        }
        if self.changed is not None:
            self.changed()


def _find(
    serving: Mapping[str, ModelVersions], name: str | None, version: int | None = None
) -> Served:
    """See ModelTable.find."""
    if name is None and len(serving) == 1:
        name = next(iter(serving))
    versions = None if name is None else serving.get(name)
    if versions is None:
        got = "no model was named" if name is None else f"there is no model {name!r}"
        known = f"name one of {', '.join(serving)}" if serving else "none is loaded"
        raise NotLoaded(f"{got}: {known}.")
    if version is None:
        return versions.current
    if version not in versions.all:
        known = ", ".join(map(str, versions.all))
        raise NotLoaded(f"model {name!r} has no version {version!r}: name one of {known}.")
    return versions.all[version]


def _step(serving: Mapping[str, ModelVersions], name: str, version: int | None) -> Served | None:
    """The model that answers a step; None where there is none."""
    try:
        return _find(serving, name, version)
    except NotLoaded:
        return None


def _require_fit(
    chain: Served, serving: Mapping[str, ModelVersions], old: Served, new: Served | None
) -> None:
    """Raise UsageError unless a chain can do with the models of `serving`."""
    try:
        chain.require_steps(partial(_find, serving))
    except UsageError as error:
        change = "cannot go" if new is None else f"cannot be replaced by version {new.version}"
        raise UsageError(f"{old.name} {change}: {error}") from None
