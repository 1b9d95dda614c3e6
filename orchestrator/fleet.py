"""Fleet of an orchestrator: starts and ends its models, on shared memory and one event loop."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from ..comm.errors import Draining, UsageError
from ..comm.host.secrecy import close_to_others
from ..comm.limits import require_files
from ..comm.loggers import check_log_setting
from ..comm.serving.decoder_files import CONFIG
from .config.agent_settings import AgentSettings
from .config.chain_settings import ChainSettings, inner_first
from .config.settings import ModelSettings, ServedSettings
from .config.sliced_models import SlicedModels
from .config.topology import files_of, plan_beside
from .event_loop.loop import IdleTrim, Reminder
from .event_loop.termination import Termination
from .model_table import ModelTable
from .scheduling.loop_caller import LoopCaller
from .scheduling.request_client import RequestClient
from .served import Served, wait_idle
from .served_chain import ServedChain
from .served_model import ModelPlan, ServedModel, SharedParts, end_replicas, wait_ended

if TYPE_CHECKING:
    from .endpoint.endpoint import Endpoint
    from .request_calls import ModelCaller
    from .served_decoder import ServedDecoder

_FILES = 100
"""Descriptors of an orchestrator without ranks: most are seats of threads that wait."""


StartedModel: TypeAlias = "ServedModel | ServedDecoder"
"""A version of a model that has ranks."""


class Fleet:
    """All that an Orchestrator runs; refers to no Orchestrator, so that one can be forgotten."""

    def __init__(
        self, lease_limit: int, drain_timeout: float, agents: AgentSettings | None
    ) -> None:
        """Prepare to start; no process is started yet."""
        check_log_setting()
        close_to_others()  # before there is memory that requests and weights are in
        self._process = os.getpid()
        self._draining = False
        require_files(_FILES, "an orchestrator")
        self.parts = SharedParts.made(lease_limit, agents)
        self.table = ModelTable()
        self._endpoint: Endpoint | None = None
        self._opening = threading.Lock()
        self._termination = Termination(self.drain, self.close, drain_timeout)

    def start(self, models: Sequence[ServedSettings]) -> None:
        """Start all ranks and wait until they are ready.

        Raises what went wrong; then no process is left.
        """
        parts = self.parts
        try:
            chains = [one for one in models if isinstance(one, ChainSettings)]
            made = self._prepared([one for one in models if isinstance(one, ModelSettings)])
            parts.loop.start()
            IdleTrim(parts.arena, parts.loop)
            Reminder(parts.slots, parts.loop)
            parts.launcher.open()
            self._run(made, switch=True)
            for chain in inner_first(chains, {one.label for one in models}):
                self._add(chain, switch=True)
            self._termination.enable()
        except BaseException:
            self.close()
            raise

    def load(self, settings: ServedSettings, switch: bool) -> Served:
        """Start a further model or chain, or version of one; it takes requests once it is ready.

        With `switch` those that name no version go to it. Raises what went wrong; then nothing has
        changed.
        """
        self._require_loading()
        if isinstance(settings, ChainSettings):
            return self._add(settings, switch)
        made = self._prepared([settings])
        self._run(made, switch)
        return made[0]

    def replace(
        self, models: Sequence[ServedSettings], timeout: float | None, followed_by: Collection[str]
    ) -> list[int]:
        """Start versions of one model or chain, of which the last is to be current; once all are
        ready, end those that were loaded before, as `unload` does. The numbers of the versions.

        Chains that are replaced next, `followed_by`, need not fit. Raises what went wrong; then
        nothing has changed.
        """
        self._require_loading()
        made = self._ready(models)
        with self._ended_after_errors(made):
            gone = self.table.replace(made, followed_by)
        self._retire(gone, timeout)
        return [one.version for one in made]

    def unload(self, name: str, version: int | None, timeout: float | None) -> bool:
        """End a version of a model, or with None all; whether its requests were answered within
        `timeout` seconds.
        """
        self._require_caller("unload")
        return self._retire(self.table.withdraw(name, version), timeout)

    def _ready(self, models: Sequence[ServedSettings]) -> Sequence[Served]:
        """Versions of one model or chain that are ready, and take no requests yet."""
        made = self._prepared([one for one in models if isinstance(one, ModelSettings)])
        self._await_ready(made)
        chains = [one for one in models if isinstance(one, ChainSettings)]
        return [*made, *map(self._chain, chains)]

    def _retire(self, models: Sequence[Served], timeout: float | None) -> bool:
        """End models that take no more requests; see `unload`."""
        try:
            for model in models:
                model.drain(model.name)
            return wait_idle(models, timeout)
        finally:
            for model in models:
                model.give_up(f"{model.name} was unloaded before the request was answered.")
            self._end(models)
            for model in models:
                model.journal.say(logging.INFO, "unloaded")

    def find(self, model: str | None, version: int | None = None) -> Served:
        """A model, None for the only one, in a version, None for the current one.

        UsageError where there is no such model, or in a forked child.
        """
        if os.getpid() != self._process:
            raise UsageError(
                f"this orchestrator belongs to process {self._process}, from which this one was "
                "forked: use it there, or make one here."
            )
        return self.table.find(model, version)

    def client(self, model: str | None, version: int | None = None) -> RequestClient:
        """The client of a model, likewise."""
        served = self.find(model, version)
        if served.client is None:
            raise UsageError(
                f"{served.name} generates text: call generate or stream in place of predict."
            )
        return served.client

    def decoder(self, model: str | None, version: int | None = None) -> ServedDecoder:
        """A model that generates text, likewise. Raises UsageError for other models."""
        from .served_decoder import ServedDecoder  # here: few orchestrators have one

        served = self.find(model, version)
        if not isinstance(served, ServedDecoder):
            raise UsageError(
                f"{served.name} generates no text: call predict, or name a folder with a {CONFIG}, "
                "a GGUF file, or a Hugging Face folder whose settings have a block generation."
            )
        return served

    def replaced(self, caller: ModelCaller, model: str | None) -> bool:
        """Whether requests to a model without a version have another caller by now."""
        return self.client(model) is not caller

    def clients(self) -> list[RequestClient]:
        """All clients of models that may answer yet, those that are being unloaded, too."""
        return [one.client for one in self.table.living if one.client is not None]

    def loop_caller(self, loop: asyncio.AbstractEventLoop) -> LoopCaller:
        """A caller for an asyncio loop; in its thread."""
        return LoopCaller(self, self.parts.slots, loop)

    def endpoint(self) -> Endpoint:
        """Where other programs send their requests; made when it is first asked for."""
        self._require_caller("listen")
        from .endpoint.endpoint import Endpoint  # here: few orchestrators have one
        from .model_offer import ModelOffer

        with self._opening:
            if self._endpoint is None:
                self._endpoint = Endpoint(ModelOffer(self.table), self.parts.arena, self.parts.loop)
        return self._endpoint

    def drain(self, timeout: float | None) -> bool:
        """Take no more requests; whether those under way were answered within `timeout` seconds."""
        self.parts.loop.require_another("drain")
        self._draining = True
        models = self.table.living
        for model in models:
            model.drain("the orchestrator")
        return wait_idle(models, timeout)

    def close(self) -> None:
        """End everything, once; in a forked child nothing, which owns nothing."""
        parts = self.parts
        if os.getpid() != self._process:
            return
        if threading.current_thread() is parts.loop:  # in a callback, or the garbage collector
            threading.Thread(target=self.close, name="rankmesh-close", daemon=True).start()
            return
        if not self.table.close():
            return
        self._termination.forget()
        models = sorted(self.table.living, key=lambda one: not one.steps)
        for model in models:
            model.give_up("the orchestrator was closed before the request was answered.")
        if parts.loop.is_alive():
            replicas = [one for model in models for one in model.replicas]
            if self._endpoint is not None:
                parts.loop.call_soon(self._endpoint.stop_listening)
            parts.loop.call_soon(lambda: end_replicas(replicas, parts.loop.stop))
            parts.loop.join()
        parts.launcher.close()
        if self._endpoint is not None:
            self._endpoint.close()
        for model in models:
            model.release()
        parts.arena.close()
        parts.weights.close()
        parts.slots.close()
        for model in models:
            model.journal.say(logging.INFO, "closed")

    def _prepared(self, models: Sequence[ModelSettings]) -> list[StartedModel]:
        """Models that are planned together; UsageError, ModelError where they cannot start."""
        sliced = [SlicedModels() for _ in models]
        made: list[StartedModel] = []
        try:
            files = [
                files_of(one.shards_of(model)) for one, model in zip(sliced, models, strict=True)
            ]
            living = [spec for one in self.table.living for spec in one.ranks]
            plans, spin, spare = plan_beside(files, living, self.parts.launcher.elsewhere)
            self.parts.slots.set_spare(spare)
            for given, found, kept in zip(models, files, sliced, strict=True):
                mine = [one for one in plans if one.runs(found.settings)]
                plan = ModelPlan(given, found, mine, kept, spin)
                with self.table.number(found.settings.label, given.version) as version:
                    made.append(_served(version, plan, self.parts))
            self.table.starts(made)
        except BaseException:
            for kept in sliced:
                kept.close()
            raise
        return made

    def _run(self, models: Sequence[StartedModel], switch: bool) -> None:
        """Start models and wait until they take requests; if one fails, end them all."""
        self._await_ready(models)
        with self._ended_after_errors(models):
            self.table.ready(models, switch)

    @contextmanager
    def _ended_after_errors(self, models: Sequence[Served]) -> Iterator[None]:
        """End models that are ready, after an error in this context."""
        try:
            yield
        except BaseException:
            for model in models:
                model.give_up(f"{model.name} has not started.")
            self._end(models)
            raise

    def _await_ready(self, models: Sequence[StartedModel]) -> None:
        """Start models and wait until they are ready; if one fails, end them all."""
        with self._ended_after_errors(models):
            for model in models:
                self.parts.loop.call_soon(model.start)
            for model in models:
                model.wait_started()

    def _add(self, settings: ChainSettings, switch: bool) -> ServedChain:
        """A further chain, which takes requests; UsageError where a step does not fit."""
        chain = self._chain(settings)
        with self._ended_after_errors([chain]):
            self.table.ready([chain], switch)
        return chain

    def _chain(self, settings: ChainSettings) -> ServedChain:
        """A chain, whose models take requests."""
        with self.table.number(settings.name, settings.version) as version:
            chain = ServedChain(version, settings, self, self.parts)
            self.table.starts([chain])
        return chain

    def _end(self, models: Sequence[Served]) -> None:
        """End the ranks of models, and free what they needed."""
        replicas = [one for model in models for one in model.replicas]
        wait_ended(replicas, self.parts.loop)
        for model in models:
            model.release()
        self.table.ended(models)
        self.parts.arena.trim()

    def _require_loading(self) -> None:
        """Raise Draining, or UsageError, where no more models are loaded."""
        self._require_caller("load")
        if self._draining:
            raise Draining("the orchestrator drains: it loads no more models.")

    def _require_caller(self, call: str) -> None:
        """Raise UsageError in a thread that cannot wait for models, and in a forked child."""
        if os.getpid() != self._process:
            self.find(None)
        self.parts.loop.require_another(call)


def _served(version: int, plan: ModelPlan, parts: SharedParts) -> StartedModel:
    """A version of a model, which generates text where its files are a decoder's."""
    if plan.sliced.decoder is not None:
        from .served_decoder import ServedDecoder  # as above

        return ServedDecoder(version, plan, parts)
    return ServedModel(version, plan, parts)
