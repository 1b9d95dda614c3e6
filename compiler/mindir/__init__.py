"""MindIR: files in MindSpore's format as typed graphs, whose weights stay in the files."""
