"""Model repository: the models of the configuration, and how they are loaded and unloaded."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from ...comm.errors import InputError, RankmeshError
from ..config.chain_settings import ChainSettings
from ..config.settings import ServedSettings
from ..orchestrator import Orchestrator
from .configuration import Configuration
from .faults import ChangeFailed, UnknownModel, public_text
from .management_settings import ManagementSettings
from .model_files import FileMarks, file_marks
from .weights_folder import WeightsFolder

_DONE: dict[RepositoryState, str] = {"LOADING": "loaded", "UNLOADING": "unloaded"}
_LOG = logging.getLogger("rankmesh.server")
Versions = tuple[ServedSettings, ...]
"""Settings of the versions of one model, lowest first."""
Marked = tuple[tuple[ServedSettings, FileMarks], ...]
"""These with the marks of their files."""
RepositoryState = Literal["READY", "LOADING", "UNLOADING", "UNAVAILABLE"]


@dataclass(frozen=True, slots=True)
class RepositoryEntry:
    """One version of a model, or with an empty version a model that is not loaded, or changes."""

    name: str
    version: str
    state: RepositoryState
    reason: str = ""


class ModelRepository:
    """The models of the configuration. Each has one change at a time; requests go on meanwhile.

    For one asyncio loop. Threads wait for the ranks; a change goes on where its client is gone.
    """

    def __init__(
        self,
        orchestrator: Orchestrator,
        settings: ManagementSettings,
        configuration: Configuration | None = None,
    ) -> None:
        """The models that `orchestrator` has are those of the configuration."""
        self._orchestrator = orchestrator
        self._settings = settings
        self._weights = WeightsFolder(settings.weights_folder)
        self._configuration = configuration
        self._configured: dict[str, Versions] = {
            name: tuple(orchestrator.model_settings(name, version) for version in loaded.all)
            for name, loaded in orchestrator.versions().items()
        }
        self._loaded_from = {name: _marked(one) for name, one in self._configured.items()}
        self._changing: dict[str, RepositoryState] = {}
        self._failures: dict[str, str] = {}
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._reading = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def entries(self, ready: Callable[[str, int], bool]) -> list[RepositoryEntry]:
        """All models; `ready` tells whether a version answers."""
        loaded = self._orchestrator.versions()
        found = []
        for name in dict.fromkeys((*self._configured, *loaded, *self._changing)):
            versions = loaded[name].all if name in loaded else ()
            for version in versions:
                if ready(name, version):
                    found.append(_entry(name, str(version), "READY"))
                else:
                    found.append(_entry(name, str(version), "UNAVAILABLE", "no replica answers"))
            if name in self._changing:
                found.append(_entry(name, "", self._changing[name]))
            elif name in self._failures:
                found.append(_entry(name, "", "UNAVAILABLE", self._failures[name]))
            elif not versions:
                found.append(_entry(name, "", "UNAVAILABLE", "unloaded"))
        return found

    async def load(self, name: str) -> None:
        """Load a model as the configuration has it; where it is loaded, the new version takes the
        place of the old one once it is ready, or all versions do that the configuration has.

        Raises UnknownModel, and ChangeFailed: then the old one goes on.
        """
        await self._look_up(name)
        if name not in self._configured:
            known = ", ".join(self._configured)
            raise UnknownModel(f"the configuration has no model '{name:.80}', but {known}.")
        await self._outlive(self._change(name, "LOADING", self._load))

    async def unload(self, name: str) -> None:
        """Unload a model after the requests under way; nothing where it is not loaded.

        Raises UnknownModel.
        """
        if name not in self._configured and name not in self._orchestrator.versions():
            raise UnknownModel(f"there is no model '{name:.80}'.")
        await self._outlive(self._change(name, "UNLOADING", self._unload))

    async def configure(self) -> None:
        """Read the configuration again, and make its models those of the server: load those that
        are new or have changed, unload those that are gone. The log tells what failed.
        """
        configuration = self._configuration
        if configuration is None:
            return
        async with self._reading:
            try:
                models = _by_name(await asyncio.to_thread(configuration.models))
            except RankmeshError as error:
                _LOG.error("the configuration is not read again, all models go on: %s", error)
                return
            before = self._configured
            gone = before.keys() - models.keys()
            self._configured = models
            for name in sorted(gone, key=lambda one: not _is_chain(before[one])):  # before steps
                await self._try(self._change(name, "UNLOADING", self._unload))
            changed = [name for name in models if self._differs(name)]
            chains = [name for name in changed if _is_chain(models[name])]
            for name in sorted(changed, key=lambda one: one in chains):  # behind steps
                load = partial(self._load, followed_by=chains)
                await self._try(self._change(name, "LOADING", load))
            _LOG.info("the configuration was read again: %s", ", ".join(models))

    async def update_weights(self, name: str, file: str, delta: bool) -> int:
        """Replace weights of a model by those of a file in the operator's folder; the version.

        Raises what update_weights of an orchestrator raises.
        """
        path = self._weights.path(file)
        return await asyncio.to_thread(self._orchestrator.update_weights, path, delta, name)

    async def rollback(self, name: str) -> int:
        """Go back to the weights before the last update; their version."""
        return await asyncio.to_thread(self._orchestrator.rollback, name)

    async def _look_up(self, name: str) -> None:
        """Read what the configuration has of a model now, where it can be asked for one.

        Raises ChangeFailed where that cannot be read.
        """
        if self._configuration is None:
            return
        try:
            found = await asyncio.to_thread(self._configuration.model, name)
        except RankmeshError as error:
            raise self._failed(name, error) from error
        if found:
            self._configured[name] = tuple(found)
        elif found is not None:
            self._configured.pop(name, None)

    def _differs(self, name: str) -> bool:
        """Whether a model is not loaded as the configuration, and its files, have it now."""
        if name not in self._orchestrator.versions():
            return True
        return self._loaded_from.get(name) != _marked(self._configured[name])

    async def _outlive(self, change: Coroutine[None, None, None]) -> None:
        """Wait for a change, which goes on where the client that waits is gone."""
        task = asyncio.create_task(change)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        await asyncio.shield(task)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # the log has it: asyncio need not tell

    async def _try(self, change: Coroutine[None, None, None]) -> None:
        try:
            await change
        except ChangeFailed:
            return  # the log has it, and the index

    async def _change(self, name: str, state: RepositoryState, act: Callable[[str], str]) -> None:
        """Carry out one change of a model, in its turn."""
        async with self._turns[name]:
            self._changing[name] = state
            try:
                done = await asyncio.to_thread(act, name)
            except RankmeshError as error:
                raise self._failed(name, error, _DONE[state]) from error
            finally:
                del self._changing[name]
            self._failures.pop(name, None)
            _LOG.info("model '%s': %s", name, done)

    def _failed(self, name: str, error: RankmeshError, wanted: str = "loaded") -> ChangeFailed:
        """Note why a change has failed."""
        _LOG.error("model '%s': cannot be %s, nothing has changed: %s", name, wanted, error)
        self._failures[name] = public_text(error)
        return ChangeFailed(f"{name}: cannot be {wanted}, and nothing has changed: {error}")

    def _load(self, name: str, followed_by: Collection[str] = ()) -> str:
        marked = _marked(self._configured[name])  # files that change meanwhile are seen next time
        models = [settings for settings, _ in marked]
        versions = self._orchestrator.replace(
            models, self._settings.drain_timeout, followed_by=followed_by
        )
        self._loaded_from[name] = marked
        return f"loaded as version {', '.join(map(str, versions))}"

    def _unload(self, name: str) -> str:
        if name in self._orchestrator.versions():
            self._orchestrator.unload(name, None, self._settings.drain_timeout)
        return "unloaded"


def _by_name(models: Iterable[ServedSettings]) -> dict[str, Versions]:
    found: dict[str, Versions] = {}
    for one in models:
        found[one.label] = (*found.get(one.label, ()), one)
    return found


def _is_chain(versions: Versions) -> bool:
    return isinstance(versions[-1], ChainSettings)


def _marked(versions: Versions) -> Marked:
    return tuple((one, file_marks(one)) for one in versions)


def require_no_content(parameters: Iterable[str]) -> None:
    """InputError where a client would give the model or its configuration itself."""
    given = sorted(parameters)
    if given:
        raise InputError(
            f"load: got the parameter {given[0]!r:.60}, expected none: models are loaded "
            "as the configuration of the server has them."
        )


def _entry(name: str, version: str, state: RepositoryState, reason: str = "") -> RepositoryEntry:
    return RepositoryEntry(name, version, state, reason)
