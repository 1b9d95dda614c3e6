"""Conversion: ONNX models as MindIR files, in the form that MindSpore 2.10 writes."""
