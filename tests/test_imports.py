import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import import_graph
import pytest

import rankmesh

ROOT = Path(rankmesh.__file__).parent
FOLDERS = ("comm", "compiler", "launch", "orchestrator", "rank_tables", "worker")
INNER = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
SOURCES = [ROOT / "__init__.py", ROOT / "__main__.py", *INNER]

MAY_IMPORT = {
    "rank_tables": {"rank_tables"},
    "comm": {"comm", "rank_tables"},
    "compiler": {"compiler", "comm", "rank_tables"},
    "worker": {"worker", "compiler", "comm", "rank_tables"},
    "orchestrator": {"orchestrator", "comm", "rank_tables"},
    "launch": {*FOLDERS, "__version__"},
}
ONLY_IN = {
    "pydantic": {"orchestrator/config/settings_file.py"},
    "yaml": {"orchestrator/config/settings_document.py", "orchestrator/server/access/tokens.py"},
    "zmq": {
        "comm/transport/curve.py",
        "comm/transport/curve_client.py",
        "comm/transport/curve_server.py",
    },
    "mpi4py": {"comm/collectives/libraries/mpi.py"},
    "torch.distributed": {
        "comm/collectives/libraries/device_place.py",
        "comm/collectives/libraries/one_way_call.py",
        "comm/collectives/libraries/tensor_collectives.py",
        "comm/collectives/libraries/torch_distributed.py",
        "comm/collectives/libraries/torch_groups.py",
        "compiler/torch_models/process_groups.py",
    },
}
JSON_OF_USERS = {
    "launch/bench/report.py",
    "launch/bench/targets/rest_target.py",
    "orchestrator/server/rest/infer_request.py",
    "orchestrator/server/rest/documents/json_numbers.py",
    "orchestrator/server/rest/documents/json_tensors.py",
    "rank_tables/readers.py",
    "compiler/slicing/placement/plan_file.py",
    "worker/weights/updates/files.py",
}
"""Readers of files and of requests by HTTP, which have errors of their own."""

NOWHERE = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"}
HEAVY = ("torch", "onnxruntime", "onnx", "zmq", "numpy", "mpi4py", "typer", "rich", "pydantic")


def tree(source: Path) -> ast.Module:
    return ast.parse(source.read_text(), str(source))


@cache
def nodes(source: Path) -> list[ast.AST]:
    """The imports and calls of a file; to keep whole trees slows every later garbage collection."""
    kept = (ast.Import, ast.ImportFrom, ast.Call)
    return [node for node in ast.walk(tree(source)) if isinstance(node, kept)]


def imported(source: Path) -> Iterator[str]:
    """Absolute names of all that a file imports, anywhere in it; `from a import b` gives a and
    a.b."""
    package = ("rankmesh", *source.relative_to(ROOT).parts[:-1])
    for node in nodes(source):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            name = ".".join((*base, *filter(None, [node.module])))
            yield name
            yield from (f"{name}.{alias.name}" for alias in node.names)


def relative(source: Path) -> str:
    return source.relative_to(ROOT).as_posix()


def under(name: str, module: str) -> bool:
    return name == module or name.startswith(f"{module}.")


@pytest.mark.pure
def test_folders_import_only_what_lies_below_them():
    found = [
        f"{relative(source)} imports {name}"
        for source in INNER
        for name in imported(source)
        if under(name, "rankmesh")
        and name.count(".")
        and name.split(".")[1] not in MAY_IMPORT[source.relative_to(ROOT).parts[0]]
    ]
    assert not found


RANKS = ("comm.processes.rank_main", "launch.rank.rank_main", "worker.serving.rank_loop")
"""The modules in which ranks begin, and the loop of their requests."""


@pytest.mark.pure
def test_ranks_reach_neither_slicing_nor_conversion() -> None:
    graph = import_graph.import_graph(import_graph.read())
    reached, waiting = set(), list(RANKS)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += graph[name]
    assert len(reached) > 200
    wrong = ("compiler.slicing", "compiler.convert")
    assert [name for name in sorted(reached) if name.startswith(wrong)] == []


@pytest.mark.pure
def test_imports_inside_the_package_are_relative():
    found = []
    for source in INNER:
        if {"compat", "public_modules"} & set(source.parts):
            continue  # imported under another name, from where these folders lie elsewhere
        for node in nodes(source):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            found += [f"{relative(source)}: {name}" for name in names if under(name, "rankmesh")]
    assert not found


@pytest.mark.pure
def test_each_transport_and_format_has_its_one_file():
    found = [
        f"{relative(source)} imports {name}"
        for source in SOURCES
        for name in imported(source)
        for module, homes in ONLY_IN.items()
        if under(name, module) and relative(source) not in homes
    ]
    assert not found


