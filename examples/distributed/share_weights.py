"""Two models with equal weights on one card: a ModelGroup keeps one copy of the weights.

One model is for many rows, the other for one. Started by run.sh, which makes model/prompt.mindir
and model/token.mindir.
"""

import mindspore_lite as mslite
import numpy as np


def build(model: mslite.Model, path: str) -> None:
    """Build a model of the group; each has a context of its own."""
    context = mslite.Context()
    context.target = ["ascend"]
    context.ascend.provider = "ge"
    model.build_from_file(path, mslite.ModelType.MINDIR, context)


def main() -> None:
    """Group, then build, then predict with both."""
    prompt, token = mslite.Model(), mslite.Model()
    group = mslite.ModelGroup(mslite.ModelGroupFlag.SHARE_WEIGHT)
    group.add_model([prompt, token])  # before they are built
    build(prompt, "./model/prompt.mindir")
    build(token, "./model/token.mindir")
    rows = np.random.default_rng(0).standard_normal((16, 256), np.float32)
    many = prompt.predict([rows])[0].get_data_to_numpy()
    one = token.predict([rows[:1]])[0].get_data_to_numpy()
    print(
        f"{len(many)} rows and {len(one)} row; the first differs by at most "
        f"{np.abs(many[:1] - one).max()}"
    )


if __name__ == "__main__":
    main()
