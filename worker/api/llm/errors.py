"""LLM errors: status codes of an engine's calls, and one exception for each that can be raised."""

from __future__ import annotations

from enum import Enum


class LLMStatusCode(Enum):
    """The outcome of a call. Compare by name: the numbers are Rankmesh's own."""

    LLM_SUCCESS = 0
    LLM_WAIT_PROC_TIMEOUT = 1
    LLM_KV_CACHE_NOT_EXIST = 2
    LLM_REPEAT_REQUEST = 3
    LLM_REQUEST_ALREADY_COMPLETED = 4
    LLM_PARAM_INVALID = 5
    LLM_ENGINE_FINALIZED = 6
    LLM_NOT_YET_LINK = 7
    LLM_ALREADY_LINK = 8
    LLM_LINK_FAILED = 9
    LLM_UNLINK_FAILED = 10
    LLM_NOTIFY_PROMPT_UNLINK_FAILED = 11
    LLM_CLUSTER_NUM_EXCEED_LIMIT = 12
    LLM_PROCESSING_LINK = 13
    LLM_DEVICE_OUT_OF_MEMORY = 14
    LLM_PREFIX_ALREADY_EXIST = 15
    LLM_PREFIX_NOT_EXIST = 16
    LLM_SEQ_LEN_OVER_LIMIT = 17
    LLM_NO_FREE_BLOCK = 18
    LLM_BLOCKS_OUT_OF_MEMORY = 19


class LLMException(RuntimeError):
    """Base of the errors of the LLM engine."""

    _code = LLMStatusCode.LLM_SUCCESS

    def __init_subclass__(cls, code: LLMStatusCode) -> None:
        cls._code = code

    @property
    def statusCode(self) -> LLMStatusCode:
        """The status code that the error stands for."""
        return self._code

    def StatusCode(self) -> LLMStatusCode:
        """The same, as scripts call it too."""
        return self._code


class LLMKVCacheNotExist(LLMException, code=LLMStatusCode.LLM_KV_CACHE_NOT_EXIST):
    """The prompt cluster has no KV cache of the request (any more)."""


class LLMWaitProcessTimeOut(LLMException, code=LLMStatusCode.LLM_WAIT_PROC_TIMEOUT):
    """The request waited too long for its turn."""


class LLMRepeatRequest(LLMException, code=LLMStatusCode.LLM_REPEAT_REQUEST):
    """The request was sent before."""


class LLMRequestAlreadyCompleted(LLMException, code=LLMStatusCode.LLM_REQUEST_ALREADY_COMPLETED):
    """The request was completed before."""


class LLMEngineFinalized(LLMException, code=LLMStatusCode.LLM_ENGINE_FINALIZED):
    """The engine was finalized."""


class LLMParamInvalid(LLMException, code=LLMStatusCode.LLM_PARAM_INVALID):
    """The engine refuses a parameter."""


class LLMNotYetLink(LLMException, code=LLMStatusCode.LLM_NOT_YET_LINK):
    """The decoder cluster is not linked with the prompt cluster."""


class LLMOutOfMemory(LLMException, code=LLMStatusCode.LLM_DEVICE_OUT_OF_MEMORY):
    """The device is out of memory."""


class LLMPrefixAlreadyExist(LLMException, code=LLMStatusCode.LLM_PREFIX_ALREADY_EXIST):
    """The prompt's prefix was loaded before."""


class LLMPrefixNotExist(LLMException, code=LLMStatusCode.LLM_PREFIX_NOT_EXIST):
    """There is no such prefix of a prompt."""


class LLMSeqLenOverLimit(LLMException, code=LLMStatusCode.LLM_SEQ_LEN_OVER_LIMIT):
    """The sequence is longer than the model takes."""


class LLMNoFreeBlocks(LLMException, code=LLMStatusCode.LLM_NO_FREE_BLOCK):
    """No block of the KV cache is free."""


class LLMBlockOutOfMemory(LLMException, code=LLMStatusCode.LLM_BLOCKS_OUT_OF_MEMORY):
    """The blocks of the KV cache are out of memory."""
