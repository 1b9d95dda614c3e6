"""Every section that MindSpore Lite knows is accepted, also where it means nothing here."""

from __future__ import annotations

from pathlib import Path

import pytest
from mindir_models import file_of, saved
from primitives import same

from rankmesh import Context, Model, ModelType

FOR_OTHER_DEVICES = {
    "ascend_context": {
        "provider": "ge",
        "input_format": "NCHW",
        "input_shape": "x:[4,16]",
        "dynamic_dims": "",
        "precision_mode": "enforce_fp32",
        "op_select_impl_mode": "high_precision",
        "output_type": "FP32",
        "model_cache_mode": "mem_opt",
        "parameter_as_refdata": "none",
        "dump_config_file": "dump.json",
        "profiling_config_file": "profiling.json",
        "mixprecision_list_path": "list.json",
        "plugin_custom_ops": "All",
        "enable_custom_op": "All",
        "op_attrs": "a:b",
        "aoe_mode": "subgraph tuning",
        "stream_label_file": "label.txt",
        "ge_variable_memory_max_size": "1",
        "ge_graph_memory_max_size": "1",
        "max_weight_batch": "2",
    },
    "ge_global_options": {"ge.externalWeight": "1", "ge.exec.precision_mode": "force_fp32"},
    "ge_session_options": {
        "ge.inputShape": "x:4,16",
        "ge.dynamicDims": "1,1;2,2",
        "ge.dynamicNodeType": "1",
    },
    "ge_graph_options": {"ge.something": "new"},
    "acl_init_options": {"ge.op_compiler_cache_mode": "enable"},
    "acl_build_options": {"a": "b"},
    "acl_option_cfg_param": {"a": "b"},
    "gpu_context": {
        "input_shape": "x:[-1,16]",
        "dynamic_dims": "[4]",
        "opt_dims": "[4]",
        "precision_mode": "enforce_fp32",
        "serialize_path": "/nowhere/engine",
        "dump_ops": "a;b",
        "dump_dir": "/nowhere",
    },
    "ms_cache": {
        "serialize_path": "/nowhere/engine",
        "cache_model_path": "a",
        "vocab_size": "1",
        "device_cache_size": "1",
    },
    "transformer_context": {
        "encoder_input": "0",
        "decoder_input": "1",
        "ffn_fp16": "true",
        "optimize_transformer": "true",
    },
    "shared_thread_pool": {
        "enable_shared_thread_pool": "true",
        "thread_num_limit_per_worker": "4",
        "thread_num_remaining_per_worker": "0",
    },
    "common_context": {"a": "b"},
    "om_converter": {"a": "b"},
    "aoe_global_options": {"job_type": "1"},
    "aoe_tuning_options": {"ge.op_precision_mode": "a.ini"},
    "converter_params": {"a": "b"},
    "graph_kernel_param": {"opt_level": "2"},
    "no such section": {"no such key": "anything=at all"},
}


@pytest.mark.parametrize("target", ["cpu", "gpu", "ascend"])
@pytest.mark.parametrize("how", ["ini", "dict"])
def test_sections_of_other_devices_change_nothing(
    how: str,
    target: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    monkeypatch.setenv("RANKMESH_DEVICE", "cpu")
    context, model = Context(), Model()
    context.target, context.cpu.thread_num = [target], 1
    (x,), (reference,) = saved("mlp")
    if how == "dict":
        model.build_from_file(
            file_of("mlp"), ModelType.MINDIR, context, config_dict=FOR_OTHER_DEVICES
        )
    else:
        ini = tmp_path / "all.ini"
        ini.write_text(
            "\n".join(
                line
                for name, keys in FOR_OTHER_DEVICES.items()
                for line in (f"[{name}]", *(f"{key}={value}" for key, value in keys.items()))
            )
        )
        model.build_from_file(file_of("mlp"), ModelType.MINDIR, context, str(ini))
    same(model.predict([x])[0].get_data_to_numpy(), reference)
    assert [r.message for r in caplog.records if "running on cpu instead" not in r.message] == []
