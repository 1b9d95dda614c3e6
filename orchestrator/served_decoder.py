"""Served decoder: one version of a model that generates text, with its replicas and sequences."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..comm.errors import Closed, InputError, RankmeshError, UsageError
from ..comm.host.resources import memory_limit
from ..comm.host.sealed_memory import FIXED, create_sealed
from ..comm.serving.steps import DecoderJob, DecoderReport
from .config.class_labels import class_labels_of
from .config.generation_settings import GenerationSettings
from .config.topology import ReplicaPlan
from .generation.chat_template import ChatTemplate, Message
from .generation.decoder_dispatcher import DecoderDispatcher
from .generation.engine import DecoderEngine
from .generation.sampler import Sampler
from .generation.sampling_settings import SamplingSettings
from .generation.sequence import Sequence as TextSequence
from .generation.text_stream import TextStream
from .generation.text_tokenizer import NoText, TextTokenizer
from .generation.texts import Prompt
from .replica.rank_status import DecoderStatus
from .replica.replica import Replica
from .requests.metrics import ModelMetrics
from .served import Served
from .served_model import ModelPlan, SharedParts, replica_of
from .weights.weight_updates import WeightUpdates

_DEFAULT_TOKENS = 256
"""Tokens of a text that says nothing, where the context has room for them."""

_LEAST_ROWS = 32
"""Rows of the longest query at least: a self-test needs as many."""

_SHARE = 4
"""Keys and values get this part of the host's memory, all ranks together."""


