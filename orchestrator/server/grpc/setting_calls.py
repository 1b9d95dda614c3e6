"""Setting calls: log and trace settings as they are, and what this server does not offer."""

from __future__ import annotations

import logging

from ..faults import UnsupportedCall
from ..server_state import ServerState
from .calls import CallHandler, unary
from .protocol import inference

_LogValue = inference.LogSettingsResponse.SettingValue
_TraceValue = inference.TraceSettingResponse.SettingValue
_NO_TRACE = {
    "trace_level": "OFF",
    "trace_rate": "0",
    "trace_count": "-1",
    "log_frequency": "0",
    "trace_file": "",
    "trace_mode": "triton",
}


def setting_handlers(state: ServerState) -> dict[str, CallHandler]:
    """The handlers by the names of their methods."""

    def trace_setting(asked: inference.TraceSettingRequest) -> inference.TraceSettingResponse:
        if asked.model_name:
            state.service().catalog.find(asked.model_name)
        return _trace_setting(asked)

    return {
        "LogSettings": unary(inference.LogSettingsRequest, _log_settings),
        "TraceSetting": unary(inference.TraceSettingRequest, trace_setting),
    }


def _trace_setting(asked: inference.TraceSettingRequest) -> inference.TraceSettingResponse:
    if asked.settings:
        raise UnsupportedCall("tracing is not offered by this server.")
    return inference.TraceSettingResponse(
        settings={name: _TraceValue(value=[value]) for name, value in _NO_TRACE.items()}
    )


def _log_settings(asked: inference.LogSettingsRequest) -> inference.LogSettingsResponse:
    if asked.settings:
        raise UnsupportedCall("log settings are those of the command: none is changed here.")
    log = logging.getLogger("rankmesh")
    return inference.LogSettingsResponse(
        settings={
            "log_file": _LogValue(string_param=""),
            "log_info": _LogValue(bool_param=log.isEnabledFor(logging.INFO)),
            "log_warning": _LogValue(bool_param=log.isEnabledFor(logging.WARNING)),
            "log_error": _LogValue(bool_param=log.isEnabledFor(logging.ERROR)),
            "log_verbose_level": _LogValue(uint32_param=int(log.isEnabledFor(logging.DEBUG))),
            "log_format": _LogValue(string_param="default"),
        }
    )
