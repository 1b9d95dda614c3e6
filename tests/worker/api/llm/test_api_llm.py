"""The LLM family: every row of what scripts may see of it without Ascend devices."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mindir_models import fails

import rankmesh
from rankmesh import (
    LLMClusterInfo,
    LLMEngine,
    LLMEngineStatus,
    LLMException,
    LLMReq,
    LLMRole,
    LLMStatusCode,
)
from rankmesh.worker.api.llm import errors

LARGEST = 2**64 - 1
EXPORTED = {
    "LLMKVCacheNotExist": "LLM_KV_CACHE_NOT_EXIST",
    "LLMWaitProcessTimeOut": "LLM_WAIT_PROC_TIMEOUT",
    "LLMRepeatRequest": "LLM_REPEAT_REQUEST",
    "LLMRequestAlreadyCompleted": "LLM_REQUEST_ALREADY_COMPLETED",
    "LLMEngineFinalized": "LLM_ENGINE_FINALIZED",
    "LLMParamInvalid": "LLM_PARAM_INVALID",
    "LLMNotYetLink": "LLM_NOT_YET_LINK",
}
OF_THE_MODULE = {
    "LLMOutOfMemory": "LLM_DEVICE_OUT_OF_MEMORY",
    "LLMPrefixAlreadyExist": "LLM_PREFIX_ALREADY_EXIST",
    "LLMPrefixNotExist": "LLM_PREFIX_NOT_EXIST",
    "LLMSeqLenOverLimit": "LLM_SEQ_LEN_OVER_LIMIT",
    "LLMNoFreeBlocks": "LLM_NO_FREE_BLOCK",
    "LLMBlockOutOfMemory": "LLM_BLOCKS_OUT_OF_MEMORY",
}


def test_roles():
    assert {role.name: role.value for role in LLMRole} == {"Prompt": 0, "Decoder": 1}


@pytest.mark.parametrize(("name", "code"), [*EXPORTED.items(), *OF_THE_MODULE.items()])
def test_each_exception_has_its_status(name: str, code: str):
    kind = getattr(errors, name)
    assert (getattr(rankmesh, name, None) is kind) == (name in EXPORTED)
    with pytest.raises(LLMException, match="what happened") as caught:
        raise kind("what happened")
    assert caught.value.statusCode is caught.value.StatusCode() is LLMStatusCode[code]
    assert isinstance(caught.value, RuntimeError)


def test_the_base_stands_for_success():
    assert LLMException().statusCode is LLMStatusCode.LLM_SUCCESS


def test_a_request():
    request = LLMReq(1, 2, 3)
    assert (request.prompt_cluster_id, request.req_id, request.prompt_length) == (1, 2, 3)
    assert (request.decoder_cluster_id, request.sequence_length) == (0, 0)
    for name in (
        "req_id",
        "prompt_length",
        "prompt_cluster_id",
        "decoder_cluster_id",
        "prefix_id",
        "sequence_length",
    ):
        for value in (LARGEST, 0):
            setattr(request, name, value)
            assert getattr(request, name) == value
        fails(TypeError, f"{name} must be int", setattr, request, name, "1")
        for value in (-1, LARGEST + 1):
            fails(
                ValueError,
                f"{name} value should be in range [0, UINT64_MAX]",
                setattr,
                request,
                name,
                value,
            )


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (("1", 2, 3), TypeError, "prompt_cluster_id must be int"),
        ((1, -2, 3), ValueError, "req_id value should be in range"),
        ((1, 2, LARGEST + 1), ValueError, "prompt_length value should be in range"),
    ],
)
def test_the_arguments_of_a_request(arguments: tuple[Any, ...], error: type[Exception], text: str):
    fails(error, text, LLMReq, *arguments)


def test_request_ids_are_given_out_once():
    got: list[int] = []

    def ask() -> None:
        got.extend([LLMReq.next_req_id() for _ in range(500)])

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == list(range(min(got), min(got) + 2000))


def test_a_status_is_what_the_engine_counted():
    status = LLMEngineStatus(
        SimpleNamespace(empty_max_prompt_kv=1, num_free_blocks=2, num_total_blocks=3, block_size=4)
    )
    assert (
        status.empty_max_prompt_kv,
        status.num_free_blocks,
        status.num_total_blocks,
        status.block_size,
    ) == (1, 2, 3, 4)


def test_a_cluster_has_a_role_and_a_number():
    cluster = LLMClusterInfo(LLMRole.Decoder, 5)
    assert (cluster.remote_role, cluster.remote_cluster_id) == (LLMRole.Decoder, 5)
    cluster.remote_role, cluster.remote_cluster_id = LLMRole.Prompt, 6
    assert (cluster.remote_role, cluster.remote_cluster_id) == (LLMRole.Prompt, 6)
    fails(TypeError, "remote_role must be LLMRole", LLMClusterInfo, 0, 1)
    fails(TypeError, "remote_cluster_id must be int", LLMClusterInfo, LLMRole.Prompt, "1")
    fails(
        ValueError, "remote_cluster_id value should be in range", LLMClusterInfo, LLMRole.Prompt, -1
    )
    fails(TypeError, "remote_role must be LLMRole", setattr, cluster, "remote_role", 0)


@pytest.mark.parametrize("side", ["local", "remote"])
def test_addresses(side: str):
    cluster = LLMClusterInfo(LLMRole.Prompt, 0)
    append: Callable[[Any], None] = getattr(cluster, f"append_{side}_ip_info")
    assert getattr(cluster, f"{side}_ip_infos") == ()
    for address in (("1.2.3.4", 65535), (7, 0), ("8", 1)):
        append(address)
    number = int.from_bytes(bytes([1, 2, 3, 4]), sys.byteorder)
    assert getattr(cluster, f"{side}_ip_infos") == ((number, 65535), (7, 0), (8, 1))


@pytest.mark.parametrize(
    ("address", "error", "text"),
    [
        (["1.2.3.4", 1], TypeError, "address must be in format of"),
        (("1.2.3.4",), TypeError, "must be in format of"),
        ((1.0, 1), TypeError, "must be in format of"),
        (("1.2.3.4", "1"), TypeError, "must be in format of"),
        ((-1, 1), ValueError, "address ip should in range [0,4294967295]"),
        ((2**32, 1), ValueError, "address ip should in range"),
        (("1.2.3.4", -1), ValueError, "address port should in range [0,65535]"),
        ((1, 65536), ValueError, "address port should in range"),
        (("1.2.3.400", 1), ValueError, "must be in format of"),
        (("host", 1), ValueError, "must be in format of"),
    ],
)
def test_bad_addresses(address: Any, error: type[Exception], text: str):
    fails(error, text, LLMClusterInfo(LLMRole.Prompt, 0).append_local_ip_info, address)


def test_an_engine_knows_what_it_is():
    engine = LLMEngine(LLMRole.Prompt, 3)
    assert (engine.role, engine.cluster_id, engine.batch_mode) == (LLMRole.Prompt, 3, "auto")
    assert LLMEngine(LLMRole.Decoder, 0, "manual").batch_mode == "manual"


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((0, 1), TypeError, "role must be LLMRole"),
        ((LLMRole.Prompt, "1"), TypeError, "cluster_id must be int"),
        ((LLMRole.Prompt, -1), ValueError, "cluster_id value should be in range [0, UINT64_MAX]"),
        ((LLMRole.Prompt, 1, 1), TypeError, "batch_mode must be str"),
        (
            (LLMRole.Prompt, 1, "both"),
            ValueError,
            'batch_mode should be str "auto" or "manual", but got both',
        ),
    ],
)
def test_the_arguments_of_an_engine(arguments: tuple[Any, ...], error: type[Exception], text: str):
    fails(error, text, LLMEngine, *arguments)


def test_the_checks_of_add_model_and_init_come_in_their_order(tmp_path: Path):
    file = tmp_path / "model.mindir"
    file.touch()
    engine, here = LLMEngine(LLMRole.Prompt, 3), [str(file)]
    fails(RuntimeError, "At least one group of models need to be added", engine.init, 1)
    fails(TypeError, "model_paths must be tuple/list of str", engine.add_model, 1, 1, 1)
    fails(
        TypeError,
        "model_paths element must be str, but got <class 'int'> at index 1",
        engine.add_model,
        [*here, 1],
        1,
        1,
    )
    fails(
        RuntimeError,
        "model_paths /no/such at index 0 does not exist!",
        engine.add_model,
        ("/no/such",),
        1,
        1,
    )
    fails(TypeError, "options must be dict", engine.add_model, here, 1, 1)
    fails(TypeError, "options key must be str", engine.add_model, here, {1: 1}, 1)
    fails(TypeError, "options value must be str", engine.add_model, here, {"a": 1}, 1)
    fails(TypeError, "postprocess_model_path must be None or str", engine.add_model, here, {}, 1)
    fails(
        RuntimeError,
        "postprocess_model_path /no/such does not exist!",
        engine.add_model,
        here,
        {},
        "/no/such",
    )
    assert type(engine.add_model(here, {"a": "b"}, str(file))).__name__ == "LLMModel"
    fails(TypeError, "options must be dict", engine.init, 1)
    fails(TypeError, "options value must be str", engine.init, {"a": 1})
    fails(RuntimeError, "Failed to init LLMEngine, role Prompt, cluster id 3", engine.init, {})
    fails(RuntimeError, "needs Ascend devices", engine.init, {})


def test_nothing_runs_before_init(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "model.mindir"
    file.touch()
    engine, request = LLMEngine(LLMRole.Decoder, 0, "manual"), LLMReq(0, 0, 1)
    model = engine.add_model([str(file)], {})
    for call in (
        lambda: model.predict([request], []),
        lambda: model.pull_kv(request),
        lambda: model.merge_kv(request, 0),
        lambda: model.preload_prompt_prefix(request, []),
        lambda: model.release_prompt_prefix(request),
        model.get_inputs,
        lambda: engine.complete_request(request),
        engine.fetch_status,
        lambda: engine.link_clusters([]),
        lambda: engine.unlink_clusters([]),
    ):
        fails(RuntimeError, "LLMEngine is not inited or init failed", call)
    engine.finalize()
    assert capsys.readouterr().out == "LLMEngine is not inited or init failed\n"
