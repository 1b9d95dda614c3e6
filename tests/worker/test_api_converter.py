"""The names of the converter, which is not there yet."""

from __future__ import annotations

from mindir_models import fails

from rankmesh import Converter, FmkType


def test_kinds_of_source():
    assert {kind.name: kind.value for kind in FmkType} == {
        "TF": 0, "CAFFE": 1, "ONNX": 2, "MINDIR": 3, "TFLITE": 4, "PYTORCH": 5}


def test_a_converter_says_what_to_do_without_it():
    fails(RuntimeError, "Converter is not part of Rankmesh yet. Model.build_from_file takes MindIR and ONNX",
          Converter)
