"""Python source: imports the callable that the operator's configuration names."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from types import ModuleType

from ...comm.errors import ModelError
from ...comm.serving.python_function import PythonFunction


def load_callable(function: PythonFunction) -> Callable[..., object]:
    """The callable of a function; of a class an object, which is made here.

    Modules beside its file can be imported, behind installed ones. Raises ModelError; the
    traceback of an error in the source goes to stderr, which is the log of the rank.
    """
    try:
        module = _file(function) if function.in_file else importlib.import_module(function.source)
        found = getattr(module, function.name, None)
        found = found() if isinstance(found, type) else found
    except (Exception, SystemExit) as error:
        sys.stderr.write(traceback.format_exc())
        raise ModelError(f"{function.text} cannot be loaded: {sentence(error)}") from error
    if callable(found):
        call: Callable[..., object] = found
        return call
    got = "no such name" if found is None else f"{type(found).__name__} is no function"
    raise ModelError(f"{function.text}: {got} in {function.source}.")


def sentence(error: BaseException) -> str:
    """An error of a callable in one line: its class and the first line of its text."""
    first = (str(error).splitlines() or [""])[0][:500]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _file(function: PythonFunction) -> ModuleType:
    """The module of a file."""
    name = _module_name(function.source)
    spec = spec_from_file_location(name, function.source)
    assert spec is not None and spec.loader is not None  # the name of the file ends in .py
    module = module_from_spec(spec)
    sys.modules[name] = module
    sys.path.append(os.path.dirname(os.path.abspath(function.source)))
    spec.loader.exec_module(module)
    return module


def _module_name(path: str) -> str:
    """The name of a file as a module: its own, unless an installed module has that.

    Libraries import such a module by its name, and would get the file instead.
    """
    name = os.path.splitext(os.path.basename(path))[0]
    installed = name in sys.modules or name.isidentifier() and find_spec(name) is not None
    return f"{name}_function" if installed else name
