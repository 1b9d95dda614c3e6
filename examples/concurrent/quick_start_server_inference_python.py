"""Many clients of one model: a ModelParallelRunner hands their requests to its workers.

Usage: python quick_start_server_inference_python.py [WORKERS], in a folder that has
model/mobilenetv2.ms and model/input.bin, as run.sh and lite-server-cpu-pip.sh make them. One worker
is the serial baseline.

The classes are those of the first generation of the API (1.8 to 2.0-alpha); the names of the second
work as well.
"""

import sys
import time
from threading import Thread

import mindspore_lite as mslite
import numpy as np

MODEL = "./model/mobilenetv2.ms"
IMAGE = "./model/input.bin"
THREADS = 1  # of each worker; workers times threads should be no more than the machine has cores
CLIENTS = 5
TASKS = 2  # of each client
SHOWN = 5


def runner_of(workers: int) -> mslite.ModelParallelRunner:
    """The runner: as many workers over one copy of the weights."""
    context = mslite.Context(thread_num=THREADS, inter_op_parallel_num=THREADS)
    context.append_device_info(mslite.CPUDeviceInfo(enable_fp16=False))
    runner = mslite.ModelParallelRunner()
    runner.init(
        model_path=MODEL, runner_config=mslite.RunnerConfig(context=context, workers_num=workers)
    )
    return runner


def client(runner: mslite.ModelParallelRunner, number: int) -> None:
    """Send the tasks of one client, each once the one before is answered."""
    for task in range(1, TASKS + 1):
        inputs = runner.get_inputs()  # new tensors each time: clients do not disturb each other
        inputs[0].set_data_from_numpy(np.fromfile(IMAGE, dtype=np.float32))
        outputs: list[mslite.Tensor] = []
        began = time.time()
        runner.predict(inputs, outputs)  # fills the empty list
        took = time.time() - began
        lines = [f"parallel id:  {number}  | task index:  {task}  | run once time:  {took}  s"]
        for output in outputs:
            lines += described(output)
        print("\n".join(lines) + "\n", end="")  # in one piece, for other clients print too


def described(output: mslite.Tensor) -> list[str]:
    """The lines about one output."""
    first = output.get_data_to_numpy().flatten()[:SHOWN]
    return [
        f"tensor name is:{output.get_tensor_name().rstrip()} tensor size "
        f"is:{output.get_data_size()} "
        f"tensor elements num is:{output.get_element_num()}",
        f"output data is: {' '.join(map(str, first))}",
    ]


def main() -> None:
    """All clients at once."""
    runner = runner_of(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
    threads = [Thread(target=client, args=(runner, number)) for number in range(CLIENTS)]
    began = time.time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"total run time:  {time.time() - began}  s")


if __name__ == "__main__":
    main()
