"""Exports networks for conversions.py that bench/slicing_networks does not have: a UNet of
diffusers, a recurrent network, and networks with a branch and loops of torch.

Runs in the environment of bench/slicing_networks/export.py, and needs diffusers besides:

    pip install diffusers
    python -P tests/oracle/conversions_networks.py FOLDER

Writes NAME.onnx, and NAME.npz with inputs by name. Weights are random, from a fixed seed.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

sys.path.append(str(Path(__file__).parents[2] / "bench" / "slicing_networks"))
import preload  # noqa: F401  # before diffusers

SEED = 16


class Unet(nn.Module):
    """The UNet of Stable Diffusion, small: 4 channels of 16x16, and texts of 77 tokens."""

    def __init__(self) -> None:
        super().__init__()
        from diffusers import UNet2DConditionModel

        self.unet = UNet2DConditionModel(
            sample_size=16,
            block_out_channels=(32, 64),
            layers_per_block=1,
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
            cross_attention_dim=64,
            attention_head_dim=8,
            norm_num_groups=8,
        )

    def forward(self, sample: Tensor, timestep: Tensor, encoder_hidden_states: Tensor) -> Tensor:
        return self.unet(sample, timestep, encoder_hidden_states, return_dict=False)[0]


class Recurrent(nn.Module):
    """Two layers of an LSTM in both directions, and a classifier of each step."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(12, 16, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(32, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x)[0]).log_softmax(-1)


class Branching(nn.Module):
    """A layer that depends on the input."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            y = self.first(x).relu()
        else:
            y = self.second(x).tanh() + x
        return y * 2


class Looping(nn.Module):
    """A layer that is applied as often as the input says."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor, count: Tensor) -> Tensor:
        for turn in range(int(count)):
            x = self.layer(x).tanh() + float(turn)
        return x


def write(
    folder: Path,
    name: str,
    module: nn.Module,
    inputs: dict[str, Tensor],
    scripted: bool = False,
) -> None:
    """Write one network; a branch or a loop of torch is exported from a script."""
    torch.manual_seed(SEED)
    exported = torch.jit.script(module.eval()) if scripted else module.eval()
    with torch.no_grad():
        torch.onnx.export(
            exported,
            tuple(inputs.values()),
            str(folder / f"{name}.onnx"),
            input_names=list(inputs),
            output_names=["y"],
            opset_version=18,
            dynamo=False,
        )
    np.savez(folder / f"{name}.npz", **{key: one.numpy() for key, one in inputs.items()})
    print(name, flush=True)


def main() -> None:
    """See the module's docstring."""
    warnings.simplefilter("ignore")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(SEED)
    latent = {
        "sample": torch.randn(2, 4, 16, 16),
        "timestep": torch.tensor([50.0]),
        "encoder_hidden_states": torch.randn(2, 77, 64),
    }
    write(folder, "sd_unet", Unet(), latent)
    write(folder, "lstm", Recurrent(), {"x": torch.randn(2, 7, 12)})
    write(folder, "branch", Branching(), {"x": torch.randn(3, 8)}, True)
    count = torch.tensor(4)
    write(folder, "loop", Looping(), {"x": torch.randn(3, 8), "count": count}, True)


if __name__ == "__main__":
    main()
