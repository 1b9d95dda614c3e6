from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest
from hostile import KINDS, special_file
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmesh import UsageError
from rankmesh.orchestrator.config.orchestrator_settings import OrchestratorSettings
from rankmesh.orchestrator.config.settings import BatchingSettings, ModelSettings
from rankmesh.orchestrator.config.settings_file import load_settings

pytestmark = pytest.mark.pure

WHOLE = """\
models:
  - name: llama
    path: models/llama_rank{rank}.mindir
    ranks: 2
    replicas: 2
    device: gpu
    devices: [0, 1, 2, 3]
    collectives: gloo
    batching: {max_batch: 8, max_delay: 0.002, inputs: [ids]}
    timeout: null
    queue_limit: 64
    restart_budget: 0
    start_timeout: 300
    hang_timeout: 2.5
    warm_up: false
  - path: /models/bert.mindir
    rank_table: tables/two.json
    threads: 4
"""


DAMAGES = ["*a", "&a ", "<<: ", "!!int ", "- "]


def loaded(folder: Path, text: str | bytes) -> OrchestratorSettings:
    file = folder / "serve.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_settings(file)


def refused(folder: Path, text: str | bytes) -> list[str]:
    """The lines of the error, without the folder."""
    with pytest.raises(UsageError) as error:
        loaded(folder, text)
    return str(error.value).replace(f"{folder}/", "").split("\n")


def test_a_file_declares_several_models_and_its_paths_start_where_it_lies(tmp_path: Path) -> None:
    assert loaded(tmp_path, WHOLE) == OrchestratorSettings(
        models=(
            ModelSettings(
                f"{tmp_path}/models/llama_rank{{rank}}.mindir",
                "llama",
                2,
                2,
                None,
                "gpu",
                (0, 1, 2, 3),
                None,
                "gloo",
                BatchingSettings(8, 0.002, ("ids",)),
                None,
                64,
                0,
                300,
                2.5,
                False,
            ),
            ModelSettings(
                "/models/bert.mindir", rank_table=f"{tmp_path}/tables/two.json", threads=4
            ),
        )
    )


def test_what_is_left_out_has_a_default(tmp_path: Path) -> None:
    model = loaded(tmp_path, "models: [{path: /m.onnx}]").models[0]
    assert model == ModelSettings("/m.onnx")
    assert (model.timeout, model.restart_budget, model.ranks, model.batching) == (
        60.0,
        5,
        None,
        None,
    )


def test_models_share_what_an_anchor_names(tmp_path: Path) -> None:
    found = loaded(
        tmp_path, "models:\n- &first {path: /a.onnx, threads: 2}\n- {<<: *first, path: /b.onnx}\n"
    )
    assert found.models == (
        ModelSettings("/a.onnx", threads=2),
        ModelSettings("/b.onnx", threads=2),
    )


