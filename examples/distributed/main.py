"""One rank of a sliced model: each rank runs this with its own shard and the same input.

The collectives that join the ranks (here an AllReduce) are in the shards. A process gets its rank
- by arguments and a configuration with a rank table:
  --model_path=Matmul0.mindir --device_id=0 --rank_id=0 --config_file=config_file.ini;
- or from mpirun, rankmesh launch, torchrun or srun: --model_path=Matmul.mindir.
"""

import argparse

import mindspore_lite as mslite
import numpy as np

SHOWN = 10


def arguments() -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model_path", required=True)
    parser.add_argument("--device_id", type=int)
    parser.add_argument("--rank_id", type=int)
    parser.add_argument("--config_file", default="")
    return parser.parse_args()


def by_rank_table(args: argparse.Namespace) -> tuple[mslite.Context, str]:
    """The context and the file of a rank whose number is an argument."""
    context = mslite.Context()
    context.target = ["Ascend"]
    context.ascend.device_id = args.device_id
    context.ascend.rank_id = args.rank_id
    context.ascend.provider = "ge"
    return context, args.model_path


def by_launcher(args: argparse.Namespace) -> tuple[mslite.Context, str]:
    """The context and the file of a rank that its launcher numbers."""
    context = mslite.Context()
    context.target = ["gpu"]
    context.gpu.device_id = context.gpu.rank_id  # read from the launcher
    context.gpu.provider = "tensorrt"
    return context, args.model_path.replace(".mindir", f"{context.gpu.rank_id}.mindir")


def main() -> None:
    """Build this rank's shard together with the other ranks, predict, show."""
    args = arguments()
    context, path = by_rank_table(args) if args.config_file else by_launcher(args)
    model = mslite.Model()
    model.build_from_file(path, mslite.ModelType.MINDIR, context, args.config_file)

    inputs = [mslite.Tensor(np.ones(entry.shape, np.float32)) for entry in model.get_inputs()]
    for output in model.predict(inputs):
        values = " ".join(map(str, output.get_data_to_numpy().flatten()[:SHOWN]))
        # In one piece, for the other ranks print too.
        print(
            f"tensor's name is:{output.name.rstrip()} data size is:{output.data_size} "
            f"tensor elements num is:{output.element_num}\noutput data is: {values}\n",
            end="",
            flush=True,
        )


if __name__ == "__main__":
    main()
