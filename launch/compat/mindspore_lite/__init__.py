"""The package `mindspore_lite` of Rankmesh: MindSpore Lite's names for existing scripts.

An installed MindSpore Lite takes precedence, unless RANKMESH_COMPAT=force.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder

import rankmesh

__version__: str = rankmesh.__version__


def _real() -> ModuleSpec | None:
    """The real package, if one lies elsewhere on sys.path."""
    if os.environ.get("RANKMESH_COMPAT") == "force":
        return None
    mine = os.path.realpath(os.path.dirname(os.path.dirname(__file__)))
    elsewhere = [path for path in sys.path if os.path.realpath(path or os.curdir) != mine]
    spec = PathFinder.find_spec("mindspore_lite", elsewhere)
    return (
        spec if spec is not None and spec.origin is not None else None
    )  # a plain folder of that name does not count


def _load(spec: ModuleSpec) -> None:
    """Replace this package by the real one in sys.modules, from where the import statement takes
    it.
    """
    module = importlib.util.module_from_spec(spec)
    sys.modules["mindspore_lite"] = module
    assert spec.loader is not None
    spec.loader.exec_module(module)


_found = _real() if __name__ == "mindspore_lite" else None
if _found is not None:
    _load(_found)

__all__ = list(rankmesh._HOME)
_SUBMODULES: dict[str, tuple[str, ...]] = {
    "_check_ascend": (),
    "_checkparam": (),
    "base_model": (),
    "context": (),
    "converter": (),
    "lite_infer": (),
    "llm_engine": (
        "LLMBlockOutOfMemory",
        "LLMNoFreeBlocks",
        "LLMOutOfMemory",
        "LLMPrefixAlreadyExist",
        "LLMPrefixNotExist",
        "LLMSeqLenOverLimit",
    ),
    "model": (),
    "tensor": (),
    "version": (),
}
"""Import paths of MindSpore Lite. Each has all public names, and names that only it has."""


def __getattr__(name: str) -> object:
    """A public name of Rankmesh."""
    if name.startswith("_"):
        raise AttributeError(f"module 'mindspore_lite' has no attribute {name!r}")
    try:
        return getattr(rankmesh, name)
    except AttributeError:
        raise AttributeError(
            f"module 'mindspore_lite' has no attribute {name!r} (Rankmesh answers for it, and does "
            f"not have it yet)"
        ) from None


def _name_of_llm_engine(name: str) -> object:
    """A name of the submodule of the LLM engine."""
    if name in _SUBMODULES["llm_engine"]:
        return getattr(importlib.import_module("rankmesh.worker.api.llm.errors"), name)
    return __getattr__(name)


def __dir__() -> list[str]:
    """Rankmesh's public names and the submodules."""
    return [*__all__, *_SUBMODULES]


def _register(name: str, own: tuple[str, ...]) -> None:
    """Make a submodule, which is then imported without a file."""
    module = importlib.util.module_from_spec(ModuleSpec(f"{__name__}.{name}", None))
    vars(module).update(
        __doc__=f"`mindspore_lite.{name}`: an import path of MindSpore Lite.",
        __version__=__version__,
        __getattr__=_name_of_llm_engine if own else __getattr__,
        __dir__=__dir__,
    )
    sys.modules[module.__name__] = globals()[name] = module


for _submodule in _SUBMODULES.items() if _found is None else ():
    _register(*_submodule)
