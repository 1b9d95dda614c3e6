"""The folder that `rankmesh compat-path` prints: with it on PYTHONPATH, `import mindspore_lite` finds Rankmesh."""
