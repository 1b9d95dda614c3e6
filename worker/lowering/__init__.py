"""From MindIR primitives to ONNX nodes: one function per primitive, one file per family."""
