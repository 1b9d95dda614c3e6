"""Converter: MindSpore Lite's class that makes MindIR files of models of other formats."""

from __future__ import annotations

import os
from enum import Enum

from ...comm.errors import RankmeshError
from ...compiler.model_file.config import Config, Sections
from ..api_types.arguments import Count, Text, check_type
from ..api_types.converter_attributes import EnumChoice, Flag, Optimisation, Secret, Shapes
from ..api_types.tensor_meta import DataType, Format
from .model import ModelType
from .trial_run import run_once

_SHOWN = (
    "weight_fp16",
    "input_shape",
    "input_format",
    "input_data_type",
    "output_data_type",
    "save_type",
    "decrypt_mode",
    "enable_encryption",
    "infer",
    "optimize",
    "device",
)
_MODES = ("AES-GCM", "AES-CBC", "SM4-CBC")
_KEYS = ("decrypt_key", "encrypt_key")
_TYPES = (DataType.FLOAT32, DataType.INT8, DataType.UINT8, DataType.UNKNOWN)


class FmkType(Enum):
    """The framework that a model to convert comes from."""

    TF = 0
    CAFFE = 1
    ONNX = 2
    MINDIR = 3
    TFLITE = 4
    PYTORCH = 5


class Converter:
    """Converts ONNX, MindIR and .ms models to MindIR, or to .ms where `save_type` says so.

    Attributes are those of MindSpore Lite; setting one raises TypeError or ValueError for a wrong
    value.

    `weight_fp16` stores weights of float32 as float16. `input_shape` fixes shapes of inputs.
    `input_format` puts the channels of images that the result takes last, where a script sets it to
    NHWC. `encrypt_key` and `decrypt_key` are in hexadecimal digits, and cannot be read.
    `encrypt_mode`, which MindSpore Lite lacks, is AES-GCM, AES-CBC or SM4-CBC.
    """

    weight_fp16 = Flag("weight_fp16")
    input_shape = Shapes("input_shape")
    input_format = EnumChoice("input_format", Format.NHWC, (Format.NCHW, Format.NHWC))
    input_data_type = EnumChoice("input_data_type", DataType.FLOAT32, _TYPES)
    output_data_type = EnumChoice("output_data_type", DataType.FLOAT32, _TYPES)
    save_type = EnumChoice("save_type", ModelType.MINDIR, (ModelType.MINDIR, ModelType.MINDIR_LITE))
    decrypt_key = Secret("decrypt_key")
    decrypt_mode = Text("decrypt_mode", _MODES, "AES-GCM")
    enable_encryption = Flag("enable_encryption")
    encrypt_key = Secret("encrypt_key")
    encrypt_mode = Text("encrypt_mode", _MODES, "AES-GCM")
    infer = Flag("infer")
    optimize = Optimisation("optimize")
    device = Text("device", ("Ascend",))
    device_id = Count("device_id")
    rank_id = Count("rank_id")

    def __init__(self) -> None:
        self._config = Config()

    def __str__(self) -> str:
        lines = [f"{name}: {getattr(self, name)}" for name in _SHOWN]
        return ",\n".join([f"config_info: {self.get_config_info()}", *lines]) + "."

    def get_config_info(self) -> Sections:
        """The configuration, by section and key."""
        return {name: dict(entries) for name, entries in self._config.sections.items()}

    def set_config_info(self, section: str = "", config_info: dict[str, str] | None = None) -> None:
        """Set entries of a section of the configuration; without a section, none. Raises
        TypeError.
        """
        check_type("section", section, str)
        if config_info is None:
            return
        check_type("config_info", config_info, dict)
        for key, value in config_info.items():
            check_type("config_info key", key, str)
            check_type("config_info val", value, str)
        if section:
            self._config = self._config.updated({section: config_info})

    def convert(
        self,
        fmk_type: FmkType,
        model_file: str,
        output_file: str,
        weight_file: str = "",
        config_file: str = "",
    ) -> None:
        """Convert `model_file` to `output_file`, whose suffix is appended where it is missing.

        Prints `CONVERT RESULT SUCCESS:0`. Raises TypeError, and RuntimeError where a file is
        missing or the model cannot be converted.
        """
        check_type("fmk_type", fmk_type, FmkType)
        given = {"model_file": model_file, "output_file": output_file}
        given |= {"weight_file": weight_file, "config_file": config_file}
        for name, value in given.items():
            check_type(name, value, str)
        files = {"model_file": model_file, "weight_file": weight_file, "config_file": config_file}
        absent = [
            f"{name} does not exist: {path}"
            for name, path in files.items()
            if (path or name == "model_file") and not os.path.exists(path)
        ]
        if absent:
            raise RuntimeError("; ".join(absent))
        if config_file:
            self._config = Config.read(config_file).updated(self._config.sections)
        try:
            self._convert(fmk_type, model_file, output_file)
        except (RankmeshError, ValueError) as error:
            raise RuntimeError(f"Converter model failed! error is {error}") from error
        print("CONVERT RESULT SUCCESS:0", flush=True)

    def _convert(self, fmk_type: FmkType, model_file: str, output_file: str) -> None:
        from ...compiler.convert.conversion import convert_model
        from ...compiler.convert.frameworks import require_readable
        from ...compiler.convert.settings import (
            ConversionSettings,
            LastChannels,
            decryption_of,
            encryption_of,
        )

        require_readable(fmk_type.name)
        decrypt_key, encrypt_key = (_revealed(self, name) for name in _KEYS)
        encrypted = self.enable_encryption
        encryption = encryption_of(encrypt_key, self.encrypt_mode) if encrypted else None
        written = convert_model(
            ConversionSettings(
                model_file,
                output_file,
                self._shapes(),
                self.weight_fp16,
                decryption_of(decrypt_key, self.decrypt_mode),
                encryption,
                self.save_type is ModelType.MINDIR_LITE,
                LastChannels(inputs=self._takes_last_channels()),
            )
        )
        if self.infer:
            run_once(str(written), encryption)

    def _takes_last_channels(self) -> bool:
        """Whether a script asked for NHWC. That is the default of the attribute, too, which leaves
        the inputs as they are.
        """
        given = Converter.input_format.given(self)
        return given and self.input_format is Format.NHWC

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of inputs: those that were set, else those of the configuration."""
        from ...compiler.convert.configuration import configured_shapes

        configured = configured_shapes(self._config)
        if self.input_shape:
            return {name: tuple(sizes) for name, sizes in self.input_shape.items()}
        return configured


def _revealed(converter: Converter, name: str) -> str:
    """A key of a converter, which scripts cannot read."""
    secret = vars(Converter)[name]
    assert isinstance(secret, Secret)
    return secret.revealed(converter)
