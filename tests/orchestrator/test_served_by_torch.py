"""An orchestrator whose models run on torch: requests, and weights that are replaced meanwhile."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from served_models import WEIGHTS, weighed

pytest.importorskip("torch")

from rankmesh import ModelSettings, Orchestrator, UsageError

X = np.ones((2, 16), np.float32)


def test_two_ranks_answer_with_the_weights_of_now(tmp_path: Path) -> None:
    """One process start for both: a collective between segments, and an update in place."""
    settings = ModelSettings(weighed(tmp_path, 2), threads=1, executor="torch", cache=False)
    with Orchestrator(settings) as served:
        for value in (1, 3):
            if value > 1:
                changed = {name: np.full(WEIGHTS[name], value, np.float32) for name in WEIGHTS}
                served.update_weights(changed)
            answer = served.predict(X)
            assert (answer["y"] == 2 * 17 * value).all() and (answer["z"] == 2 * 16 * value).all()


def test_an_unknown_executor_is_an_error_with_those_there_are(tmp_path: Path) -> None:
    settings = ModelSettings(weighed(tmp_path), threads=1, executor="abacus", cache=False)
    with pytest.raises(UsageError, match="'abacus', expected one of onnxruntime, torch"):
        Orchestrator(settings).close()
