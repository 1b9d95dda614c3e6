"""Prior boxes in .ms files: the boxes of a detector, which depend on sizes alone."""

from __future__ import annotations

import numpy as np

from ..builder import Builder, Value, known, lowers, moderate


@lowers("Lite.PriorBox")
def prior_box(
    b: Builder,
    x: Value,
    image: Value = None,
    *,
    min_sizes: Value,
    max_sizes: Value,
    aspect_ratios: Value,
    variances: Value,
    image_size_w: int,
    image_size_h: int,
    step_w: float,
    step_h: float,
    clip: bool,
    flip: bool,
    offset: float,
) -> Value:
    """[1, 4 x boxes, 1, 2]: (left, top, right, bottom) of each box, and their variances, as Caffe
    has them. The sizes of the map and the image must be known.
    """
    rows, columns = (known(b.tensor(x), axis) for axis in (1, 2))
    tall, wide = image_size_h, image_size_w
    if not (tall and wide):
        tall, wide = (known(b.tensor(image), axis) for axis in (1, 2))
    moderate(len(aspect_ratios), "the number of aspect ratios", 256)
    moderate(len(min_sizes), "the number of sizes", 256)
    boxes = _boxes(min_sizes, max_sizes, _ratios(aspect_ratios, flip))
    moderate(rows * columns * len(boxes), "the number of boxes")
    y = (np.arange(rows) + offset) * (step_h or tall / rows)
    x_ = (np.arange(columns) + offset) * (step_w or wide / columns)
    center = np.stack(np.meshgrid(x_, y), -1)[:, :, None, :]  # [rows, columns, 1, (x, y)]
    scale = np.array([wide, tall])
    corners = np.concatenate([(center - boxes / 2) / scale, (center + boxes / 2) / scale], -1)
    corners = corners.clip(0, 1) if clip else corners
    spread = np.asarray(variances if len(variances) == 4 else list(variances[:1]) * 4)
    both = np.stack([corners, np.broadcast_to(spread, corners.shape)], -1)
    return both.astype(np.float32).reshape(1, -1, 1, 2)


def _ratios(given: Value, flip: bool) -> list[float]:
    found = [1.0]
    for ratio in given:
        if ratio and all(abs(ratio - one) >= 1e-6 for one in found):
            found += [ratio, 1 / ratio] if flip else [ratio]
    return found


def _boxes(least: Value, most: Value, ratios: list[float]) -> np.ndarray:
    """[boxes, (width, height)]: of each size the square, the one towards the next size, and the
    others by their ratios.
    """
    found = []
    for at, size in enumerate(least):
        found.append((size, size))
        if at < len(most):
            found.append((np.sqrt(size * most[at]),) * 2)
        found += [(size * np.sqrt(one), size / np.sqrt(one)) for one in ratios[1:]]
    return np.asarray(found, np.float64).reshape(-1, 2)
