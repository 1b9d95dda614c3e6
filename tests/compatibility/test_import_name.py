"""`import mindspore_lite as mslite`: every public name of both generations, by every way to import
it.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rankmesh.launch.compat import compat_path

PUBLIC = """__version__ Context FmkType Converter ModelType Model ModelParallelRunner ModelGroup ModelGroupFlag
    DataType Format Tensor TensorMeta LLMReq
    LLMEngineStatus LLMRole LLMEngine LLMClusterInfo LLMStatusCode LLMException LLMKVCacheNotExist
    LLMWaitProcessTimeOut LLMRepeatRequest LLMRequestAlreadyCompleted LLMEngineFinalized LLMParamInvalid LLMNotYetLink
    LiteInfer lite_infer DeviceInfo CPUDeviceInfo GPUDeviceInfo AscendDeviceInfo RunnerConfig""".split()  # noqa: E501
SUBMODULES = (
    "context",
    "model",
    "tensor",
    "converter",
    "lite_infer",
    "llm_engine",
    "version",
    "_checkparam",
    "_check_ascend",
    "base_model",
)


def python(code: str) -> str:
    """Run code with compat-path first on PYTHONPATH; its standard output."""
    path = os.pathsep.join([compat_path(), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=250,
        env={**os.environ, "PYTHONPATH": path, "RANKMESH_COMPAT": ""},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    "code",
    [
        "import mindspore_lite as mslite; Model = mslite.Model; assert 'Model' in dir(mslite) "
        "and 'model' in dir(mslite)",
        "import mindspore_lite; Model = mindspore_lite.Model",
        "from mindspore_lite import *",
        "from mindspore_lite.model import Model",
        "import mindspore_lite as mslite; Model = mslite.model.Model; assert "
        "mslite.model.RunnerConfig",
    ],
)
def test_row_02_import_name(code: str) -> None:
    assert python(f"{code}\nimport rankmesh; print(Model is rankmesh.Model)") == "True"


def test_row_02_public_names() -> None:
    code = f"import mindspore_lite as m; print([name for name in {PUBLIC} if not hasattr(m, name)])"
    assert python(code) == "[]"


def test_row_02_submodules() -> None:
    """Each in the state that a fresh `import mindspore_lite.NAME` finds."""
    lines = [
        f"import mindspore_lite.{name}; assert mindspore_lite.{name}.__name__ == "
        f"'mindspore_lite.{name}'\n"
        "for name in [name for name in sys.modules if name.startswith('mindspore_lite')]: del "
        "sys.modules[name]"
        for name in SUBMODULES
    ]
    assert python("\n".join(["import sys", *lines, "print('all')"])) == "all"
