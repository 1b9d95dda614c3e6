"""The run of `rankmesh convert`: its flags as settings of a conversion, and its progress."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ...comm.errors import UsageError
from ...compiler.convert.configuration import configured_shapes
from ...compiler.convert.conversion import convert_model
from ...compiler.convert.frameworks import require_readable
from ...compiler.convert.settings import (
    ConversionSettings,
    LastChannels,
    decryption_of,
    encryption_of,
    shapes_of,
)
from ...compiler.model_file.config import Config
from ...worker.api.trial_run import run_once
from ..options.progress_bar import progress_bar
from ..supervision.signals import interruptible

_SWITCHES = {"on": True, "true": True, "off": False, "false": False}
_SAVE_TYPES = ("MINDIR", "MINDIR_LITE")
_MODES = ("AES-GCM", "AES-CBC", "SM4-CBC")
_LAYOUTS = ("NCHW", "NHWC")
_TYPES = ("DEFAULT", "FLOAT", "FLOAT16", "INT8", "UINT8", "INT32", "INT64")


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """The flags of the command, as text; empty: not given."""

    model_file: str
    output_file: str
    framework: str
    input_shape: str
    fp16: str
    save_type: str
    optimize: str
    weight_file: str
    config_file: str
    decrypt_key: str
    decrypt_mode: str
    encryption: str
    encrypt_key: str
    encrypt_mode: str
    infer: str
    input_format: str
    output_format: str
    input_type: str
    output_type: str
    device: str
    train_model: str
    optimize_transformer: str


def convert_and_print(options: ConvertOptions) -> None:
    """Carry out the command; a conversion that a signal ends leaves no files."""
    settings = _settings(options)
    with interruptible("no file was written"), progress_bar() as progress:
        written = convert_model(settings, progress)
    if _switch("--infer", options.infer):
        run_once(str(written), settings.encryption)
    print(f"CONVERT RESULT SUCCESS:0\n{written}")


def _settings(options: ConvertOptions) -> ConversionSettings:
    require_readable(options.framework.upper())
    _check_values(options)
    for flag, path in (("weightFile", options.weight_file), ("configFile", options.config_file)):
        if path and not os.path.exists(path):
            raise UsageError(f"--{flag}={path}: does not exist.")
    encrypted = _switch("--encryption", options.encryption)
    return ConversionSettings(
        options.model_file,
        options.output_file,
        _shapes(options),
        _switch("--fp16", options.fp16),
        decryption_of(options.decrypt_key, options.decrypt_mode),
        encryption_of(options.encrypt_key, options.encrypt_mode) if encrypted else None,
        options.save_type.upper() == "MINDIR_LITE",
        LastChannels(options.input_format == "NHWC", options.output_format == "NHWC"),
    )


def _check_values(options: ConvertOptions) -> None:
    """UsageError for the value of a flag that is none of its choices."""
    for flag, value, choices in (
        ("saveType", options.save_type.upper(), _SAVE_TYPES),
        ("decryptMode", options.decrypt_mode, _MODES),
        ("encryptMode", options.encrypt_mode, _MODES),
        ("inputDataFormat", options.input_format, ("", *_LAYOUTS)),
        ("outputDataFormat", options.output_format, ("", *_LAYOUTS)),
        ("inputDataType", options.input_type, _TYPES),
        ("outputDataType", options.output_type, _TYPES),
        ("device", options.device, ("", "Ascend", "GPU")),
    ):
        if value not in choices:
            named = ", ".join(filter(None, choices))
            raise UsageError(f"--{flag}={value}: expected one of {named}.")
    _check_optimize(options.optimize)
    _switch("--optimizeTransformer", options.optimize_transformer)
    if _switch("--trainModel", options.train_model):
        raise UsageError("--trainModel=true: models are converted to run them: leave it out.")


def _shapes(options: ConvertOptions) -> dict[str, tuple[int, ...]]:
    """The shapes of inputs: those of the flag, else those of the configuration file."""
    configured: dict[str, tuple[int, ...]] = {}
    if options.config_file:
        try:
            configured = configured_shapes(Config.read(options.config_file))
        except ValueError as error:
            raise UsageError(f"--configFile={error}") from error
    return shapes_of(options.input_shape) or configured


def _check_optimize(name: str) -> None:
    known = ("none", "general", "gpu_oriented", "ascend_oriented")
    if name not in known and not name.startswith("ascend_oriented:"):
        raise UsageError(f"--optimize={name}: expected one of {', '.join(known)}.")


def _switch(flag: str, text: str) -> bool:
    if text.lower() not in _SWITCHES:
        raise UsageError(f"{flag}={text}: expected one of {', '.join(_SWITCHES)}.")
    return _SWITCHES[text.lower()]
