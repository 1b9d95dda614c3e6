"""Control flow: calls, branches, loops and assignments of MindIR as ONNX If and Loop nodes."""
