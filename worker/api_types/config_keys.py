"""Configuration keys: the effect that each of MindSpore Lite's sections and keys has here."""

from __future__ import annotations

import difflib
from enum import Enum
from typing import NamedTuple


class Effect(Enum):
    """The effect of a key."""

    ACTS = "acts"
    ACCEPTED = "accepted without effect"
    UNKNOWN = "unknown"


class KeyEffect(NamedTuple):
    """The effect of a key with a note: what it sets, or why it has no effect."""

    effect: Effect
    note: str


_ANY = "*"
_PRECISION = "the precision to compute in"
_CACHE = "the model cache's folder"
_ASCEND = "an option of Ascend's compiler"
_SHAPES = {
    "input_shape": "the inputs' shapes, where the target is {}",
    "dynamic_dims": (
        "checked where the target is {}; what open dimensions may be there, not restricted on a CPU"
    ),
}
_EXECUTOR = {
    "executor": "what computes: onnxruntime, torch, or another by its name",
    "torch_compile": "whether torch compiles what it runs (true, false)",
}
_GE = {"ge.exec.precision_mode": _PRECISION}

_ACTS: dict[str, dict[str, str]] = {
    "ascend_context": {
        "rank_table_file": "the ranks of a distributed model",
        "group_info_file": "the ranks of named groups, where the Context names no such file",
        "variable_weights_file": "the weights that updates may replace",
        "variable_weights_list": (
            "the same, here: names of weights or paths of nodes, between commas"
        ),
        "variable_weights_mode": (
            "whether updates replace weights or are added to them (replace, delta)"
        ),
        "weights_mode": "where weights lie, instead of choosing: live, packed, private",
        "shareable_weight_pid_list": "the processes that may share this one's weights",
        "shareable_weight_mem_handle": "the handle of the weights to share",
        "precision_mode": _PRECISION,
        **_EXECUTOR,
        **{key: note.format("ascend") for key, note in _SHAPES.items()},
    },
    "gpu_context": {
        "precision_mode": _PRECISION,
        **{key: note.format("gpu") for key, note in _SHAPES.items()},
        "opt_dims": "checked against dynamic_dims where the target is gpu",
        "provider": "tensorrt: onnxruntime uses TensorRT, where it has it",
        "serialize_path": "the folder where TensorRT keeps its engines",
        **_EXECUTOR,
    },
    "cpu_context": {"precision_mode": _PRECISION, **_EXECUTOR},
    "ge_global_options": _GE,
    "ge_session_options": _GE,
    "ge_graph_options": _GE,
    "acl_init_options": _GE,
    "acl_build_options": _GE,
    "execution_plan": {_ANY: "the precision of one node"},
    "model_file": {"mindir_path": "in whose folder external weights lie"},
    "weight": {"weight_path": "in whose folder external weights lie"},
    "slicing": {
        "slice": "into how many ranks a whole model is sliced first, as tensor=2,pipeline=2",
        "slice_dir": "where its shards are kept, instead of in the model cache",
    },
    "shared_thread_pool": {
        "enable_shared_thread_pool": "whether a runner's workers lend each other threads (true "
        "needs inter_op_parallel_num above 1; false: each keeps its own)",
        "thread_num_limit_per_worker": (
            "how many threads a request may run in, those of other workers included"
        ),
        "thread_num_remaining_per_worker": "how many of its threads a worker does not lend",
    },
}

_ACCEPTED: dict[str, dict[str, str]] = {
    "ascend_context": {
        "provider": "every provider runs alike here",
        "model_cache_mode": "see model_cache_dir",
        "max_weight_batch": "of the converter",
        "parameter_as_refdata": "every parameter may be updated",
        **dict.fromkeys(
            (
                "input_format",
                "op_select_impl_mode",
                "output_type",
                "dump_config_file",
                "profiling_config_file",
                "mixprecision_list_path",
                "plugin_custom_ops",
                "enable_custom_op",
                "op_attrs",
                "aoe_mode",
                "stream_label_file",
                "ge_variable_memory_max_size",
                "ge_graph_memory_max_size",
            ),
            _ASCEND,
        ),
    },
    "gpu_context": {
        "dump_ops": "of TensorRT",
        "dump_dir": "of TensorRT",
    },
    "ms_cache": dict.fromkeys(
        ("serialize_path", "cache_model_path", "vocab_size", "device_cache_size"),
        "there are no TensorRT engines and no embedding cache",
    ),
    "transformer_context": dict.fromkeys(
        ("encoder_input", "decoder_input", "ffn_fp16", "optimize_transformer"),
        "onnxruntime fuses attention by itself",
    ),
    **dict.fromkeys(
        (
            "ge_global_options",
            "ge_session_options",
            "ge_graph_options",
            "acl_init_options",
            "acl_build_options",
            "acl_option_cfg_param",
            "aoe_global_options",
            "aoe_tuning_options",
            "om_converter",
        ),
        {_ANY: _ASCEND},
    ),
    "converter_params": {_ANY: "of the converter"},
    "common_context": {_ANY: "of MindSpore Lite's own compiler"},
    "graph_kernel_param": {_ANY: "of MindSpore Lite's own compiler"},
    **dict.fromkeys(
        ("inner_common", "lite_inner_group", "inner_model_parallel_runner"),
        {_ANY: "what MindSpore Lite tells itself"},
    ),
}


def key_effect(section: str, key: str) -> KeyEffect:
    """The effect of `key` in `[section]`; for an unknown key the note suggests the nearest one."""
    if key == "model_cache_dir":
        return KeyEffect(Effect.ACTS, _CACHE)
    for table, effect in ((_ACTS, Effect.ACTS), (_ACCEPTED, Effect.ACCEPTED)):
        notes = table.get(section, {})
        if note := notes.get(key, notes.get(_ANY, "")):
            return KeyEffect(effect, note)
    return KeyEffect(Effect.UNKNOWN, _nearest(section, key))


def _nearest(section: str, key: str) -> str:
    sections = _ACTS.keys() | _ACCEPTED.keys()
    if section not in sections:
        near = difflib.get_close_matches(section, sections, 1)
        return f"did you mean [{near[0]}]?" if near else "no such section"
    known = {"model_cache_dir", *_ACTS.get(section, {}), *_ACCEPTED.get(section, {})} - {_ANY}
    folded = {name.lower(): name for name in known}
    near = difflib.get_close_matches(key.lower(), folded, 1)
    return f"did you mean {folded[near[0]]}?" if near else "no such key"
