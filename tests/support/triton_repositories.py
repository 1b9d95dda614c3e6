"""Triton repositories of ONNX models, with the configurations of Triton's documentation.

`python tests/support/triton_repositories.py FOLDER` writes one with all of them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto, save
from onnx_models import model, node

SIMPLE = """
name: "simple"
platform: "onnxruntime_onnx"
max_batch_size: 8
input [
  { name: "INPUT0" data_type: TYPE_INT32 dims: [ 16 ] },
  { name: "INPUT1" data_type: TYPE_INT32 dims: [ 16 ] }
]
output [
  { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 16 ] },
  { name: "OUTPUT1" data_type: TYPE_INT32 dims: [ 16 ] }
]
"""

SIMPLE_STRING = """
name: "simple_string"
platform: "onnxruntime_onnx"
max_batch_size: 8
input [
  { name: "INPUT0" data_type: TYPE_STRING dims: [ 16 ] },
  { name: "INPUT1" data_type: TYPE_STRING dims: [ 16 ] }
]
output [
  { name: "OUTPUT0" data_type: TYPE_STRING dims: [ 16 ] },
  { name: "OUTPUT1" data_type: TYPE_STRING dims: [ 16 ] }
]
model_warmup {
  name: "numbers"
  batch_size: 2
  inputs { key: "INPUT0" value { data_type: TYPE_STRING dims: [ 16 ] input_data_file: "ones" } }
  inputs { key: "INPUT1" value { data_type: TYPE_STRING dims: [ 16 ] input_data_file: "ones" } }
}
"""

DENSENET = """
name: "densenet_onnx"
platform: "onnxruntime_onnx"
max_batch_size : 0
input [
  {
    name: "data_0"
    data_type: TYPE_FP32
    format: FORMAT_NCHW
    dims: [ 3, 224, 224 ]
    reshape { shape: [ 1, 3, 224, 224 ] }
  }
]
output [
  {
    name: "fc6_1"
    data_type: TYPE_FP32
    dims: [ 1000 ]
    reshape { shape: [ 1, 1000, 1, 1 ] }
    label_filename: "densenet_labels.txt"
  }
]
"""

ENSEMBLE = """
name: "scaled"
platform: "ensemble"
max_batch_size: 4
input [ { name: "RAW" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "SCALED" data_type: TYPE_FP32 dims: [ 4 ] } ]
ensemble_scheduling {
  step [
    {
      model_name: "versions"
      model_version: 1
      input_map { key: "x" value: "RAW" }
      output_map { key: "y" value: "doubled" }
    },
    {
      model_name: "inferred"
      model_version: -1
      input_map { key: "x" value: "doubled" }
      output_map { key: "y" value: "SCALED" }
    }
  ]
}
"""

CLASSES = """
platform: "ensemble"
input [ { name: "image" data_type: TYPE_FP32 dims: [ 3, 224, 224 ] } ]
output [ { name: "classes" data_type: TYPE_FP32 dims: [ 1000 ] } ]
ensemble_scheduling {
  step [
    {
      model_name: "densenet_onnx"
      model_version: -1
      input_map { key: "data_0" value: "image" }
      output_map { key: "fc6_1" value: "classes" }
    }
  ]
}
"""

FLAT = """
max_batch_size: 4
input [ { name: "x" data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] } } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] } } ]
"""

RESHAPED = """
platform: "ensemble"
max_batch_size: 2
input [ { name: "RAW" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]
ensemble_scheduling {
  step [
    {
      model_name: "flat"
      model_version: -1
      input_map { key: "x" value: "RAW" }
      output_map { key: "y" value: "twice" }
    },
    {
      model_name: "flat"
      model_version: -1
      input_map { key: "x" value: "twice" }
      output_map { key: "y" value: "OUT" }
    }
  ]
}
"""

ONE_ROW = """
platform: "ensemble"
max_batch_size: 0
input [ { name: "RAW" data_type: TYPE_FP32 dims: [ 2, 2 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 4 ] } ]
ensemble_scheduling {
  step [
    {
      model_name: "turned"
      model_version: -1
      input_map { key: "x" value: "RAW" }
      output_map { key: "y" value: "turned" }
    },
    {
      model_name: "inferred"
      model_version: -1
      input_map { key: "x" value: "turned" }
      output_map { key: "y" value: "OUT" }
    }
  ]
}
"""

TURNED = """
input [ { name: "x" data_type: TYPE_FP32 dims: [ 2, 2 ] reshape { shape: [ 4 ] } } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 1, 4 ] reshape { shape: [ 4 ] } } ]
"""

VERSIONS = """
version_policy: { all {} }
instance_group [ { count: 1 kind: KIND_CPU } ]
parameters { key: "intra_op_thread_count" value: { string_value: "1" } }
response_cache { enable: true }
"""


def write(
    repository: Path, name: str, config: str | None, *versions: tuple[int, ModelProto]
) -> Path:
    """A model of a repository; without `config` it has no config.pbtxt."""
    folder = repository / name
    folder.mkdir(parents=True, exist_ok=True)
    for number, made in versions:
        (folder / str(number)).mkdir(exist_ok=True)
        new = folder / str(number) / "new"
        save(made, str(new))
        new.replace(new.with_name("model.onnx"))  # ranks may have the old one mapped
    (folder / "config.pbtxt").unlink(missing_ok=True)
    if config is not None:
        (folder / "config.pbtxt").write_text(config)
    return folder


def sums() -> ModelProto:
    """OUTPUT0 = INPUT0 + INPUT1 and OUTPUT1 = INPUT0 - INPUT1, for rows of 16 int32."""
    row = (np.int32, ["rows", 16])
    nodes = [
        node("Add", "INPUT0 INPUT1", "OUTPUT0"),
        node("Sub", "INPUT0 INPUT1", "OUTPUT1"),
    ]
    return model(nodes, {"INPUT0": row, "INPUT1": row}, {"OUTPUT0": row, "OUTPUT1": row})


def sums_of_strings() -> ModelProto:
    """As `sums`, of numbers as texts."""
    row = (TensorProto.STRING, ["rows", 16])
    nodes = [
        *(node("Cast", f"INPUT{at}", f"in{at}", to=TensorProto.INT32) for at in (0, 1)),
        node("Add", "in0 in1", "out0"),
        node("Sub", "in0 in1", "out1"),
        *(node("Cast", f"out{at}", f"OUTPUT{at}", to=TensorProto.STRING) for at in (0, 1)),
    ]
    return model(nodes, {"INPUT0": row, "INPUT1": row}, {"OUTPUT0": row, "OUTPUT1": row})


def classifier() -> ModelProto:
    """`fc6_1` of [1, 1000, 1, 1] for an image `data_0` of [1, 3, 224, 224]: the interface of
    DenseNet, and two layers.
    """
    weight = np.random.default_rng(0).standard_normal((1000, 3, 1, 1), np.float32)
    nodes = [node("GlobalAveragePool", "data_0", "pooled"), node("Conv", "pooled weight", "fc6_1")]
    return model(
        nodes,
        {"data_0": [1, 3, 224, 224]},
        {"fc6_1": [1, 1000, 1, 1]},
        constants={"weight": weight},
    )


def times(factor: float) -> ModelProto:
    """y = factor * x, for rows of 4 floats."""
    factors = {"factor": np.full(1, factor, np.float32)}
    nodes = [node("Mul", "x factor", "y")]
    return model(nodes, {"x": ["rows", 4]}, {"y": ["rows", 4]}, constants=factors)


def fixed() -> ModelProto:
    """y = x + x, for 4 floats."""
    return model([node("Add", "x x", "y")], {"x": [4]}, {"y": [4]})


def doubled_rows() -> ModelProto:
    """y = x + x, for rows of a number each, without a further dimension."""
    return model([node("Add", "x x", "y")], {"x": ["rows"]}, {"y": ["rows"]})


def write_documented(repository: Path) -> None:
    """The models of Triton's quick start, one with two versions, and two without configuration."""
    write(repository, "simple", SIMPLE, (1, sums()))
    folder = write(repository, "simple_string", SIMPLE_STRING, (1, sums_of_strings()))
    (folder / "warmup").mkdir(exist_ok=True)
    (folder / "warmup" / "ones").write_bytes(b"\1\0\0\0001" * 16)
    densenet = write(repository, "densenet_onnx", DENSENET, (1, classifier()))
    labels = "".join(f"CLASS {number}\n" for number in range(1000))
    (densenet / "densenet_labels.txt").write_text(labels)
    write(repository, "versions", VERSIONS, (1, times(2)), (3, times(3)))
    write(repository, "inferred", None, (1, times(5)))
    write(repository, "fixed model", None, (1, fixed()))
    write(repository, "turned", TURNED, (1, fixed()))
    write(repository, "flat", FLAT, (1, doubled_rows()))
    ensembles = {
        "scaled": ENSEMBLE,
        "classes": CLASSES,
        "reshaped": RESHAPED,
        "one_row": ONE_ROW,
    }
    for name, config in ensembles.items():
        (write(repository, name, config) / "1").mkdir()


if __name__ == "__main__":
    write_documented(Path(sys.argv[1]))
