"""What must hold for the super pods of a rank table: they name its servers, each once."""

from __future__ import annotations

from collections.abc import Iterator

from .draft import Draft
from .fault import RankTableFault

_MAX_ID = 64


def super_pod_faults(draft: Draft) -> Iterator[RankTableFault]:
    """Everything in which the super pods contradict themselves or the servers; none where there are no super pods."""
    if draft.super_pods:
        yield from _id_faults(draft)
        yield from _member_faults(draft)
        yield from _super_device_faults(draft)


def _id_faults(draft: Draft) -> Iterator[RankTableFault]:
    seen: dict[str, str] = {}
    for i, pod in enumerate(draft.super_pods):
        path = f"super_pod_list[{i}].super_pod_id"
        first = seen.setdefault(pod.super_pod_id, path)
        if first != path:
            yield RankTableFault(f"{pod.super_pod_id[:_MAX_ID]!r} is repeated; {first} has it already", path)
        if not 0 < len(pod.super_pod_id) <= _MAX_ID:
            yield RankTableFault(f"got {pod.super_pod_id[:_MAX_ID]!r}, expected 1 to {_MAX_ID} characters", path)
        if not pod.server_ids:
            yield RankTableFault("has 0 elements, expected at least 1", f"super_pod_list[{i}].server_list")


def _member_faults(draft: Draft) -> Iterator[RankTableFault]:
    known = dict.fromkeys(server.server_id for server in draft.servers)
    seen: dict[str, str] = {}
    for path, name in _members(draft):
        first = seen.setdefault(name, path)
        if name not in known:
            yield RankTableFault(f"got {name[:_MAX_ID]!r}, which server_list does not name", path)
        elif first != path:
            yield RankTableFault(f"{name[:_MAX_ID]!r} is repeated; {first} has it already", path)
    for name in known:
        if name not in seen:
            yield RankTableFault(f"names no super pod for the server {name[:_MAX_ID]!r}", "super_pod_list")


def _members(draft: Draft) -> Iterator[tuple[str, str]]:
    for i, pod in enumerate(draft.super_pods):
        for j, name in enumerate(pod.server_ids):
            yield f"super_pod_list[{i}].server_list[{j}].server_id", name


def _super_device_faults(draft: Draft) -> Iterator[RankTableFault]:
    pod_of = {name: pod.super_pod_id for pod in draft.super_pods for name in pod.server_ids}
    seen: dict[tuple[str, int], str] = {}
    for server, place in zip(draft.servers, draft.places, strict=True):
        pod = pod_of.get(server.server_id)
        for device, path in zip(server.devices, place.device, strict=True):
            if pod is None or device.super_device_id is None:
                continue
            first = seen.setdefault((pod, device.super_device_id), f"{path}.super_device_id")
            if first != f"{path}.super_device_id":
                yield RankTableFault(f"{device.super_device_id} is repeated in the super pod {pod[:_MAX_ID]!r}; "
                                     f"{first} has it already", f"{path}.super_device_id")