@pytest.mark.pure
def test_nothing_unpickles_or_evaluates():
    found = []
    for source in SOURCES:
        modules = {name.split(".")[0] for name in imported(source)}
        called = {
            n.func.id
            for n in nodes(source)
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
        }
        wrong = NOWHERE & modules | {"eval", "exec", "__import__"} & called
        found += [f"{relative(source)}: {name}" for name in sorted(wrong)]
    assert not found


@pytest.mark.pure
def test_one_module_decodes_what_other_processes_send():
    found = [
        f"{relative(source)} calls {ast.unparse(node.func)}"
        for source in SOURCES
        for node in nodes(source)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"msgspec.msgpack.decode", "msgspec.json.decode"}
        and not ("json" in ast.unparse(node.func) and relative(source) in JSON_OF_USERS)
    ]
    assert not found


@pytest.mark.pure
def test_rank_tables_needs_the_standard_library_and_msgspec_alone():
    allowed = sys.stdlib_module_names | {"msgspec", "rankmesh"}
    for source in (ROOT / "rank_tables").rglob("*.py"):
        for name in imported(source):
            assert name.split(".")[0] in allowed, f"{relative(source)} imports {name}"


def in_fresh_process(program: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=250
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_importing_the_package_loads_nothing_heavy_and_starts_no_thread():
    assert (
        in_fresh_process(f"""
import os, sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        assert name.split(".")[0] not in {HEAVY!r}, name
sys.meta_path.insert(0, Refuse())
import rankmesh
dir(rankmesh), rankmesh.__version__
assert not [name for name in sys.modules if name.startswith("rankmesh.")]
print(len(os.listdir("/proc/self/task")))
""")
        == "1"
    )


def test_the_launcher_needs_neither_numpy_nor_a_runtime():
    assert (
        in_fresh_process("""
import sys
import rankmesh.launch.cli, rankmesh.launch.run.run, rankmesh.launch.run.report
print(sorted({"numpy", "onnx", "onnxruntime", "torch"} & sys.modules.keys()))
""")
        == "[]"
    )


def test_the_package_survives_a_fork_after_import():
    assert (
        in_fresh_process("""
import os, rankmesh
child = os.fork()
if not child:
    os._exit(0 if rankmesh.RankTable.__name__ == "RankTable" else 1)
print(os.waitpid(child, 0)[1])
""")
        == "0"
    )


def test_public_names_are_real_and_listed():
    exported = {
        alias.asname
        for node in ast.walk(ast.parse((ROOT / "__init__.py").read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rankmesh.")
        for alias in node.names
        if not (node.module or "").endswith(".public_modules")
    }
    assert (
        {"Rank", "RankTable", "RankTableFault", "RankmeshError"} <= exported <= set(dir(rankmesh))
    )
    for name in exported:
        assert getattr(rankmesh, name).__name__ == name
    public = {name for name in dir(rankmesh) if not name.startswith("_")}
    assert {name for name in public if callable(getattr(rankmesh, name))} == exported
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = rankmesh.Nonsense


def test_other_systems_get_one_sentence():
    assert (
        in_fresh_process("""
import sys
sys.platform = "darwin"
try:
    import rankmesh
except ImportError as error:
    print(error)
""")
        == "Rankmesh runs on Linux (x86-64 and aarch64); this Python runs on darwin."
    )


# What a rank of `rankmesh run` must not pay for; of our own what only other ways to run need.
NOT_IN_A_RANK = (
    "torch",
    "mpi4py",
    "zmq",
    "typer",
    "rich",
    "pydantic",
    "psutil",
    "cryptography",
    "yaml",
    "safetensors",
    "onnx_ir",
    "multiprocessing",
    "asyncio",
    "subprocess",
    "tarfile",
    "argparse",
    "hashlib",
    "rankmesh.orchestrator",
    "rankmesh.rank_tables",
    "rankmesh.worker.api_types.context",
    "rankmesh.comm.transport.curve",
    "rankmesh.comm.rendezvous.rendezvous_server",
    "rankmesh.comm.rendezvous.local_rendezvous",
    "rankmesh.comm.rendezvous.address",
    "rankmesh.comm.sharing",
    "rankmesh.comm.rendezvous.remote_rendezvous",
    "rankmesh.launch.cli",
    "rankmesh.launch.run.run",
    "rankmesh.launch.supervision.supervised_job",
    "rankmesh.worker.api.model",
    "rankmesh.compiler.model_file.resized",
    "rankmesh.compiler.onnx_graph.retype",
    "rankmesh.worker.weights",
    *(
        f"rankmesh.compiler.lowering.primitives.{family}"
        for family in ("conv", "inplace", "norm", "recurrent", "scatter", "state")
    ),
)
NOT_WITH_A_KEPT_BUILD = (
    "rankmesh.compiler.lowering",
    "rankmesh.compiler.mindir.reader",
    "rankmesh.compiler.mindir.mindir_pb2",
    "rankmesh.compiler.model_file.model_format",
    "rankmesh.worker.partition.cut",
)
IMPORTED = re.compile(r"^(\[rank \d\] |)import '([\w.]+)' # <", re.MULTILINE)
LAUNCHER, RANK_0, RANK_1 = "", "[rank 0] ", "[rank 1] "


def imported_in_a_run(cache: str) -> dict[str, set[str]]:
    """The modules that each process imports when the sample is run with a model cache, or with ""
    without.
    """
    sample = str(ROOT / "launch" / "sample" / "llama")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "rankmesh",
            "run",
            f"{sample}_rank{{rank}}.mindir",
            "--inputs",
            f"{sample}.npz",
            "--expect",
            f"{sample}.npz",
            "--ranks",
            "2",
            "--device",
            "cpu",
        ],
        capture_output=True,
        text=True,
        timeout=250,
        env={**os.environ, "PYTHONVERBOSE": "1", "RANKMESH_CACHE": cache},
    )
    assert done.returncode == 0, done.stdout
    found: dict[str, set[str]] = {LAUNCHER: set(), RANK_0: set(), RANK_1: set()}
    for process, name in IMPORTED.findall(done.stderr):
        found[process].add(name)
    return found


def test_a_run_imports_what_its_shards_need():
    names = imported_in_a_run("")
    assert {"typer", "rich.table", "rankmesh.launch.supervision.supervised_job"} <= names[LAUNCHER]
    assert not {"pydantic", "numpy", "onnx", "onnxruntime", "torch"} & names[LAUNCHER]
    for rank in (RANK_0, RANK_1):
        assert {
            "onnxruntime",
            "rankmesh.compiler.lowering.primitives.linear",
            "rankmesh.compiler.lowering.primitives.collective",
        } <= names[rank]
        assert [
            name for name in names[rank] for module in NOT_IN_A_RANK if under(name, module)
        ] == []


def test_a_rank_whose_build_is_kept_imports_nothing_that_reads_or_lowers(tmp_path: Path):
    assert "rankmesh.compiler.lowering.lower_mindir" in imported_in_a_run(str(tmp_path))[RANK_0]
    names = imported_in_a_run(str(tmp_path))[RANK_0]
    assert [name for name in names for module in NOT_WITH_A_KEPT_BUILD if under(name, module)] == []


OUTER = sorted(
    path
    for folder in ("tests", "bench", "examples")
    for path in (ROOT / folder).rglob("*.py")
    if "documents" not in path.parts
)


@cache
def defined(source: Path) -> set[str]:
    """The names that a module defines or imports anywhere."""
    found = set[str]()
    for node in ast.walk(tree(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {one.asname or one.name.partition(".")[0] for one in node.names}
    return found


def missing(dotted: str) -> bool:
    """Whether the package has no such folder, module or name in a module."""
    place = ROOT
    for part in dotted.split(".")[1:]:
        if place.suffix == ".py":
            stub = place.with_suffix(".pyi")  # names that are made at run time
            return part not in defined(stub if stub.exists() else place)
        if not (place / part).is_dir():
            module = (place / part).with_suffix(".py")
            if place == ROOT and not module.exists():
                module = (ROOT / "worker" / "public_modules" / part).with_suffix(".py")
            place = module if module.exists() else place / "__init__.py"
            if place != module and part not in defined(place) | {"__version__"}:
                return True
        else:
            place /= part
    return False


@pytest.mark.pure
def test_names_that_tests_and_benches_import_exist() -> None:
    found = [
        f"{relative(source)}:{line}: there is no {name}"
        for source in OUTER
        for line, name in named(source)
        if "mindir_pb2" not in name and missing(name)
    ]
    assert not found


def named(source: Path) -> Iterator[tuple[int, str]]:
    """The line and the dotted name of all of ours that a file imports or has as a text."""
    for node in ast.walk(tree(source)):
        if isinstance(node, ast.ImportFrom) and under(node.module or "", "rankmesh"):
            yield from ((node.lineno, f"{node.module}.{one.name}") for one in node.names)
        elif isinstance(node, ast.Constant) and re.fullmatch(
            rf"rankmesh\.({'|'.join(FOLDERS)})(\.\w+)+", str(node.value)
        ):
            yield node.lineno, str(node.value)
