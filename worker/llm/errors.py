"""What may happen to a request of an LLM engine: status codes, and one exception for each that can be raised."""

from __future__ import annotations

from enum import Enum


class LLMStatusCode(Enum):
    """The outcome of a call; compare by name, the numbers are ours."""

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

    @property
    def statusCode(self) -> LLMStatusCode:
        """The status code that the error stands for."""
        return self._code

    def StatusCode(self) -> LLMStatusCode:
        """The same, as scripts call it too."""
        return self._code


class LLMKVCacheNotExist(LLMException):
    """The prompt cluster has no KV cache of the request (any more)."""

    _code = LLMStatusCode.LLM_KV_CACHE_NOT_EXIST


class LLMWaitProcessTimeOut(LLMException):
    """The request waited too long for its turn."""

    _code = LLMStatusCode.LLM_WAIT_PROC_TIMEOUT


class LLMRepeatRequest(LLMException):
    """The request was sent before."""

    _code = LLMStatusCode.LLM_REPEAT_REQUEST


class LLMRequestAlreadyCompleted(LLMException):
    """The request was completed before."""

    _code = LLMStatusCode.LLM_REQUEST_ALREADY_COMPLETED


class LLMEngineFinalized(LLMException):
    """The engine was finalized."""

    _code = LLMStatusCode.LLM_ENGINE_FINALIZED


class LLMParamInvalid(LLMException):
    """The engine refuses a parameter."""

    _code = LLMStatusCode.LLM_PARAM_INVALID


class LLMNotYetLink(LLMException):
    """The decoder cluster is not linked with the prompt cluster."""

    _code = LLMStatusCode.LLM_NOT_YET_LINK


class LLMOutOfMemory(LLMException):
    """The device is out of memory."""

    _code = LLMStatusCode.LLM_DEVICE_OUT_OF_MEMORY


class LLMPrefixAlreadyExist(LLMException):
    """The prompt's prefix was loaded before."""

    _code = LLMStatusCode.LLM_PREFIX_ALREADY_EXIST


class LLMPrefixNotExist(LLMException):
    """There is no such prefix of a prompt."""

    _code = LLMStatusCode.LLM_PREFIX_NOT_EXIST


class LLMSeqLenOverLimit(LLMException):
    """The sequence is longer than the model takes."""

    _code = LLMStatusCode.LLM_SEQ_LEN_OVER_LIMIT


class LLMNoFreeBlocks(LLMException):
    """No block of the KV cache is free."""

    _code = LLMStatusCode.LLM_NO_FREE_BLOCK


class LLMBlockOutOfMemory(LLMException):
    """The blocks of the KV cache are out of memory."""

    _code = LLMStatusCode.LLM_BLOCKS_OUT_OF_MEMORY
