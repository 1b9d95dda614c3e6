from __future__ import annotations

import inspect as python_inspect
import os
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from typer.testing import CliRunner

import rankmesh
from rankmesh.comm.errors import UsageError
from rankmesh.launch import cli
from rankmesh.launch.run.run import RunOptions

OPTIONS = [
    "--ranks",
    "--rank-table",
    "--inputs",
    "--expect",
    "--rtol",
    "--atol",
    "--save",
    "--repeat",
    "--device",
    "--collectives",
    "--oversubscribe",
    "--verbose",
    "-v",
    "--key",
    "--key-file",
    "--dec-mode",
    "--allow-unauthenticated",
]
NOT_OF_THE_RUN = {"json"}  # but of how it is shown
OF_THE_KEY = {"key": None, "key_file": None, "dec_mode": "AES-GCM", "allow_unauthenticated": False}
"""Together RunOptions.decryption."""

COMPLETING = """
PATH=$(dirname "$1"):$PATH
eval "$("$1" --show-completion)"
complete_words() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _rankmesh_completion rankmesh; echo "${COMPREPLY[@]}"; }
complete_words rankmesh r
complete_words rankmesh run --in
complete_words rankmesh run Mat
"""  # noqa: E501
"""What bash does when TAB is pressed after three beginnings of a command."""


def asked(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(
        cli.app, arguments, env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    )
    return result.exit_code, result.output


def test_help_names_every_option_with_a_sentence() -> None:
    status, text = asked("run", "--help")
    assert (
        status == 0 and "MODEL" in text and "Exit codes: 0 ok, 1 out of tolerance, 2 usage" in text
    )
    for option in OPTIONS:
        lines = [line for line in text.splitlines() if f" {option} " in line]
        assert lines and len(lines[0].split()) > 5, option


def test_every_option_reaches_the_run() -> None:
    parameters = list(python_inspect.signature(cli.run).parameters.values())
    key = [p for p in parameters if p.name in OF_THE_KEY]
    assert {p.name: p.default for p in key} == OF_THE_KEY
    parameters = [p for p in parameters if p not in key and p.name not in NOT_OF_THE_RUN]
    options = [field for field in fields(RunOptions) if field.name != "decryption"]
    assert [p.name for p in parameters] == [field.name for field in options]
    for parameter, field in zip(parameters[1:], options[1:], strict=True):
        assert parameter.default == field.default, field.name


@pytest.mark.parametrize(
    "arguments",
    [
        ["run"],
        ["run", "m.onnx", "--rtol", "-1"],
        ["run", "m.onnx", "--atol", "x"],
        ["run", "m.onnx", "--repeat", "-2"],
        ["run", "m.onnx", "--ranks", "two"],
        ["run", "m.onnx", "--nonsense"],
        ["dance"],
        ["inspect"],
    ],
)
def test_usage_errors(arguments: list[str]) -> None:
    status, text = asked(*arguments)
    assert status == 2 and "Traceback" not in text


def test_without_a_command_there_is_help() -> None:
    text = asked()[1]
    assert "run" in text and "inspect" in text and "one process (rank) per shard" in text


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["run"],
        ["inspect"],
        ["launch"],
        ["update-weights"],
        ["env"],
        ["compat-path"],
        ["rank-table"],
        ["rank-table", "make"],
        ["rank-table", "check"],
        ["rank-table", "merge"],
        ["key"],
        ["key", "make"],
        ["cache"],
        ["cache", "list"],
        ["cache", "verify"],
        ["cache", "clear"],
    ],
)
def test_h_is_help_everywhere(command: list[str]) -> None:
    short, long = asked(*command, "-h"), asked(*command, "--help")
    assert short == long and short[0] == 0 and "Usage: " in short[1]


def test_version() -> None:
    assert asked("--version") == (0, f"rankmesh {rankmesh.__version__}\n")


def test_bash_completes_commands_options_and_leaves_files_to_the_shell(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash
    program = Path(sys.executable).with_name("rankmesh")
    said = subprocess.run(
        [bash, "-c", COMPLETING, "bash", str(program)], capture_output=True, text=True, timeout=250
    )
    assert [sorted(line.split()) for line in said.stdout.splitlines()] == [
        ["rank-table", "run"],
        ["--inputs"],
        [],
    ]


@pytest.mark.parametrize(
    ("shell", "variables", "phrase"),
    [("zsh", {}, '"cache":'), ("fish", {"_TYPER_COMPLETE_FISH_ACTION": "get-args"}, "cache\t")],
)
def test_other_shells_complete_commands(shell: str, variables: dict[str, str], phrase: str) -> None:
    environment = {
        **os.environ,
        **variables,
        "_RANKMESH_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": "rankmesh ca",
    }
    program = Path(sys.executable).with_name("rankmesh")
    said = subprocess.run(
        [str(program)], env=environment, capture_output=True, text=True, timeout=250
    )
    assert phrase in said.stdout, said.stderr


@pytest.mark.parametrize("command", ["run", "inspect"])
def test_a_glob_that_the_shell_expanded_gets_the_pattern(command: str) -> None:
    runner = CliRunner().invoke(cli.app, [command, "m0.mindir", "m1.mindir"])
    assert isinstance(runner.exception, UsageError)
    assert str(runner.exception).endswith(
        "the files of 2 ranks: 'm{rank}.mindir' (quoted) names them all."
    )
