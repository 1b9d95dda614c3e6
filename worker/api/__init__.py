"""API of MindSpore Lite: the classes and functions that users import from `rankmesh`."""
