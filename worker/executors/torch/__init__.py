"""Torch executor: compiles segments into lists of torch calls, and runs them."""

from ....comm.errors import UsageError

try:
    import torch as torch  # before the modules that need it: the error says what to install
except ImportError as error:
    raise UsageError(
        f"the torch executor needs torch, which cannot be imported ({error}). Install it with: pip "
        "install 'rankmesh[torch]'."
    ) from None

from .torch_executor import TorchExecutor, open_executor, runs_on

__all__ = ["TorchExecutor", "open_executor", "runs_on"]
