"""Losses with margins, against their definitions in numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from primitives import check

RNG = np.random.default_rng(7)
both = pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def hinges(scores: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    """One row's loss, and which classes are labels."""
    valid = labels[: np.argmax(labels < 0)] if (labels < 0).any() else labels
    others = [i for i in range(len(scores)) if i not in valid]
    total = sum(max(0.0, 1 - scores[label] + scores[i]) for label in valid for i in others)
    return total / len(scores), np.isin(np.arange(len(scores)), valid)


@both
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_labels_end_with_the_first_that_is_negative(
    tmp_path: Path, dynamic: bool, reduction: str
) -> None:
    scores = normal(3, 4)
    labels = np.array([[2, 0, -1, 3], [-1, 1, 2, 3], [3, 1, 0, 2]], np.int32)
    losses, marks = zip(*map(hinges, scores, labels), strict=True)
    loss = {"none": np.array(losses), "sum": np.sum(losses), "mean": np.mean(losses)}[
        reduction
    ].astype(np.float32)
    check(
        tmp_path,
        "MultilabelMarginLoss",
        [scores, labels],
        (loss, np.array(marks).astype(np.int32)),
        dynamic=dynamic,
        reduction=reduction,
    )


def test_one_row_of_labels(tmp_path: Path) -> None:
    scores, labels = normal(4), np.array([1, 1, -1, 0], np.int32)
    loss, marks = hinges(scores, labels)
    check(
        tmp_path,
        "MultilabelMarginLoss",
        [scores, labels],
        (np.float32(loss), marks.astype(np.int32)),
        reduction="mean",
    )


@both
@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("swap", [False, True])
def test_triplets(tmp_path: Path, dynamic: bool, p: int, swap: bool) -> None:
    x, like, unlike = normal(5, 3), normal(5, 3), normal(5, 3)
    near, far, between = (
        ((np.abs(one - other) + 1e-3) ** p).sum(1) ** (1 / p)
        for one, other in ((x, like), (x, unlike), (like, unlike))
    )
    far = np.minimum(far, between) if swap else far
    expected = np.maximum(0, 0.5 + near - far).astype(np.float32)
    check(
        tmp_path,
        "TripletMarginLoss",
        [x, like, unlike, np.array(0.5, np.float32)],
        expected,
        dynamic=dynamic,
        p=p,
        swap=swap,
        eps=1e-3,
        reduction="none",
    )
