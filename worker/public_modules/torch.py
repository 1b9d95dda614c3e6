"""Module `rankmesh.torch`: slices torch modules, and has collectives for slices made by hand.

The file is imported as `rankmesh.torch`. `import rankmesh` alone does not import it.
"""

from importlib.util import find_spec

if find_spec("torch") is None:
    raise ModuleNotFoundError(
        "rankmesh.torch needs torch, which is not installed: pip install 'rankmesh[torch]'.",
        name="torch",
    )

from rankmesh.compiler.slicing.torch_module import slice as slice
from rankmesh.compiler.torch_models.collectives import all_gather as all_gather
from rankmesh.compiler.torch_models.collectives import all_reduce as all_reduce
from rankmesh.compiler.torch_models.collectives import all_to_all as all_to_all
from rankmesh.compiler.torch_models.collectives import broadcast as broadcast
from rankmesh.compiler.torch_models.collectives import reduce_gradient as reduce_gradient
from rankmesh.compiler.torch_models.collectives import reduce_scatter as reduce_scatter
from rankmesh.compiler.torch_models.exported_node import to_onnx_nodes as to_onnx_nodes
from rankmesh.compiler.torch_models.group import Group as Group
