"""The RunnerConfig of older scripts: what they pass to ModelParallelRunner.init."""

from __future__ import annotations

import os

from .arguments import check_count, check_sections, check_type
from .config import Sections
from .context import Context


class MissingConfig(ValueError, RuntimeError):
    """The configuration file is not there; releases of the API we stand in for raised either class."""


class RunnerConfig:
    """The context of a runner's workers, their number (0 or None: as many as fit), and their configuration.

    `config_path` is an .ini file, `config_info` sections laid over it. Raises TypeError, ValueError.
    """

    def __init__(self, context: Context | None = None, workers_num: int | None = None,
                 config_info: Sections | None = None, config_path: str | None = None) -> None:
        if context is not None:
            check_type("context", context, Context)
        if workers_num is not None:
            check_count("workers_num", workers_num)
        if config_info is not None:
            check_sections("config_info", config_info)
        if config_path is not None:
            _check_file(config_path)
        self.context = context
        self.workers_num = workers_num or 0
        self.config_info = {name: dict(entries) for name, entries in (config_info or {}).items()}
        self.config_path = config_path or ""

    def __str__(self) -> str:
        cpu = (self.context or Context()).cpu
        lines = "".join(f"{section}: {key} {value}\n" for section, entries in self.config_info.items()
                        for key, value in entries.items())
        return (f"workers num: {self.workers_num},\nconfig info: {lines},\ncontext: thread num: {cpu.thread_num}, "
                f"bind mode: {cpu.thread_affinity_mode},\nconfig path: {self.config_path}.")


def _check_file(path: str) -> None:
    check_type("config_path", path, str)
    if path and not os.path.exists(path):
        raise MissingConfig(f"config_path does not exist, got '{path}'.")
