"""The NVIDIA GPUs of this host."""

from __future__ import annotations

import glob
import os
from itertools import takewhile


def gpu_count() -> int:
    """How many NVIDIA GPUs this process may use."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    present = len(glob.glob("/dev/nvidia[0-9]*"))
    if visible is None:
        return present
    listed = takewhile(lambda item: item.strip() not in ("", "-1"), visible.split(","))  # CUDA stops there too
    return min(present, len(list(listed)))
