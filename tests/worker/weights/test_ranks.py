"""Updates of a model of two ranks: each updates its own shard, and all use a version once all have
it.
"""

from __future__ import annotations

import glob
import os
from pathlib import Path

import pytest
from changed_weights import other, weights, with_weights
from launched import launch, script
from mindir_models import DATA

_START = """
    import os, sys
    import numpy as np
    import rankmesh as mslite
    sys.path.insert(0, sys.argv[3])
    from changed_weights import other, weights
    rank = int(os.environ["RANK"])

    def build(pattern, model=None, **config):
        context, model = mslite.Context(), model or mslite.Model()
        context.cpu.thread_num = 1
        model.build_from_file(pattern, mslite.ModelType.MINDIR, context,
                              config_dict={"ascend_context": config} if config else None)
        return model

    def predict(model):
        numbers = np.random.default_rng(5)
        arrays = [np.full(t.shape, 3, np.int32) if t.dtype == mslite.DataType.INT32 else
                  numbers.random(t.shape).astype(np.float32) for t in model.get_inputs()]
        return [output.get_data_to_numpy() for output in model.predict(arrays)]

    def same(a, b):
        return all(np.allclose(x, y, 1e-4, 1e-5) for x, y in zip(a, b))

    def tensors(arrays):
        made = []
        for name, array in arrays.items():
            made.append(mslite.Tensor(array))
            made[-1].name = name
        return [made]

    mine = sys.argv[1].replace("{rank}", str(rank))
    model = build(sys.argv[1])
    new = {name: array for name, array in other(weights(mine)).items()}
    changed = predict(build(sys.argv[2]))
    exported = predict(model)
    assert not same(exported, changed)
    version = lambda: model.get_model_info("weights_version")
"""
_AGREE = """
    model.update_weights(tensors(new))
    assert same(predict(model), changed) and version() == "1"
    old = {name: weights(mine)[name] for name in new}
    if rank == 0:
        model.update_weights(tensors(old))
    assert same(predict(model), changed)
    if rank == 1:
        model.update_weights(tensors(old))
    assert same(predict(model), exported) and version() == "2"
    for arrays in (new, old, new) if rank == 0 else (old, new):
        model.update_weights(tensors(arrays))
    assert version() == ("5" if rank == 0 else "4") and same(predict(model), exported)
    if rank == 1:
        model.update_weights(tensors(new))
    assert same(predict(model), changed)
"""
_FAIL = """
    name = list(new)[0]
    wrong = {**new, name: np.zeros(3, np.float32)}
    try:
        model.update_weights(tensors(wrong if rank == 1 else new))
        assert rank == 0
    except mslite.InputError as error:
        assert rank == 1 and name in str(error)
    assert same(predict(model), exported)
    if rank == 0:
        model.rollback()
    assert same(predict(model), exported)
    model.update_weights(tensors(new))
    assert same(predict(model), changed)
    model.rollback()
    assert same(predict(model), exported)
    if rank == 1:
        model.update_weights(tensors({n: a * np.float32(3) for n, a in new.items()}))
        model.update_weights(tensors(new))
        try:
            model.rollback()
            assert False
        except mslite.UsageError as error:
            assert "no version of the weights to go back to" in str(error)
    assert same(predict(model), exported)
"""
_FILES = """
    model.load_weights(sys.argv[2])
    assert same(predict(model), changed)
"""
_SHARED = """
    owner = build(sys.argv[1], shareable_weight_pid_list=str(os.getpid()))
    user = build(sys.argv[1], shareable_weight_mem_handle=owner.get_model_info("shareable_weight_mem_handle"))
    assert same(predict(user), exported)
    owner.update_weights(tensors(new))
    assert same(predict(user), exported)  # until the owners have agreed on it
    assert same(predict(owner), changed)
    assert same(predict(user), changed)
"""  # noqa: E501
_GROUP = """
    os.environ["XDG_CACHE_HOME"] = os.path.dirname(sys.argv[2])
    group, models = mslite.ModelGroup(mslite.ModelGroupFlag.SHARE_WEIGHT), [mslite.Model(), mslite.Model()]
    group.add_model(models)
    for one in models:
        build(sys.argv[1], one)
        assert same(predict(one), exported)
    models[0].update_weights(tensors(new))
    assert all(same(predict(one), changed) for one in models)
    models[1].rollback()
    assert all(same(predict(one), exported) for one in models)
    if rank == 0:
        models[1].update_weights(tensors(new))
    assert all(same(predict(one), exported) for one in models)
    if rank == 1:
        models[0].update_weights(tensors(new))
    assert all(same(predict(one), changed) for one in models)
"""  # noqa: E501


@pytest.mark.parametrize("name", ["dist_tp_mlp_2", "dist_while_2", "dist_optshard_2"])
def test_ranks_use_a_version_once_all_have_it(tmp_path: Path, name: str) -> None:
    """Weights of segments in loops, and weights that a collective gathers, too."""
    again = "    model = build(sys.argv[1])\n"
    two_ranks_do(tmp_path, name, _AGREE, again, _FAIL, again, _FILES, _SHARED)


def two_ranks_do(tmp_path: Path, name: str, *parts: str) -> None:
    """Run `parts` with the shards of a model, and copies of them that have other weights."""
    changed = ""
    for path in sorted(glob.glob(str(DATA / name / "*.mindir"))):
        folder = tmp_path / f"of {os.path.basename(path)}"
        folder.mkdir()
        changed = with_weights(path, other(weights(path)), folder)
        os.rename(changed, tmp_path / os.path.basename(path))
    pattern = f"{name}_rank{{rank}}.mindir"
    status, _, errors = launch(
        "--ranks",
        2,
        script(tmp_path, _START, *parts),
        DATA / name / pattern,
        tmp_path / pattern,
        Path(__file__).parents[2] / "support",
    )
    assert status == 0, errors


def test_models_of_a_group_follow_once_all_ranks_have_an_update(tmp_path: Path) -> None:
    two_ranks_do(tmp_path, "dist_tp_mlp_2", _GROUP)


def test_all_ranks_must_be_live(tmp_path: Path) -> None:
    text = """
    import os, sys
    import rankmesh as mslite
    config = {"pids": "0"} if os.environ["RANK"] == "0" else None
    mslite.Model().build_from_file(sys.argv[1], mslite.ModelType.MINDIR, mslite.Context(), config_dict=config)
    """  # noqa: E501
    status, _, errors = launch(
        "--ranks",
        2,
        script(tmp_path, text),
        DATA / "dist_tp_mlp_2" / "dist_tp_mlp_2_rank{rank}.mindir",
    )
    assert status != 0
    assert (
        "rank 0 shares or updates its weights, and rank 1 does not share or update its weights"
        in errors
    )
