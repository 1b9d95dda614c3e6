"""`rankmesh inspect --config`: every key that MindSpore Lite knows is acting or accepted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from processes import rankmesh

from rankmesh.worker.api_types.config_keys import Effect, key_effect

ACTING = """ascend_context/rank_table_file ascend_context/variable_weights_file
    ascend_context/variable_weights_list ascend_context/shareable_weight_pid_list
    ascend_context/shareable_weight_mem_handle ascend_context/precision_mode ascend_context/input_shape
    ascend_context/dynamic_dims ascend_context/model_cache_dir gpu_context/input_shape gpu_context/dynamic_dims
    gpu_context/opt_dims gpu_context/precision_mode gpu_context/serialize_path execution_plan/any_node model_file/mindir_path weight/weight_path
    ge_global_options/ge.exec.precision_mode ge_session_options/ge.exec.precision_mode
    acl_build_options/ge.exec.precision_mode shared_thread_pool/enable_shared_thread_pool
    shared_thread_pool/thread_num_limit_per_worker shared_thread_pool/thread_num_remaining_per_worker""".split()  # noqa: E501
ACCEPTED = """ascend_context/provider ascend_context/max_weight_batch
    ascend_context/input_format ascend_context/op_select_impl_mode ascend_context/output_type
    ascend_context/model_cache_mode ascend_context/parameter_as_refdata ascend_context/dump_config_file
    ascend_context/profiling_config_file ascend_context/mixprecision_list_path ascend_context/plugin_custom_ops
    ascend_context/enable_custom_op ascend_context/op_attrs ascend_context/aoe_mode ascend_context/stream_label_file
    ascend_context/ge_variable_memory_max_size ascend_context/ge_graph_memory_max_size
    ge_global_options/ge.externalWeight ge_session_options/ge.dynamicDims ge_graph_options/anything
    acl_init_options/anything acl_option_cfg_param/anything gpu_context/dump_ops
    gpu_context/dump_dir ms_cache/serialize_path ms_cache/cache_model_path ms_cache/vocab_size
    ms_cache/device_cache_size transformer_context/encoder_input transformer_context/decoder_input
    transformer_context/ffn_fp16 transformer_context/optimize_transformer common_context/anything
    om_converter/anything aoe_global_options/anything aoe_tuning_options/anything converter_params/anything
    graph_kernel_param/anything inner_common/inner_pids lite_inner_group/group_id
    inner_model_parallel_runner/anything""".split()  # noqa: E501


@pytest.mark.pure
@pytest.mark.parametrize("place", ACTING)
def test_acts(place: str):
    assert key_effect(*place.split("/")).effect is Effect.ACTS


@pytest.mark.pure
@pytest.mark.parametrize("place", ACCEPTED)
def test_is_accepted(place: str):
    found = key_effect(*place.split("/"))
    assert found.effect is Effect.ACCEPTED and found.note


@pytest.mark.pure
@pytest.mark.parametrize(
    ("section", "key", "note"),
    [
        ("ascend_context", "input_Shape", "did you mean input_shape?"),
        ("gpu_context", "rank_table", "no such key"),
        ("ascend_contxt", "provider", "did you mean [ascend_context]?"),
        ("somewhere", "else", "no such section"),
        ("ascend_context", "*", "no such key"),
    ],
)
def test_is_unknown(section: str, key: str, note: str):
    assert key_effect(section, key) == (Effect.UNKNOWN, note)


@pytest.fixture
def ini(tmp_path: Path) -> Path:
    path = tmp_path / "model.ini"
    path.write_text(
        '[ascend_context]\nprovider=ge\nrank_table_file="table.json"\ninput_Shape=x:[1]\n'
        "[execution_plan]\nDefault/MatMul=data_type:float16\n"
    )
    return path


def test_the_command_tells_them_apart(ini: Path):
    done = rankmesh("inspect", "--config", ini)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "acts:",
        '  [ascend_context] rank_table_file = "table.json"  (the ranks of a distributed model)',
        "  [execution_plan] Default/MatMul = data_type:float16  (the precision of one node)",
        "accepted without effect:",
        "  [ascend_context] provider = ge  (every provider runs alike here)",
        "unknown:",
        "  [ascend_context] input_Shape = x:[1]  (did you mean input_shape?)",
    ]


def test_as_json(ini: Path):
    described = json.loads(rankmesh("inspect", "--json", "--config", ini).stdout)
    assert described["file"] == str(ini)
    assert [(one["key"], one["effect"]) for one in described["keys"]] == [
        ("provider", "accepted without effect"),
        ("rank_table_file", "acts"),
        ("input_Shape", "unknown"),
        ("Default/MatMul", "acts"),
    ]


def test_a_file_without_keys(tmp_path: Path):
    (tmp_path / "empty.ini").write_text("[a]\n")
    assert rankmesh("inspect", "--config", tmp_path / "empty.ini").stdout == (
        f"{tmp_path / 'empty.ini'}: holds no section with a key\n"
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--config", "/no/such.ini"], "/no/such.ini cannot be read as text"),
        ([], "name a MODEL, or a configuration with --config FILE."),
    ],
)
def test_faults(arguments: list[str], text: str):
    done = rankmesh("inspect", *arguments)
    assert done.returncode == 2 and text in done.stderr
