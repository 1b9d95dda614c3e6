"""Other kinds of files: names each of them, and the way from it to a model that is read."""

from __future__ import annotations

from typing import NamedTuple


class OtherKind(NamedTuple):
    """A kind of files that Rankmesh does not read as models: `what` follows "is"."""

    what: str
    remedy: str


_PICKLES = "Rankmesh reads no pickles, as these can run code. "
_TF2ONNX = "Make an ONNX file with `python -m tf2onnx.convert "
_MADE_OF = "Name the ONNX file that it was made of."
_EXPORT = "torch.onnx.export(module, example, 'model.onnx', dynamo=True)"
_OPTIMUM = "optimum-cli export onnx --model NAME FOLDER"

PYTORCH, TF, TFLITE, CAFFE, OM = "PyTorch", "TensorFlow", "TensorFlow Lite", "Caffe", "Ascend"

OTHER_KINDS = {
    PYTORCH: OtherKind(
        "a checkpoint of PyTorch",
        f"{_PICKLES}In Python, load it into its module, and export that: {_EXPORT}.",
    ),
    "TorchScript": OtherKind(
        "a TorchScript module",
        f"In Python, load it with torch.jit.load, and export it: {_EXPORT}.",
    ),
    "torch.export": OtherKind(
        "a program that torch.export.save wrote",
        "In Python, load it with torch.export.load, and export it: torch.onnx.export(program, "
        "dynamo=True).save('model.onnx').",
    ),
    "pickle": OtherKind(
        "a pickle",
        f"{_PICKLES}Export the model as ONNX where it was made: torch.onnx.export or skl2onnx.",
    ),
    "Git LFS": OtherKind(
        "a pointer of Git LFS, instead of the model",
        "Fetch the model with `git lfs pull` in its repository, or download the file itself.",
    ),
    "HTML": OtherKind(
        "a web page (HTML), instead of the model",
        "Download the file itself: of Hugging Face and GitHub its address has /resolve/ or /raw/ "
        "instead of /blob/, and a login may be needed.",
    ),
    "ORT": OtherKind("a model in onnxruntime's own format (.ort)", _MADE_OF),
    TFLITE: OtherKind(
        "a model of TensorFlow Lite", f"{_TF2ONNX}--tflite FILE --output model.onnx`."
    ),
    TF: OtherKind(
        "a SavedModel of TensorFlow", f"{_TF2ONNX}--saved-model FOLDER --output model.onnx`."
    ),
    "GraphDef": OtherKind(
        "a frozen graph of TensorFlow",
        f"{_TF2ONNX}--graphdef FILE --inputs X:0 --outputs Y:0 --output model.onnx`.",
    ),
    "Keras": OtherKind(
        "a model of Keras", f"{_TF2ONNX}--keras FILE --output model.onnx`, or model.export."
    ),
    "HDF5": OtherKind(
        "an HDF5 file, as Keras writes it", f"{_TF2ONNX}--keras FILE --output model.onnx`."
    ),
    "safetensors": OtherKind(
        "a safetensors file, which has weights and no graph",
        f"Name its folder with config.json to `rankmesh slice`, or export it: `{_OPTIMUM}`.",
    ),
    "GGUF": OtherKind(
        "a GGUF file, as llama.cpp reads it",
        "Generate from it: `rankmesh generate FILE.gguf`. For predict, take the model that it was "
        f"made of, and export it: `{_OPTIMUM}`.",
    ),
    "TensorRT": OtherKind("an engine of TensorRT, for one kind of GPU", _MADE_OF),
    "CoreML": OtherKind("a model of Core ML", "Export the module that it was made of as ONNX."),
    "OpenVINO": OtherKind(
        "a model of OpenVINO",
        "Name the ONNX file that it was made of, or export its module as ONNX.",
    ),
    CAFFE: OtherKind("a model of Caffe", "Make an ONNX file with caffe2onnx or MMdnn."),
    OM: OtherKind("a model that was compiled for Ascend (.om)", _MADE_OF),
    "Paddle": OtherKind(
        "a model of PaddlePaddle",
        "Make an ONNX file with `paddle2onnx --model_dir FOLDER --save_file model.onnx`.",
    ),
    "MindSpore": OtherKind(
        "a checkpoint of MindSpore, which has weights and no graph",
        "In Python, load it with load_checkpoint, and export the network: mindspore.export(net, "
        "inputs, file_name='model', file_format='MINDIR').",
    ),
    "zip": OtherKind("a ZIP archive", "Unpack it with `unzip`, and name the model in it."),
    "tar": OtherKind("a tar archive", "Unpack it with `tar xf`, and name the model in it."),
    "compressed": OtherKind(
        "a compressed file", "Unpack it (gunzip, tar xf, unxz, unzstd, 7z x), and name the model."
    ),
    "NPZ": OtherKind(
        "an NPZ file of arrays", "Name a model; inputs come from arrays by --inputs FILE.npz."
    ),
    "NPY": OtherKind(
        "an array of numpy (.npy)", "Name a model; inputs come from arrays by --inputs FILE.npz."
    ),
    "JSON": OtherKind(
        "a JSON text",
        "Name the model beside it. A folder of Hugging Face is sliced: name the folder.",
    ),
    "program": OtherKind("a program or a library", "Name the model that it runs."),
    "empty": OtherKind("empty", "Export, copy or download it again."),
    "XML": OtherKind(
        "an XML text, such as the error message of a store, instead of the model",
        "Read what it says, and download the model again.",
    ),
}
