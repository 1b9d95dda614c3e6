"""Detection: boxes chosen among those that overlap."""

from __future__ import annotations

from typing import Any

import torch

from ..operator_node import TorchNode
from ..registry import Compute, computes


@computes("NonMaxSuppression", of_data=True)
def non_max_suppression(node: TorchNode) -> Compute:
    """The best boxes of each class that overlap with no better one too much."""
    centred = bool(node.integer("center_point_box"))

    def run(boxes: torch.Tensor, scores: torch.Tensor, *given: Any) -> torch.Tensor:
        most, overlap, least = (
            None if one is None or not one.numel() else one.item()
            for one in (*given, None, None, None)[:3]
        )
        rows = [torch.zeros(0, 3, dtype=torch.int64, device=boxes.device)]
        for image in range(scores.shape[0]):
            overlaps = _overlaps(boxes[image], centred)
            for kind in range(scores.shape[1]):
                chosen = _chosen(scores[image, kind], overlaps, int(most or 0), overlap or 0, least)
                made = torch.tensor(
                    [[image, kind, box] for box in chosen], dtype=torch.int64, device=boxes.device
                )
                rows.append(made.reshape(-1, 3))
        return torch.cat(rows)

    return run


def _chosen(
    scores: torch.Tensor, overlaps: torch.Tensor, most: int, limit: float, least: Any
) -> list[int]:
    """The indices of at most `most` boxes, the best first."""
    order = torch.argsort(scores, descending=True, stable=True)
    if least is not None:
        order = order[scores[order] > least]
    hidden = torch.zeros(scores.shape[0], dtype=torch.bool, device=scores.device)
    found: list[int] = []
    for box in order.tolist():
        if len(found) >= most:
            break
        if not hidden[box]:
            found.append(box)
            hidden |= overlaps[box] > limit
    return found


def _overlaps(boxes: torch.Tensor, centred: bool) -> torch.Tensor:
    """The intersection of each pair of boxes over their union."""
    if centred:
        half = boxes[:, 2:] / 2
        low, high = boxes[:, :2] - half, boxes[:, :2] + half
    else:
        low, high = (
            torch.minimum(boxes[:, :2], boxes[:, 2:]),
            torch.maximum(boxes[:, :2], boxes[:, 2:]),
        )
    least = torch.maximum(low[:, None], low)
    common = (torch.minimum(high[:, None], high) - least).clamp(min=0).prod(-1)
    area = (high - low).prod(-1)
    union = area[:, None] + area - common
    valid = (common > 0) & (area[:, None] > 0) & (area > 0) & (union > 0)
    return torch.where(valid, common / union, torch.zeros_like(common))
