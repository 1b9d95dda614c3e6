"""Folders of Triton repositories: versions, files, configurations, and what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import save
from onnx_models import model, node
from triton_repositories import DENSENET, RESHAPED, SIMPLE, classifier, fixed, sums, times, write

from rankmesh.comm.errors import ModelError, UsageError
from rankmesh.orchestrator.config.published_model import RepositoryModel, TensorForm
from rankmesh.orchestrator.config.queue_policy import QueuePolicy
from rankmesh.orchestrator.server.grpc.protocol.model_config import ModelConfig
from rankmesh.orchestrator.server.triton.config_page import config_page
from rankmesh.orchestrator.server.triton.conventions import priority_of
from rankmesh.orchestrator.server.triton.instances import instances_of
from rankmesh.orchestrator.server.triton.onnx_signature import read_signature
from rankmesh.orchestrator.server.triton.repositories import ModelRepositories
from rankmesh.worker.serving.warmup_inputs import arrays_of

pytestmark = pytest.mark.pure


def read(repository: Path, name: str = "") -> list[RepositoryModel]:
    """The models of a repository, or the versions of one."""
    repositories = ModelRepositories([str(repository)])
    found = repositories.model(name) if name else repositories.models()
    assert all(isinstance(one, RepositoryModel) for one in found)
    return [one for one in found if isinstance(one, RepositoryModel)]


def only(repository: Path, config: str | None, made: object = None) -> RepositoryModel:
    """The one version of the model m of a repository with this configuration."""
    write(repository, "m", config, (1, made or times(2)))  # type: ignore[arg-type]
    (found,) = read(repository, "m")
    return found


def fault(repository: Path, config: str, made: object = None) -> str:
    """What is wrong with the model m."""
    with pytest.raises(UsageError) as caught:
        only(repository, config, made)
    return str(caught.value).replace(f"{repository}/", "")


def test_the_documented_models_are_translated(tmp_path: Path) -> None:
    write(tmp_path, "simple", SIMPLE, (1, sums()))
    write(tmp_path, "densenet_onnx", DENSENET, (1, classifier()))
    densenet, simple = read(tmp_path)
    assert simple.path == str(tmp_path / "simple" / "1" / "model.onnx")
    assert (simple.label, simple.version, simple.replicas) == ("simple", 1, 1)
    row = TensorForm((-1, 16), (-1, 16))
    assert simple.published.inputs == {"INPUT0": row, "INPUT1": row}
    assert (simple.published.max_batch, simple.published.platform) == (8, "onnxruntime_onnx")
    image = TensorForm((3, 224, 224), (1, 3, 224, 224))
    assert densenet.published.inputs == {"data_0": image}
    assert densenet.published.outputs == {"fc6_1": TensorForm((1000,), (1, 1000, 1, 1))}
    assert densenet.labels == {"fc6_1": str(tmp_path / "densenet_onnx" / "densenet_labels.txt")}
    assert densenet.batching is None


def test_a_signature_is_read_without_the_weights(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    made = model(
        [node("Add", "x w", "y"), node("Shape", "y", "s")],
        {"x": (np.float16, ["a", 3]), "w": (np.float16, [3])},
        {"y": (np.float16, ["a", 3]), "s": (np.int64, [2])},
        constants={"w": np.ones(3, np.float16)},
    )
    del made.graph.output[0].type.tensor_type.shape.dim[:]
    made.graph.output[1].type.tensor_type.ClearField("shape")
    save(made, str(path))
    found = read_signature(str(path))
    assert [(one.name, one.data_type, one.shape) for one in found.inputs] == [
        ("x", "TYPE_FP16", (-1, 3))
    ]
    assert [(one.name, one.data_type, one.shape) for one in found.outputs] == [
        ("y", "TYPE_FP16", ()),
        ("s", "TYPE_INT64", None),
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b"\x08\x0a", "it has no graph"),
        (b"\xff" * 20, "a number has no end"),
        (b"\x3a\x7fabc", "needs 127 bytes"),
    ],
)
def test_what_is_no_onnx_file_is_told(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=f"{re.escape(str(path))}: is no ONNX model: .*{reason}"):
        read_signature(str(path))


def test_without_configuration_all_is_taken_from_the_file(tmp_path: Path) -> None:
    found = only(tmp_path, None)
    page = config_page(found.published.config)
    assert page["name"] == "m" and page["platform"] == "onnxruntime_onnx"
    assert page["max_batch_size"] == 4 and page["dynamic_batching"]["preferred_batch_size"] == []
    assert page["input"][0]["dims"] == [4] and page["input"][0]["data_type"] == "TYPE_FP32"
    assert page["version_policy"] == {"latest": {"num_versions": 1}}
    assert page["instance_group"][0]["kind"] == "KIND_CPU"
    assert found.batching is not None and found.batching.max_batch == 4
    assert found.published.outputs == {"y": TensorForm((-1, 4), (-1, 4))}


def test_a_model_without_an_open_first_dimension_has_no_batch(tmp_path: Path) -> None:
    found = only(tmp_path, None, fixed())
    assert found.published.max_batch == 0 and found.batching is None
    assert found.published.inputs == {"x": TensorForm((4,), (4,))}


def test_what_a_configuration_leaves_out_is_completed(tmp_path: Path) -> None:
    found = only(tmp_path, 'max_batch_size: 2\ninput { name: "x" }\n')
    page = config_page(found.published.config)
    assert page["input"][0]["dims"] == [4] and page["output"][0]["name"] == "y"
    assert page["default_model_filename"] == "model.onnx"


def test_numbers_of_64_bits_are_numbers_in_the_page(tmp_path: Path) -> None:
    config = """max_batch_size: 4
    dynamic_batching {
      max_queue_delay_microseconds: 100
      priority_levels: 2 default_priority_level: 2
      priority_queue_policy { key: 1 value { max_queue_size: 3 default_timeout_microseconds: 5 } }
    }"""
    page = config_page(only(tmp_path, config).published.config)["dynamic_batching"]
    assert page["max_queue_delay_microseconds"] == 100
    assert page["priority_queue_policy"]["1"]["default_timeout_microseconds"] == 5


def test_queue_policies_are_those_of_our_priorities(tmp_path: Path) -> None:
    config = """max_batch_size: 4
    dynamic_batching {
      preferred_batch_size: [ 2, 4 ]
      max_queue_delay_microseconds: 500
      priority_levels: 2 default_priority_level: 2
      default_queue_policy { max_queue_size: 7 }
      priority_queue_policy {
        key: 1 value { timeout_action: DELAY default_timeout_microseconds: 2000000 }
      }
    }"""
    found = only(tmp_path, config)
    assert found.batching is not None
    assert (found.batching.preferred, found.batching.max_delay) == ((2, 4), 0.0005)
    highest = QueuePolicy(priority_of(1), None, 2.0, delay=True)
    assert found.queue == (QueuePolicy(limit=7), highest)
    levels = found.published.levels
    assert levels is not None and [levels.level(one) for one in (0, 1, 2, 3)] == [2, 1, 2, 2]


@pytest.mark.parametrize(
    ("policy", "versions"),
    [
        ("", [10]),
        ("version_policy { latest { num_versions: 2 } }", [3, 10]),
        ("version_policy { all {} }", [1, 3, 10]),
        ("version_policy { specific { versions: [3, 1] } }", [1, 3]),
    ],
)
def test_the_version_policy_chooses(tmp_path: Path, policy: str, versions: list[int]) -> None:
    every = [(number, times(number)) for number in (1, 3, 10)]
    write(tmp_path, "m", policy, *every)
    (tmp_path / "m" / "notes").mkdir()
    (tmp_path / "m" / "007").mkdir()
    assert [one.version for one in read(tmp_path, "m")] == versions


def test_another_file_name_and_a_folder_of_it(tmp_path: Path) -> None:
    folder = write(tmp_path, "m", 'default_model_filename: "net.onnx"', (1, times(2)))
    (folder / "1" / "model.onnx").rename(folder / "1" / "net.onnx")
    assert read(tmp_path, "m")[0].path == str(folder / "1" / "net.onnx")
    other = write(tmp_path, "other", None, (1, times(2)))
    (other / "1" / "model.onnx").rename(other / "1" / "it")
    (other / "1" / "model.onnx").mkdir()
    (other / "1" / "it").rename(other / "1" / "model.onnx" / "model.onnx")
    assert read(tmp_path, "other")[0].path == str(other / "1" / "model.onnx" / "model.onnx")


@pytest.mark.parametrize("name", ["link", "../../../secret", "/etc/hostname", r"\0"])
@pytest.mark.parametrize("field", ["label_filename", "default_model_filename", "input_data_file"])
def test_a_field_names_no_file_outside_the_models_folder(
    tmp_path: Path, field: str, name: str
) -> None:
    (tmp_path / "secret").write_text("root")
    folder = write(tmp_path / "repository", "m", None, (1, times(2)))
    (folder / "warmup").mkdir()
    for place in (folder, folder / "1", folder / "warmup"):
        (place / "link").symlink_to(tmp_path / "secret")
    told = fault(tmp_path / "repository", NAMING_A_FILE[field] % name)
    if field == "input_data_file" and "/" in name:
        assert f"has the file '{name}', expected one in the folder warmup" in told
    else:
        assert f"{field} leads to '" in told and "expected a file below m: copy it there" in told


NAMING_A_FILE = {
    "label_filename": 'output { name: "y" label_filename: "%s" }',
    "default_model_filename": 'default_model_filename: "%s"',
    "input_data_file": 'model_warmup { name: "w" batch_size: 1 inputs { key: "x" value { '
    'data_type: TYPE_FP32 dims: [4] input_data_file: "%s" } } }',
}
"""Configurations that name a file, by the field."""

FAULTS: dict[str, tuple[str, Callable[[], object] | None, str]] = {
    "malformed": ("\nmax_batch_size: many", None, "m/config.pbtxt:2: is no ModelConfig: "),
    "unknown field": ("max_batch: 1", None, "m/config.pbtxt:1: is no ModelConfig: "),
    "another name": ('name: "n"', None, "has the name 'n', expected 'm'"),
    "another backend": ('backend: "python"', None, "the backend 'python', expected"),
    "another platform": ('platform: "tensorrt_plan"', None, "the platform 'tensorrt_plan'"),
    "no such version": (
        "version_policy { specific { versions: [2] } }",
        None,
        "names [2], and the folder has [1]",
    ),
    "no such input": ('input { name: "z" }', None, "the input 'z' is none of the file's"),
    "twice": ('input [{ name: "x" }, { name: "x" }]', None, "expected each once"),
    "another type": (
        'input { name: "x" data_type: TYPE_INT8 dims: [-1, 4] }',
        None,
        "the input 'x' has the data_type TYPE_INT8, and the file has TYPE_FP32",
    ),
    "other dims": (
        'max_batch_size: 2 output { name: "y" dims: [5] }',
        None,
        "the output 'y' has the dims [-1, 5] with the batch, and the file has [-1, 4]",
    ),
    "no batch in the file": ("max_batch_size: 2", fixed, "no open first dimension in the file"),
    "another size": (
        'max_batch_size: 2 input { name: "x" dims: [3] reshape { shape: [4] } }',
        None,
        "the dims [3] and the reshape [4]",
    ),
    "levels": (
        "max_batch_size: 2 dynamic_batching { priority_levels: 2 }",
        None,
        "got the default_priority_level 0, expected 1 to priority_levels, 2",
    ),
    "ensemble without steps": ('platform: "ensemble"', None, "got no ensemble_scheduling"),
    "steps without ensemble": ("ensemble_scheduling {}", None, "got the platform ''"),
    "ensemble step": (
        'platform: "ensemble" ensemble_scheduling { step { model_name: "a" } }',
        None,
        "the model_name 'a', 0 in its input_map and 0 in its output_map",
    ),
    "ensemble of no tensors": (
        'platform: "ensemble" ensemble_scheduling { step { model_name: "a" '
        'input_map { key: "x" value: "x" } output_map { key: "y" value: "y" } } }',
        None,
        "an ensemble needs `input` and `output`",
    ),
    "ensemble of no dims": (
        'platform: "ensemble" input { name: "x" } ensemble_scheduling { step { model_name: "a" '
        'input_map { key: "x" value: "x" } output_map { key: "y" value: "y" } } }',
        None,
        "'x' of an ensemble has the data_type TYPE_INVALID and the dims []",
    ),
    "sequences": ("sequence_batching {}", None, "has sequence_batching, which cannot be honoured"),
    "decoupled": ("model_transaction_policy { decoupled: true }", None, "cannot be honoured"),
    "ragged": ('input { name: "x" allow_ragged_batch: true }', None, "allow_ragged_batch"),
    "no GPU": ("instance_group { kind: KIND_GPU gpus: [7] }", None, "KIND_GPU on [7]"),
    "threads": (
        'parameters { key: "intra_op_thread_count" value { string_value: "two" } }',
        None,
        "is 'two', expected a whole number",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_names_model_and_place(tmp_path: Path, case: str) -> None:
    config, made, text = FAULTS[case]
    assert text in fault(tmp_path, config, made() if made else None)


def test_all_faults_of_a_repository_are_told_at_once(tmp_path: Path) -> None:
    write(tmp_path, "a", 'backend: "python"', (1, times(2)))
    write(tmp_path, "b", None)
    with pytest.raises(UsageError, match=r"(?s)a/config\.pbtxt: got .*\n.*b: has no version"):
        read(tmp_path)


def test_a_model_of_two_repositories_is_refused(tmp_path: Path) -> None:
    paths = [tmp_path / "one", tmp_path / "two"]
    for path in paths:
        write(path, "m", None, (1, times(2)))
    with pytest.raises(UsageError, match="the model 'm' is in two repositories"):
        ModelRepositories([str(path) for path in paths]).models()


def test_an_empty_repository_and_a_missing_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no models: expected a folder for each"):
        read(tmp_path)
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read(tmp_path / "none")


def test_a_folder_without_the_file_tells_what_it_has(tmp_path: Path) -> None:
    folder = write(tmp_path, "m", None, (1, times(2)))
    (folder / "1" / "model.onnx").rename(folder / "1" / "model.plan")
    with pytest.raises(UsageError, match="model 'm' version 1: has no file .* has model.plan"):
        read(tmp_path)


def test_a_version_that_is_a_link_to_itself_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "m", None, (1, times(2)))
    (tmp_path / "m" / "2").symlink_to("2")
    with pytest.raises(UsageError, match="m/2: cannot be read: Too many levels of symbolic links"):
        read(tmp_path)


def test_instances_without_number_are_refused(tmp_path: Path) -> None:
    text = fault(tmp_path, "instance_group { count: 1000000000 kind: KIND_CPU }")
    assert "count of an instance_group: got 1000000000, expected at most 65536" in text


@pytest.mark.parametrize(
    ("group", "replicas"),
    [
        ("instance_group { count: 3 kind: KIND_CPU }", 3),
        ("instance_group [{ count: 2 kind: KIND_CPU }, { kind: KIND_CPU }]", 4),
        ("instance_group [{ count: 1 kind: KIND_CPU }, { count: 2 passive: true }]", 1),
        ("instance_group { kind: KIND_AUTO gpus: [99] }", 2),
    ],
)
def test_instance_groups_are_replicas(tmp_path: Path, group: str, replicas: int) -> None:
    found = only(tmp_path, group)
    assert (found.replicas, found.device, found.devices) == (replicas, "cpu", None)


@pytest.mark.parametrize(
    ("groups", "gpus"),
    [
        ([{"count": 2, "kind": "KIND_GPU"}, {"kind": "KIND_CPU"}], (0, 0, 1, 1)),
        ([{"gpus": [1]}], (1,)),
        ([{"kind": "KIND_GPU", "gpus": [1]}, {"kind": "KIND_GPU", "gpus": [0]}], (1, 0)),
        ([], (0, 1)),
    ],
)
def test_groups_of_gpus_have_a_replica_for_each(
    groups: list[dict[str, object]], gpus: tuple[int, ...]
) -> None:
    config = ModelConfig(instance_group=groups)
    found = instances_of(config, 2)
    assert (found.replicas, found.device, found.gpus) == (len(gpus), "gpu", gpus)
    assert found.left_out == (len(groups) == 2 and "gpus" not in groups[1])


def test_what_has_no_meaning_here_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = """
    optimization { graph { level: 1 } }
    response_cache { enable: true }
    instance_group { kind: KIND_CPU rate_limiter { priority: 2 } }
    parameters { key: "execution_mode" value { string_value: "1" } }
    parameters { key: "intra_op_thread_count" value { string_value: "2" } }
    """
    write(tmp_path, "m", config, (1, times(2)))
    repositories = ModelRepositories([str(tmp_path)])
    assert repositories.models()[0].threads == 2
    repositories.models()
    assert caplog.messages == [
        "model 'm': without a meaning here: optimization, response_cache, parameters "
        "'execution_mode', instance_group.rate_limiter"
    ]


def test_a_limit_of_an_ensemble_is_said_to_have_no_meaning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    limit = "max_inflight_requests: 16 step ["
    (write(tmp_path, "e", RESHAPED.replace("step [", limit)) / "1").mkdir()
    assert len(ModelRepositories([str(tmp_path)]).models()) == 1
    assert caplog.messages == [
        "model 'e': without a meaning here: ensemble_scheduling.max_inflight_requests"
    ]


WARMUP = """
max_batch_size: 4
model_warmup {
  name: "two rows" batch_size: 2 count: 3
  inputs { key: "x" value { data_type: TYPE_FP32 dims: [4] %s } }
}
model_warmup { name: "left out" inputs { key: "other" value {} } }
"""


def test_samples_of_a_warm_up(tmp_path: Path) -> None:
    (tmp_path / "m" / "warmup").mkdir(parents=True)
    data = np.arange(4, dtype=np.float32)
    (tmp_path / "m" / "warmup" / "row").write_bytes(data.tobytes())
    for fill, expected in [
        ("zero_data: true", np.zeros((2, 4))),
        ("random_data: true", None),
        ('input_data_file: "row"', [data, data]),
    ]:
        (sample,) = only(tmp_path, WARMUP % fill).samples
        assert (sample.name, sample.count) == ("two rows", 3)
        found = arrays_of(sample)["x"]
        assert (found.shape, found.dtype) == ((2, 4), np.float32)
        assert expected is None or np.array_equal(found, expected)
    (tmp_path / "m" / "warmup" / "row").write_bytes(b"short")
    with pytest.raises(ModelError, match=r"'two rows': the file .* has 5 bytes, expected 16"):
        arrays_of(sample)


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ("%s", "", "tells no data of 'x': expected one of zero_data"),
        (
            "%s",
            'input_data_file: "../../m/1/model.onnx"',
            "has the file '../../m/1/model.onnx'",
        ),
        ("%s", 'input_data_file: "/etc/passwd"', "has the file '/etc/passwd', expected one in"),
        ("batch_size: 2", "batch_size: 5", "has the batch_size 5, expected 4 or less"),
        ("dims: [4]", "dims: [5]", "has 'x' of the shape [2, 5], expected [-1, 4] (-1: any)"),
        ("TYPE_FP32", "TYPE_INT8", "has 'x' as TYPE_INT8, expected TYPE_FP32"),
        ('key: "x"', 'key: "y"', "has the inputs ['y'], expected ['x']"),
    ],
)
def test_a_sample_that_does_not_fit_is_refused(
    tmp_path: Path, before: str, after: str, text: str
) -> None:
    config = WARMUP.replace(before, after).replace("%s", "zero_data: true")
    assert f"m/config.pbtxt: the warm-up sample 'two rows' {text}" in fault(tmp_path, config)
