"""The networks of bench/single.py and bench/build.py: MindIRs by MindSpore, their twins in ONNX by
torch.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from models import cache_folder

_HERE = Path(__file__).parent


class Network(NamedTuple):
    """One network and its files in the cache."""

    name: str
    title: str
    requests: int  # of one round
    convolutions: bool = False  # MindSpore runs these with a reference kernel on the CPU

    @property
    def mindir(self) -> Path:
        return _folder() / f"{self.name}.mindir"

    @property
    def results(self) -> Path:
        """Inputs and MindSpore's outputs; written last."""
        return _folder() / f"{self.name}.npz"

    @property
    def twin(self) -> Path:
        return _folder() / f"{self.name}.onnx"


NETWORKS = (
    Network("resnet50", "ResNet-50", 40, True),
    Network("mobilenetv2", "MobileNetV2", 200, True),
    Network("bert", "BERT-base, 128 tokens", 12),
    Network("gpt2", "GPT-2 small, 128 tokens", 8),
    Network("vit", "ViT-B/32", 30),
    Network("swin", "Swin-T", 30),
    Network("unet", "UNet like SD's, 32x32", 20, True),
)


def written(names: list[str]) -> list[Network]:
    """Those of the networks named (all where none is) that MindSpore has written; says how to write
    the others.
    """
    unknown = set(names) - {network.name for network in NETWORKS}
    if unknown:
        sys.exit(
            f"no network is called {min(unknown)}: choose from "
            f"{', '.join(one.name for one in NETWORKS)}"
        )
    wanted = [network for network in NETWORKS if not names or network.name in names]
    missing = [network.name for network in wanted if not network.results.is_file()]
    if missing:
        script = _HERE.parent / "tests" / "oracle" / "bench_models.py"
        print(
            f"left out, not written yet: {', '.join(missing)}. Write them where mindspore and "
            "mindcv are installed:\n"
            f"    python {script} {' '.join(missing)}"
        )
    return [network for network in wanted if network.name not in missing]


def with_twins(networks: list[Network]) -> list[Network]:
    """Those that have a twin, exported now where torch is installed."""
    if find_spec("torch"):
        for network in networks:
            if not network.twin.is_file():
                _export(network)
    elif not all(network.twin.is_file() for network in networks):
        print(
            "torch is not installed (bash launch/setup.sh torch): networks without a twin yet "
            "go without one"
        )
    return [network for network in networks if network.twin.is_file()]


def _export(network: Network) -> None:
    print(f"writing {network.twin} ...", file=sys.stderr)
    unfinished = network.twin.with_name(f".{network.twin.name}")
    files = [str(path) for path in (network.mindir, network.results, unfinished)]
    subprocess.run(
        [sys.executable, "-m", "twins.export", network.name, *files], check=True, cwd=_HERE
    )
    unfinished.rename(network.twin)


def _folder() -> Path:
    return cache_folder() / "single-1"
