"""Remote models: those of another process's orchestrator, by name and version, as they are now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..endpoint.messages import ModelCard, VersionCard
from ..requests.loaded_versions import LoadedVersions, NotLoaded
from .granted_memory import GrantedMemory
from .link import EndpointLink
from .remote_model import RemoteModel


class _Seen(NamedTuple):
    """The models that a message of the orchestrator has described."""

    cards: tuple[ModelCard, ...]
    loaded: Mapping[str, LoadedVersions]
    models: Mapping[tuple[str, int], RemoteModel]


class RemoteModels:
    """The models that take requests; for any thread."""

    def __init__(self, link: EndpointLink, memory: GrantedMemory) -> None:
        self._link = link
        self._memory = memory
        self._seen = _Seen((), {}, {})

    def loaded(self) -> Mapping[str, LoadedVersions]:
        """The numbers of all versions; another mapping after each change."""
        return self._look().loaded

    def find(self, name: str | None, version: int | None = None) -> RemoteModel:
        """A version of a model: by default the current one of the only one. Raises NotLoaded."""
        seen = self._look()
        if name is None and len(seen.loaded) == 1:
            name = next(iter(seen.loaded))
        versions = None if name is None else seen.loaded.get(name)
        if versions is None or name is None:
            got = "no model was named" if name is None else f"there is no model {name!r}"
            known = f"name one of {', '.join(seen.loaded)}" if seen.loaded else "none is loaded"
            raise NotLoaded(f"{got}: {known}.")
        if version is not None and version not in versions.all:
            known = ", ".join(map(str, versions.all))
            raise NotLoaded(f"model {name!r} has no version {version!r}: name one of {known}.")
        return seen.models[name, versions.current if version is None else version]

    def _look(self) -> _Seen:
        cards = self._link.models
        if cards is not self._seen.cards:
            before = self._seen.models
            models = {
                (one.name, version.version): self._model(before, one.name, version)
                for one in cards
                for version in one.versions
            }
            loaded = {
                one.name: LoadedVersions(one.current, tuple(sorted(_numbers(one)))) for one in cards
            }
            self._seen = _Seen(cards, loaded, models)
        return self._seen

    def _model(
        self, before: Mapping[tuple[str, int], RemoteModel], name: str, card: VersionCard
    ) -> RemoteModel:
        """The model of a card: that of before where it has not changed, as buffers belong to it."""
        found = before.get((name, card.version))
        if found is not None and found.card == card:
            return found
        return RemoteModel(name, card, self._link, self._memory)


def _numbers(card: ModelCard) -> list[int]:
    return [version.version for version in card.versions]
