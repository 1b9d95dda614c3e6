"""Choice by devices: the backend of ranks whose results stay on devices."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from .registry import BackendChoice


class DevicePlace(msgspec.Struct, frozen=True):
    """The device that keeps a rank's results, and the backend whose collectives run there.

    `device` is the same in every process and no other device's. Both are "" where results lie on
    the host, or no backend is installed that runs on the device.
    """

    device: str = ""
    backend: str = ""


HOST = DevicePlace()


def choose_on_devices(choice: BackendChoice, places: Sequence[DevicePlace]) -> BackendChoice:
    """The backend for ranks at `places`, in rank order, in place of the `choice` for the host.

    nccl and hccl refuse ranks that share a device. The user's choice stays.
    """
    backends = {place.backend for place in places}
    if choice.asked or len(backends) > 1 or backends == {""}:
        return choice
    (backend,) = backends
    if len({place.device for place in places}) < len(places):
        reason = f"{choice.reason}, and some share a device, which {backend} refuses"
        return msgspec.structs.replace(choice, reason=reason)
    return BackendChoice(backend, "each rank keeps its results on a device of its own")