@pytest.mark.parametrize(
    ("path", "label"),
    [
        ("a/llama_rank{rank}.mindir", "llama"),
        ("Matmul{rank}.mindir", "Matmul"),
        ("m.onnx", "m"),
        ("{rank}.onnx", ""),
        ("net_{rank}.mindir", "net"),
    ],
)
def test_a_model_is_called_by_its_file_unless_it_has_a_name(path: str, label: str) -> None:
    assert ModelSettings(path).label == label
    assert ModelSettings(path, "other").label == "other"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "models:\n- path: a\n  rank: 2\n",
            "serve.yaml:3: models[0].rank: is no setting; did you mean ranks?",
        ),
        (
            "models:\n- path: a\n  zzz: 2\n",
            "serve.yaml:3: models[0].zzz: is no setting: there are path, name, ranks,",
        ),
        (
            "models: [path: a]\nmodel: 1\n",
            "serve.yaml:2: model: is no setting; did you mean models?",
        ),
        (
            "models:\n- path: a\n  batching:\n    max_batch: 2\n    delay: 1\n",
            "serve.yaml:5: models[0].batching.delay: is no setting; did you mean max_delay?",
        ),
        ("models:\n- path: a\n- ranks: 2\n", "serve.yaml:3: models[1].path: is missing."),
        ("{}", "serve.yaml:1: models: got none, expected one or more."),
        (
            "models:\n- path: a\n  ranks: two\n",
            'serve.yaml:3: models[0].ranks: got "two", expected a valid integer.',
        ),
        (
            "models:\n- path: a\n  ranks: true\n",
            "serve.yaml:3: models[0].ranks: got true, expected a valid integer.",
        ),
        (
            "models:\n- path: a\n  ranks: 0\n",
            "serve.yaml:3: models[0].ranks: got 0, expected a whole number, 1 or more.",
        ),
        (
            "models:\n- path: a\n  timeout: .inf\n",
            "serve.yaml:3: models[0].timeout: got inf, expected seconds, more",
        ),
        (
            "models:\n- path: ''\n",
            "serve.yaml:2: models[0].path: got an empty text, expected a model file or a pattern",
        ),
        (
            "models:\n- path: a\n  device: tpu\n",
            "serve.yaml:3: models[0].device: got 'tpu', expected one of cpu, gpu",
        ),
        (
            "models:\n- path: a\n  devices:\n  - 1\n  - x\n",
            'serve.yaml:5: models[0].devices[1]: got "x", expected a',
        ),
        (
            "models:\n- path: a\n  devices: 3\n",
            "serve.yaml:3: models[0].devices: got 3, expected a list.",
        ),
        (
            "models:\n- path: a\n  devices: []\n",
            "serve.yaml:3: models[0].devices: got none, expected one id per rank",
        ),
        (
            "models:\n- path: a\n  devices: [-1]\n",
            "serve.yaml:3: models[0].devices: got -1, expected a whole number, 0 or",
        ),
        (
            "models:\n- path: a\n  batching: {max_batch: 4,\n    max_delay: -1}\n",
            "serve.yaml:4: models[0].batching.max_delay: got -1.0, expected seconds, 0 or more.",
        ),
        (
            "models:\n- path: a\n  batching: 4\n",
            "serve.yaml:3: models[0].batching: got 4, expected a mapping",
        ),
        ("models: []\n", "serve.yaml:1: models: got none, expected one or more."),
        (
            "# two\nmodels:\n- path: x/a.onnx\n- path: y/a.onnx\n",
            "serve.yaml:2: models: two are called 'a': give each a name of its own.",
        ),
        ("[1]\n", "serve.yaml:1: got [1], expected a mapping"),
        (
            "models:\n- path: a\n  ranks: 1\n  ranks: 2\n",
            "serve.yaml:4: the key ranks stands in line 3 already.",
        ),
        (
            "models:\n- path: a\n  3: 1\n",
            "serve.yaml:3: a key is not plain text: put it in quotes if it is meant as one.",
        ),
        (
            "models:\n- path: a\n  [b]: 1\n",
            "serve.yaml:3: a key is not plain text: put it in quotes",
        ),
        ("models:\n- path: a\n ranks: [\n", "serve.yaml:3: is no YAML: "),
        ("models: &a\n- *a\n", "serve.yaml:1: what begins here contains itself"),
        (
            "models: !!python/name:os.system x\n",
            "serve.yaml:1: is no YAML: could not determine a constructor for the tag",
        ),
        ("models: !!timestamp 2024-99-99\n", "serve.yaml: cannot be read: month must be in 1..12."),
        ("models: !!bool 7\n", "serve.yaml: cannot be read: "),
        ("", "serve.yaml: is empty, expected the key models."),
        (b"\xff\xfe\xff", "serve.yaml: cannot be read: "),
        ("[" * 1000, "serve.yaml: is nested too deeply for settings."),
        ("a: 1\n" * 300_000, "serve.yaml: cannot be read: it is longer than 256 KiB"),
    ],
)
def test_a_fault_is_named_by_line_and_path(tmp_path: Path, text: str | bytes, said: str) -> None:
    lines = refused(tmp_path, text)
    assert lines[0].startswith(said) and len(lines) == 1


@pytest.mark.parametrize("word", ["no", "on", "Yes", "22:30", "2024-01-01"])
def test_words_of_older_yaml_are_text(tmp_path: Path, word: str) -> None:
    assert loaded(tmp_path, f"models: [{{path: a, name: {word}}}]").models[0].name == word
    assert refused(tmp_path, f"models:\n- path: a\n  warm_up: {word}\n") == [
        f'serve.yaml:3: models[0].warm_up: got "{word}", expected a valid boolean.'
    ]


@pytest.mark.parametrize("word", ["off", "Off", "OFF", "false", "no"])
def test_a_cache_that_is_off(tmp_path: Path, word: str) -> None:
    assert loaded(tmp_path, f"models: [{{path: a, cache: {word}}}]").models[0].cache_folder == "off"


@pytest.mark.parametrize("value", ["null", "3", '["a"]'])
def test_a_cache_that_is_neither_folder_nor_off_is_told_once(tmp_path: Path, value: str) -> None:
    assert refused(tmp_path, f"models:\n- path: a\n  cache: {value}\n") == [
        f"serve.yaml:3: models[0].cache: got {value}, expected a folder, or off."
    ]


@pytest.mark.parametrize(("text", "value"), [("010", 10), ("0x1F", 31), ("0o17", 15), ("+5", 5)])
def test_whole_numbers(tmp_path: Path, text: str, value: int) -> None:
    assert (
        loaded(tmp_path, f"models: [{{path: a, queue_limit: {text}}}]").models[0].queue_limit
        == value
    )