class ServedDecoder(Served):
    """One version of a decoder, from the start of its ranks to their end."""

    def __init__(self, version: int, plan: ModelPlan, parts: SharedParts) -> None:
        """No process is started yet. Raises UsageError for settings that no decoder has."""
        settings = plan.files.settings
        _refuse_settings(plan, parts.launcher.elsewhere)
        super().__init__(version, plan.given, class_labels_of(settings))
        self.label = settings.label
        self.generation = settings.generation or GenerationSettings()
        self.ranks = tuple(spec for replica in plan.replicas for spec in replica.ranks)
        world_size = len(plan.replicas[0].ranks)
        plan.files.shards.require(world_size)
        self.dispatcher = DecoderDispatcher(
            settings, len(plan.replicas), world_size, parts.loop, version
        )
        self.journal = self.dispatcher.journal
        self.table = self.dispatcher.scheduler
        config = plan.sliced.decoder
        assert config is not None
        self._config, folder = os.path.abspath(config), os.path.dirname(config)
        self.tokenizer = TextTokenizer.beside(folder)
        self._template = ChatTemplate.beside(folder)
        self._timeout = settings.timeout
        self._files: list[int] = []
        self._parts = parts
        self._numbers = itertools.count(1)
        self.replicas = tuple(self._replica(plan, one) for one in plan.replicas)
        self.engines = [
            DecoderEngine(
                index,
                self.dispatcher,
                self.generation,
                parts.arena,
                parts.slots,
                parts.loop,
                replica,
            )
            for index, replica in enumerate(self.replicas)
        ]
        self.dispatcher.wake = lambda index: self.engines[index].wake()
        self.dispatcher.queue.wake = self._wake

    @property
    def name(self) -> str:
        """See Served.name."""
        return f"model '{self.label}' version {self.version}"

    def require_steps(self, find: Callable[[str, int | None], Served]) -> None:
        """See Served.require_steps: a model has none."""

    @property
    def updates(self) -> WeightUpdates:
        """See Served.updates."""
        raise UsageError(f"{self.name} generates text: its weights are not updated.")

    @property
    def waiting(self) -> int:
        """See Served.waiting."""
        return len(self.dispatcher.queue)

    @property
    def report(self) -> DecoderReport:
        """The report of the decoder's first rank."""
        report = self.dispatcher.report
        assert report is not None and report.decoder is not None
        return report.decoder

    def metrics(self) -> ModelMetrics:
        """See Served.metrics."""
        return {
            **self.dispatcher.queue.counters.snapshot(),
            "queue_depth": self.waiting,
            "running": sum(len(engine.running) for engine in self.engines),
            "weights_version": 0,
        }

    def submit(
        self,
        prompt: Prompt,
        sampling: Mapping[str, Any],
        timeout: float | None,
        priority: int,
    ) -> TextSequence:
        """Have a text be generated. Raises InputError, QueueFull, Draining, Closed."""
        queue = self.dispatcher.queue
        try:
            sequence = self._sequence(prompt, SamplingSettings.of(sampling), priority)
            if timeout is not None:
                sequence.deadline = sequence.submitted + timeout
            queue.put(sequence)
        except RankmeshError as error:
            queue.counters.refused(error)
            raise
        return sequence

    def _sequence(self, prompt: Prompt, settings: SamplingSettings, priority: int) -> TextSequence:
        """A text that is to be generated. Raises InputError, Draining, Closed."""
        self.dispatcher.scheduler.admission.require_open()
        tokens = self._tokens(prompt)
        most = self._room(tokens, settings)
        own = set() if settings.ignore_eos else {*self.report.end_tokens}
        ends = {*own, *settings.stop_tokens}
        if settings.stop_texts and self.tokenizer is None:
            raise InputError(f"{self.name} has no tokenizer, so that no text can end it (stop).")
        decoder = NoText() if self.tokenizer is None else self.tokenizer.decoder(tokens)
        return TextSequence(
            next(self._numbers),
            tokens,
            settings,
            most,
            ends,
            Sampler(settings, tokens, ends),
            TextStream(decoder, settings.stop_texts),
            self.dispatcher.queue.ended,
            priority=priority,
        )

    def chat_tokens(self, messages: Sequence[Message]) -> list[int]:
        """The tokens of a chat, by the model's template, which has the one at the beginning itself.

        Raises InputError.
        """
        if self._template is None or self.tokenizer is None:
            raise InputError(f"{self.name} has no chat template: give a prompt.")
        return self.tokenizer.tokens(self._template.prompt(messages), whole=False)

    @property
    def timeout(self) -> float | None:
        """Seconds of a text that says nothing; None: no deadline."""
        return self._timeout

    def decoder_status(self) -> DecoderStatus:
        """See Served.decoder_status."""
        reports = [
            one.decoder
            for state in self.dispatcher.scheduler.replicas
            for one in state.reports
            if one.decoder is not None
        ]
        first = reports[0] if reports else None
        held = [one for engine in self.engines for one in [*engine.running.values()]]
        running = [one for one in held if not one.over]
        return DecoderStatus(
            self.label,
            self.version,
            len(running),
            self.waiting,
            sum(one.sequences for one in reports) // max(1, len(self.replicas[0].spec.ranks)),
            0 if first is None else first.capacity,
            sum(one.length for one in running),
            0 if first is None else first.bytes_per_token * first.capacity,
            sum(engine.generated for engine in self.engines),
            sum(engine.steps for engine in self.engines),
            next((one.inexact for one in reports if one.inexact), ""),
        )

    def start(self) -> None:
        """Start the replicas; in the event loop's thread."""
        for replica in self.replicas:
            replica.start()

    def wait_started(self) -> None:
        """Wait until the ranks are ready; raises what went wrong."""
        self.dispatcher.scheduler.admission.wait_started()
        if self.dispatcher.report is None:
            raise Closed("the orchestrator was closed while it started.")
        for engine in self.engines:
            engine.start()

    def drain(self, subject: str) -> None:
        """See Served.drain."""
        self.dispatcher.scheduler.admission.drain(subject)

    def wait_idle(self, seconds: float | None) -> bool:
        """See Served.wait_idle."""
        return self.dispatcher.queue.wait_idle(seconds)

    def give_up(self, text: str) -> None:
        """See Served.give_up."""
        self.dispatcher.give_up(Closed(text))

    def release(self) -> None:
        """See Served.release."""
        self.dispatcher.scheduler.admission.start()
        for engine in self.engines:
            engine.end()
        files, self._files = self._files, []
        for file in files:
            os.close(file)

    def _wake(self) -> None:
        for engine in self.engines:
            engine.wake()

    def _tokens(self, prompt: Prompt) -> list[int]:
        """The tokens of a prompt. Raises InputError for tokens that the model lacks."""
        if isinstance(prompt, str):
            if self.tokenizer is None:
                raise InputError(
                    f"{self.name} has no tokenizer.json: give the prompt as a list of token ids."
                )
            tokens = self.tokenizer.tokens(prompt)
        else:
            tokens = list(prompt)
        vocabulary = self.report.vocabulary
        for token in tokens:
            if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < vocabulary:
                raise InputError(
                    f"prompt: got the token {token!r:.50}, expected ids from 0 to {vocabulary - 1}."
                )
        if not tokens:
            raise InputError("prompt: got no tokens, expected one or more.")
        return tokens

    def _room(self, tokens: Sequence[int], settings: SamplingSettings) -> int:
        """The most tokens that are generated. Raises InputError where there is no room for them."""
        capacity, prompt = self.report.capacity, len(tokens)
        most = settings.max_tokens
        if most is None:
            most = max(1, min(_DEFAULT_TOKENS, capacity - prompt))
        if prompt + most > capacity:
            raise InputError(
                f"prompt and max_tokens: got {prompt} and {most} tokens, expected at most "
                f"{capacity} together, the context. Give a shorter prompt or fewer max_tokens."
            )
        return most

    def _replica(self, plan: ModelPlan, replica: ReplicaPlan) -> Replica:
        memory = self._memory(len(plan.replicas) * len(replica.ranks), len(replica.ranks))
        return replica_of(plan, replica, self._parts, self.dispatcher, "cpu", decoder=memory)

    def _memory(self, ranks: int, in_replica: int) -> DecoderJob:
        """Memory for the keys and values of a replica's ranks, one part behind the other. Pages
        that no sequence has used cost nothing.
        """
        own = self.generation
        size = own.kv_memory or memory_limit().size // _SHARE // ranks
        size = size // os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PAGE_SIZE")
        file = create_sealed("keys and values", size * in_replica, FIXED)
        self._files.append(file)
        rows = max(own.prompt_tokens, own.step_tokens, _LEAST_ROWS) + 1
        return DecoderJob(self._config, own.max_sequences, own.context or 0, rows, file, size)


def _refuse_settings(plan: ModelPlan, elsewhere: bool) -> None:
    """Raise UsageError for settings that do nothing for a decoder."""
    settings = plan.given
    wrong = [
        name
        for name in ("batching", "precision_mode", "execution_plan", "executor", "labels")
        if getattr(settings, name) is not None
    ]
    if elsewhere:
        raise UsageError(
            f"model '{settings.label}' generates text, which ranks on other hosts do not: leave "
            "launcher out."
        )
    if settings.device not in (None, "cpu"):
        wrong.append("device")
    if wrong:
        raise UsageError(
            f"model '{settings.label}' generates text, and {wrong[0]} is not for such models: "
            "leave it out."
        )
