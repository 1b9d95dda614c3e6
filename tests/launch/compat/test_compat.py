"""`import mindspore_lite`: Rankmesh's own answer, the real package where there is one, children of
all kinds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from launched import launch, of_each_rank, script
from processes import rankmesh

import rankmesh as package
from rankmesh.launch.compat import compat_path

ORIGIN = "import mindspore_lite as m; print(m.__name__, m.__version__, m.Model.__module__)"
OURS = f"mindspore_lite {package.__version__} rankmesh.worker.api.model"


def python(code: str, *folders: Path, compat: str = "") -> str:
    """Run code with compat-path first on PYTHONPATH, then `folders`; its standard output."""
    path = [compat_path(), *map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "RANKMESH_COMPAT": compat}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=250,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def real(tmp_path: Path) -> Path:
    """A folder with a package of that name, as if the real one were installed."""
    home = tmp_path / "site" / "mindspore_lite"
    home.mkdir(parents=True)
    (home / "__init__.py").write_text("from .model import Model\n__version__ = 'real'\n")
    (home / "model.py").write_text("class Model: pass\n")
    return home.parent


def test_command_prints_the_folder_and_nothing_else() -> None:
    done = rankmesh("compat-path")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{compat_path()}\n", "")
    assert os.listdir(done.stdout.rstrip()) and "mindspore_lite" in os.listdir(done.stdout.rstrip())


def test_answers_for_it() -> None:
    assert python(ORIGIN) == OURS


def test_errors_of_the_llm_engine_that_only_its_module_has() -> None:
    code = """
from mindspore_lite.llm_engine import LLMException, LLMOutOfMemory, LLMPrefixAlreadyExist, LLMPrefixNotExist
from mindspore_lite.llm_engine import LLMBlockOutOfMemory, LLMNoFreeBlocks, LLMSeqLenOverLimit
print(issubclass(LLMOutOfMemory, LLMException))
"""  # noqa: E501
    assert python(code) == "True"


def test_version_of_the_submodule() -> None:
    assert (
        python("from mindspore_lite.version import __version__; print(__version__)")
        == package.__version__
    )


def test_name_that_is_missing() -> None:
    code = """
import mindspore_lite
try:
    mindspore_lite.Telepathy
except AttributeError as error:
    print(error)
try:
    from mindspore_lite.model import _private
except ImportError as error:
    print(error)
"""
    said = python(code)
    assert (
        "has no attribute 'Telepathy' (Rankmesh answers for it, and does not have it yet)" in said
    )
    assert "cannot import name '_private'" in said


def test_importing_it_loads_nothing_heavy() -> None:
    code = (
        "import mindspore_lite, sys; print(sorted({'numpy', 'onnx', 'onnxruntime', 'torch'} "
        "& set(sys.modules)))"
    )
    assert python(code) == "[]"


def test_real_package_further_down_wins(real: Path) -> None:
    assert python(ORIGIN, real) == "mindspore_lite real mindspore_lite.model"
    assert (
        python(
            "from mindspore_lite.model import Model; import mindspore_lite as m; print(m.Model "
            "is Model)",
            real,
        )
        == "True"
    )


def test_unless_ours_is_forced(real: Path) -> None:
    assert python(ORIGIN, real, compat="force") == OURS


def test_real_package_that_is_broken_says_so(real: Path) -> None:
    (real / "mindspore_lite" / "__init__.py").write_text("raise ImportError('no libascend.so')\n")
    code = "try:\n    import mindspore_lite\nexcept ImportError as error:\n    print(error)"
    assert python(code, real) == "no libascend.so"


def test_folder_of_the_name_is_no_package(tmp_path: Path) -> None:
    (tmp_path / "mindspore_lite").mkdir()
    (tmp_path / "mindspore_lite" / "notes.txt").touch()
    assert python(ORIGIN, tmp_path) == OURS


CHILDREN = """
    import multiprocessing, sys
    import mindspore_lite as mslite

    def child(queue):
        from mindspore_lite.context import Context
        queue.put((Context is mslite.Context, mslite.Context().target))

    if __name__ == "__main__":
        for method in ("spawn", "fork"):
            context = multiprocessing.get_context(method)
            queue = context.Queue()
            process = context.Process(target=child, args=(queue,))
            process.start()
            print(method, *queue.get(timeout=90))
            process.join()
"""


def test_children_and_launch_without_pythonpath(tmp_path: Path) -> None:
    status, out, errors = launch("--ranks", 2, script(tmp_path, CHILDREN))
    assert status == 0, errors
    assert of_each_rank(out) == dict.fromkeys((0, 1), ["spawn True ['cpu']", "fork True ['cpu']"])


def test_launch_takes_the_real_package_too(tmp_path: Path, real: Path) -> None:
    path = script(tmp_path, ORIGIN)
    folders = os.pathsep.join([str(real), *filter(None, [os.environ.get("PYTHONPATH")])])
    assert (
        launch("--ranks", 1, path, PYTHONPATH=folders)[1]
        == "[rank 0] mindspore_lite real mindspore_lite.model\n"
    )
    assert (
        launch("--ranks", 1, path, PYTHONPATH=folders, RANKMESH_COMPAT="force")[1]
        == f"[rank 0] {OURS}\n"
    )
