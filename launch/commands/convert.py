"""`rankmesh convert`: makes MindIR and .ms files of models, with the flags of converter_lite."""

from __future__ import annotations

from typing import Annotated, Any

import typer


def _flag(name: str, metavar: str, text: str) -> Any:
    return typer.Option(f"--{name}", metavar=metavar, help=text)


ModelFile = Annotated[str, _flag("modelFile", "FILE", "The model to convert.")]
OutputFile = Annotated[
    str, _flag("outputFile", "PATH", "The result; .mindir or .ms is appended where it is missing.")
]
Framework = Annotated[
    str, _flag("fmk", "NAME", "The kind of the model: ONNX, MINDIR, or MSLITE (.ms).")
]
InputShape = Annotated[
    str,
    _flag(
        "inputShape", "SHAPES", 'Shapes of inputs, which are then fixed: "x:1,3,224,224;ids:1,77".'
    ),
]
HalfWeights = Annotated[str, _flag("fp16", "on|off", "Store weights as float16.")]
SaveType = Annotated[
    str, _flag("saveType", "TYPE", "The form of the result: MINDIR, or MINDIR_LITE (.ms).")
]
Optimize = Annotated[
    str,
    _flag(
        "optimize",
        "NAME",
        "none, general, gpu_oriented, ascend_oriented or ascend_oriented:CHIP. Models are prepared "
        "for their device when they are built, whatever this says.",
    ),
]
WeightFile = Annotated[str, _flag("weightFile", "FILE", "Weights of a Caffe model.")]
ConfigFile = Annotated[str, _flag("configFile", "FILE", "An .ini file of settings.")]
DecryptKey = Annotated[str, _flag("decryptKey", "HEX", "The key of an encrypted MindIR.")]
DecryptMode = Annotated[str, _flag("decryptMode", "MODE", "AES-GCM, AES-CBC or SM4-CBC.")]
Encrypted = Annotated[str, _flag("encryption", "true|false", "Encrypt the result.")]
EncryptKey = Annotated[str, _flag("encryptKey", "HEX", "The key to encrypt it with.")]
EncryptMode = Annotated[str, _flag("encryptMode", "MODE", "AES-GCM, AES-CBC or SM4-CBC.")]
Infer = Annotated[str, _flag("infer", "true|false", "Run the result once, with zeros.")]
_LAYOUT = "Where images that the result %s have their channels: NHWC puts them last."
InputFormat = Annotated[str, _flag("inputDataFormat", "NCHW|NHWC", _LAYOUT % "takes")]
OutputFormat = Annotated[str, _flag("outputDataFormat", "NCHW|NHWC", _LAYOUT % "gives")]
_TYPE = "Of quantised models of TFLite alone: %s keep the types that the model has."
InputType = Annotated[str, _flag("inputDataType", "TYPE", _TYPE % "inputs")]
OutputType = Annotated[str, _flag("outputDataType", "TYPE", _TYPE % "outputs")]
Device = Annotated[str, _flag("device", "Ascend", "See --optimize.")]
TrainModel = Annotated[
    str, _flag("trainModel", "true|false", "true is refused: models are converted to run them.")
]
OptimizeTransformer = Annotated[str, _flag("optimizeTransformer", "true|false", "See --optimize.")]


def convert(
    model_file: ModelFile,
    output_file: OutputFile,
    framework: Framework = "ONNX",
    input_shape: InputShape = "",
    fp16: HalfWeights = "off",
    save_type: SaveType = "MINDIR",
    optimize: Optimize = "general",
    weight_file: WeightFile = "",
    config_file: ConfigFile = "",
    decrypt_key: DecryptKey = "",
    decrypt_mode: DecryptMode = "AES-GCM",
    encryption: Encrypted = "false",
    encrypt_key: EncryptKey = "",
    encrypt_mode: EncryptMode = "AES-GCM",
    infer: Infer = "false",
    input_format: InputFormat = "",
    output_format: OutputFormat = "",
    input_type: InputType = "DEFAULT",
    output_type: OutputType = "DEFAULT",
    device: Device = "",
    train_model: TrainModel = "false",
    optimize_transformer: OptimizeTransformer = "false",
) -> None:
    """Convert an ONNX, MindIR or .ms model to MindIR, or to a .ms file of MindSpore Lite.

    The flags are those of MindSpore Lite's converter_lite.
    """
    given = locals()
    from ...comm.processes.quick_imports import quick_imports

    with quick_imports():
        from ..conversion.convert import ConvertOptions, convert_and_print

    convert_and_print(ConvertOptions(**given))
