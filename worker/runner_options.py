"""What a runner is asked for, from either generation of the API: its context, workers, devices and configuration."""

from __future__ import annotations

from dataclasses import dataclass

from ..comm.config import Config
from ..comm.context import Context
from ..comm.errors import UsageError
from ..comm.runner_config import RunnerConfig


@dataclass(frozen=True, slots=True)
class RunnerOptions:
    """`workers` is 0 where the machine decides; worker i runs on device `device_ids[i % len(device_ids)]`."""

    context: Context
    workers: int
    device_ids: tuple[int, ...]
    config: Config

    @classmethod
    def of_context(cls, context: Context) -> RunnerOptions:
        """What `context.parallel` says; UsageError where its configuration cannot be read."""
        parallel = context.parallel
        config = _read(parallel.config_path, parallel.sections)
        return cls(context, parallel.workers_num, tuple(parallel.device_ids), config)

    @classmethod
    def of_runner_config(cls, given: RunnerConfig | None) -> RunnerOptions:
        """The same of a RunnerConfig; a context that it names must have a device."""
        given = given or RunnerConfig()
        if given.context is not None and not given.context.has_device:
            raise UsageError("the context has no device: append_device_info(CPUDeviceInfo()), or set its target.")
        return cls(given.context or Context(), given.workers_num, (), _read(given.config_path, given.config_info))


def _read(path: str, sections: dict[str, dict[str, str]]) -> Config:
    try:
        return (Config.read(path) if path else Config()).updated(sections)
    except ValueError as error:
        raise UsageError(f"the configuration cannot be used: {error}") from error
