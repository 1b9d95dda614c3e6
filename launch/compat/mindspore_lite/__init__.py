"""`mindspore_lite`, answered by Rankmesh unless the real package is installed (RANKMESH_COMPAT=force overrules)."""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
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
    return spec if spec is not None and spec.origin is not None else None  # a folder of that name is no package


def _load(spec: ModuleSpec) -> None:
    """Put the real package in this one's place; whoever is importing gets what sys.modules has in the end."""
    module = importlib.util.module_from_spec(spec)
    sys.modules["mindspore_lite"] = module
    assert spec.loader is not None
    spec.loader.exec_module(module)


_found = _real() if __name__ == "mindspore_lite" else None
if _found is not None:
    _load(_found)

__all__ = list(rankmesh._HOME)
_SUBMODULES = [module.name for module in pkgutil.iter_modules(__path__)]


def __getattr__(name: str) -> object:
    """Everything public is Rankmesh's own, but for the submodules, which need not be imported to be used."""
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name.startswith("_"):
        raise AttributeError(f"module 'mindspore_lite' has no attribute {name!r}")
    try:
        return getattr(rankmesh, name)
    except AttributeError:
        raise AttributeError(f"module 'mindspore_lite' has no attribute {name!r} (Rankmesh answers for it, and does "
                             f"not have it yet)") from None


def __dir__() -> list[str]:
    """Rankmesh's public names and the submodules."""
    return [*__all__, *_SUBMODULES]
