"""A weight update: a weight changes while the model runs, without a new build.

The next predict uses it. config.ini names the file that lists the weights that may change. Started
by run.sh, which makes model/unet.mindir.
"""

from pathlib import Path

import mindspore_lite as mslite
import numpy as np

MODEL = "./model/unet.mindir"
CONFIG = str(Path(__file__).with_name("config.ini"))
SHAPE = (512, 512)  # of proj.weight, the one weight in the list


def predict(model: mslite.Model) -> np.ndarray:
    """The model's answer to ones at step 0."""
    outputs = model.predict([np.ones((1, 512), np.float32), np.zeros(1, np.int32)])
    return outputs[0].get_data_to_numpy()


def main() -> None:
    """Predict before and after two updates."""
    context = mslite.Context()
    context.target = ["ascend"]
    model = mslite.Model()
    model.build_from_file(MODEL, mslite.ModelType.MINDIR, context, CONFIG)
    print("output data is:", *predict(model)[0, :5])

    # [[...]]: one update of one tensor. Without a name it stands for the one weight in the list;
    # with several weights each tensor needs its name: tensor.name = "proj.weight".
    model.update_weights([[mslite.Tensor(np.zeros(SHAPE, np.float32))]])
    print("with zeros for a weight:", *predict(model)[0, :5])

    new_weight = mslite.Tensor(np.eye(*SHAPE, dtype=np.float32))
    new_weight.name = "proj.weight"
    model.update_weights([[new_weight]])
    print("with the identity for it:", *predict(model)[0, :5])


if __name__ == "__main__":
    main()
