"""One model in one process: built once, used for any number of predictions.

Usage: python quick_start_cloud_infer_python.py [cpu|gpu|ascend], in a folder that has
model/mobilenetv2.mindir and model/input.bin, as run.sh and lite-cpu-pip.sh make them.
"""

import sys

import mindspore_lite as mslite
import numpy as np

MODEL = "./model/mobilenetv2.mindir"
IMAGE = "./model/input.bin"
SHOWN = 50


def context_for(target: str) -> mslite.Context:
    """The context for a device. A missing device is replaced by another one, with a warning."""
    context = mslite.Context()
    context.target = [target]
    context.cpu.thread_num = 1
    context.cpu.thread_affinity_mode = 2  # the cores of middle speed, where a CPU has several kinds
    if target == "gpu":
        context.gpu.device_id = 0
    if target == "ascend":
        context.ascend.device_id = 0
        context.ascend.provider = "ge"
    return context


def show(output: mslite.Tensor) -> None:
    """Print the name, the size in bytes, the number of elements, and the first of them."""
    print(
        f"tensor's name is:{output.name.rstrip()} data size is:{output.data_size} "
        f"tensor elements num is:{output.element_num}"
    )
    print("output data is:", *output.get_data_to_numpy().flatten()[:SHOWN])


def main() -> None:
    """Build, fill the input, predict, show."""
    model = mslite.Model()
    # This takes longest: a program builds its model once.
    model.build_from_file(
        MODEL, mslite.ModelType.MINDIR, context_for(sys.argv[1] if len(sys.argv) > 1 else "cpu")
    )

    inputs = model.get_inputs()
    # The array may be flat: as many bytes as the input has are enough. It is used where it lies,
    # not copied.
    inputs[0].set_data_from_numpy(np.fromfile(IMAGE, dtype=np.float32))

    for output in model.predict(inputs):
        show(output)


if __name__ == "__main__":
    main()