@pytest.mark.parametrize("text", ["1_000", "1:30", "0b11", "1,000"])
def test_what_is_no_whole_number_of_yaml_is_text(tmp_path: Path, text: str) -> None:
    assert (
        f'queue_limit: got "{text}", expected a valid integer.'
        in refused(tmp_path, f"models:\n- path: a\n  queue_limit: {text}\n")[0]
    )


@pytest.mark.parametrize(("text", "value"), [("1e3", 1000.0), (".5", 0.5), ("7", 7.0), ("1.", 1.0)])
def test_numbers(tmp_path: Path, text: str, value: float) -> None:
    assert loaded(tmp_path, f"models: [{{path: a, timeout: {text}}}]").models[0].timeout == value


@pytest.mark.parametrize(
    "text",
    [
        f"models: {'1:' * 100_000}1",
        f"models: !!int {'1:' * 100_000}1",
        f"models: !!float {'1:' * 100_000}1",
        f"models: {'9' * 200_000}",
        f"models: 0x{'f' * 200_000}",
    ],
)
def test_long_numbers_take_little_time(tmp_path: Path, text: str) -> None:
    began = time.process_time()
    assert len(refused(tmp_path, text)[0]) < 1000
    assert time.process_time() - began < 1


@pytest.mark.parametrize("kind", KINDS)
def test_settings_that_are_no_file_are_refused_at_once(tmp_path: Path, kind: str) -> None:
    with pytest.raises(UsageError, match="cannot be read: "):
        load_settings(special_file(tmp_path, kind))


def test_all_faults_are_named_in_the_order_of_their_lines(tmp_path: Path) -> None:
    lines = refused(tmp_path, "models:\n- rank: 2\n- path: 7\n  ranks: x\n")
    assert [re.match(r"serve.yaml:(\d): (\S+):", line).groups() for line in lines] == [  # type: ignore[union-attr]
        ("2", "models[0].path"),
        ("2", "models[0].rank"),
        ("3", "models[1].path"),
        ("4", "models[1].ranks"),
    ]


def test_what_a_merge_brought_is_named_where_it_is_written(tmp_path: Path) -> None:
    lines = refused(
        tmp_path,
        "models:\n- &a {path: x,\n  ranks: 0}\n- {<<: *a, path: y}\n- {<<: *a,\n  path: 7}\n",
    )
    assert [line.split(": got")[0] for line in lines] == [
        "serve.yaml:3: models[0].ranks",
        "serve.yaml:3: models[1].ranks",
        "serve.yaml:6: models[2].path",
    ]


def test_many_faults_are_counted(tmp_path: Path) -> None:
    lines = refused(tmp_path, "models:\n- path: a\n  devices: [" + "x, " * 30 + "]\n")
    assert len(lines) == 11 and lines[-1] == "and 20 more faults."


def test_aliases_that_grow_without_bound_are_refused(tmp_path: Path) -> None:
    levels = "".join(f"- &a{level + 1} [{', '.join([f'*a{level}'] * 9)}]\n" for level in range(20))
    assert re.match(
        r"serve.yaml:\d+: has more than 100000 values", refused(tmp_path, "- &a0 x\n" + levels)[0]
    )


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"/none.yaml: cannot be read: No such file or directory"):
        load_settings(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"ranks": 0}, "ranks: got 0, expected a whole number, 1 or more"),
        ({"ranks": "2"}, "ranks: got '2', expected a whole number"),
        ({"threads": True}, "threads: got True, expected a whole number"),
        ({"timeout": 0}, "timeout: got 0, expected seconds, more than 0"),
        ({"hang_timeout": "1"}, "hang_timeout: got '1', expected seconds"),
        ({"restart_budget": -1}, "restart_budget: got -1, expected a whole number, 0 or more"),
    ],
)
def test_arguments_are_checked_alike(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        ModelSettings("m.onnx", **arguments)  # type: ignore[arg-type]


@settings(deadline=None, max_examples=150)
@given(st.one_of(st.binary(max_size=60), st.integers(0, 2**32)))
def test_any_file_is_read_or_refused_in_words(
    tmp_path_factory: pytest.TempPathFactory, given_: bytes | int
) -> None:
    content = given_ if isinstance(given_, bytes) else damaged(random.Random(given_))
    try:
        loaded(tmp_path_factory.getbasetemp(), content)
    except UsageError as error:
        assert str(error)


def damaged(chance: random.Random) -> bytes:
    """The good file with some characters changed, moved or left out."""
    text = list(WHOLE)
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(text))
        text[at : at + chance.randrange(3)] = chance.choice(
            [*"[]{}:-&*!|>'\"% \n\t?,#@`~0", *DAMAGES]
        )
    return "".join(text).encode()
