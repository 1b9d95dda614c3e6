"""Torch executor: compiles segments into lists of torch calls, and runs them."""

from .torch_executor import TorchExecutor, open_executor, runs_on

__all__ = ["TorchExecutor", "open_executor", "runs_on"]
