"""The variables by which users set Rankmesh up, each with what it does."""

from __future__ import annotations

SETTINGS = {
    "RANKMESH_DEVICE": "cpu, gpu or ascend: what takes the place of a device that is not there",
    "RANKMESH_COLLECTIVES": "how tensors are exchanged: shared_memory, mpi, gloo, nccl or hccl",
    "RANKMESH_ALLOW_EQUAL_SHARDS": "1: ranks of a group may have equal shards, as where each gets inputs of its own",
    "RANKMESH_COLLECTIVE_TIMEOUT": "seconds that ranks wait for each other; 60 by default, 0 for ever",
    "RANKMESH_CACHE": "the folder of the model cache, or off; by default orchestrators use ~/.cache/rankmesh/models",
    "RANKMESH_CACHE_SIZE": "MiB that the model cache may take; 16384 by default, which is 16 GiB",
    "RANKMESH_KEY": "the key of encrypted models, as hex digits",
    "RANKMESH_ALLOW_UNAUTHENTICATED": "1: with a key, plain models and those without tags run too",
    "RANKMESH_KEY_FILE": "the file with the keys between several hosts",
    "RANKMESH_ADDRESS": "where rank 0 is reached from other hosts",
    "RANKMESH_PORT": "the port there; 29410 by default",
    "RANKMESH_COMPAT": "force: `import mindspore_lite` is Rankmesh though the real package is there",
    "RANKMESH_CLOSED": "1: `import rankmesh` closes the process to others of its user (no debugger, no core file)",
    "RANKMESH_LOG": "json: log lines are JSON where the program has configured no logging; text by default",
    "RANKMESH_PROGRESS": "0: a terminal shows no lines while a model takes long to load",
}
SECRET = {"RANKMESH_KEY"}
"""Those whose values are not shown."""
