"""What a script, a runner or `rankmesh inspect` shows on a real pseudo-terminal while a model loads
for long.
"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from pathlib import Path

import pytest
from terminal import OnTerminal

MLP = str(Path(__file__).parents[2] / "data" / "mindir" / "mlp" / "mlp.mindir")
SLOW = "4"
SLOWLY = textwrap.dedent("""
    import sys, time, rankmesh
    from rankmesh.worker.partition import cut

    def slowly(step):
        def later(*arguments, **keywords):
            time.sleep(float(sys.argv[2]))
            return step(*arguments, **keywords)
        return later

    cut.make_plan = slowly(cut.make_plan)
""")
SCRIPTS = {
    "model": """
        model = rankmesh.Model()
        model.build_from_file(sys.argv[1], rankmesh.ModelType.MINDIR)
        print(len(model.get_inputs()), "rich" in sys.modules)
    """,
    "runner": """
        runner = rankmesh.ModelParallelRunner()
        runner.build_from_file(sys.argv[1])
        print(len(runner.get_inputs()), "rich" in sys.modules)
    """,
    "inspect": """
        from rankmesh.launch.inspection.inspect import inspect_model
        inspect_model(sys.argv[1], False)
    """,
}


def started(name: str, seconds: str, path: str = MLP, **variables: str) -> OnTerminal:
    script = SLOWLY + textwrap.dedent(SCRIPTS[name])
    return OnTerminal([sys.executable, "-P", "-c", script, path, seconds], **variables)


@pytest.fixture(scope="module")
def written() -> dict[str, tuple[str, str]]:
    """What each script wrote to its standard output and to the terminal."""
    scripts = {name: started(name, SLOW) for name in SCRIPTS}
    scripts["silenced"] = started("model", SLOW, RANKMESH_PROGRESS="0")
    return {name: script.written() for name, script in scripts.items()}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_long_stage_shows_and_vanishes(written: dict[str, tuple[str, str]], name: str) -> None:
    out, shown = written[name]
    assert re.search(r"mlp\.mindir: reading and lowering the model, [2-9] s", shown)
    assert "model" not in shown.rpartition("\x1b[2K")[2]  # what comes after the last erased line
    assert out.startswith(f"{MLP}: MindIR" if name == "inspect" else "1 True")


def test_nothing_shows_where_a_variable_says_so(written: dict[str, tuple[str, str]]) -> None:
    assert written["silenced"] == ("1 False\n", "")


def test_a_name_that_would_steer_the_terminal_is_written_out(tmp_path: Path) -> None:
    path = shutil.copy(MLP, tmp_path / "m\x1b]0;owned\x07.mindir")
    _, shown = started("model", SLOW, str(path)).written()
    assert r"m\x1b]0;owned\x07.mindir: reading and lowering" in shown
    assert "\x1b]0;" not in shown and "\x07" not in shown
