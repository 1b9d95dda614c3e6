"""What lies beside a model: external weights in another folder, named groups of ranks."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from group_files import encoded
from launched import launch, script
from mindir_models import DATA, fails, file_of, saved
from onnx_models import collective, model, node
from primitives import same

from rankmesh import Context, Model, ModelType
from rankmesh.comm.errors import InputError, ModelError, UsageError
from rankmesh.compiler.model_file.config import Config
from rankmesh.compiler.model_file.loaded_model import LoadedModel
from rankmesh.compiler.model_file.model_assets import ModelAssets
from rankmesh.worker.partition.cut import make_plan

KEYS = [("model_file", "mindir_path"), ("weight", "weight_path")]


@pytest.fixture
def apart(tmp_path: Path) -> tuple[Path, Path]:
    """A split model's graph in one folder and its weights in another."""
    graph, weights = tmp_path / "graph", tmp_path / "weights"
    for folder in (graph, weights):
        folder.mkdir()
    shutil.copy(DATA / "split_mlp" / "split_mlp_graph.mindir", graph)
    shutil.copytree(DATA / "split_mlp" / "split_mlp_variables", weights / "split_mlp_variables")
    return graph / "split_mlp.mindir", weights


def build(path: Path, **arguments: Any) -> Model:
    context, made = Context(), Model()
    context.cpu.thread_num = 1
    made.build_from_file(str(path), ModelType.MINDIR, context, **arguments)
    return made


@pytest.mark.parametrize(("section", "key"), KEYS)
@pytest.mark.parametrize("named", ["folder", "file in it"])
def test_weights_lie_where_the_configuration_says(
    apart: tuple[Path, Path], section: str, key: str, named: str
):
    path, weights = apart
    fails(ModelError, "split_mlp_variables/data_0, which is missing", build, path)
    if named == "file in it":
        (weights / "any.mindir").touch()
    place = weights if named == "folder" else weights / "any.mindir"
    made = build(path, config_dict={section: {key: f'"{place}"'}})
    (x,), (reference,) = saved("split_mlp")
    same(made.predict([x])[0].get_data_to_numpy(), reference)
    made.resize(made.get_inputs(), [[1, 16]])
    same(made.predict([x[:1]])[0].get_data_to_numpy(), reference[:1])
    assert made.get_model_info("user_info") == ""


def test_weights_of_a_file_that_the_model_does_not_have_are_named(apart: tuple[Path, Path]):
    path, weights = apart
    made = build(path, config_dict={"model_file": {"mindir_path": str(weights)}})
    fails(InputError, "has no weight '", made.load_weights, file_of("gpt2"))
    made.load_weights(file_of("mlp"))
    same(made.predict(saved("mlp")[0])[0].get_data_to_numpy(), saved("mlp")[1][0])


def test_a_relative_folder_may_be_relative_to_the_ini_file(
    apart: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)  # `../weights` must not lead anywhere from the current folder
    ini = tmp_path / "weights" / "model.ini"
    ini.write_text("[model_file]\nmindir_path=../weights\n")
    same(
        build(apart[0], config_path=str(ini)).predict(saved("split_mlp")[0])[0].get_data_to_numpy(),
        saved("split_mlp")[1][0],
    )


def test_weights_of_an_onnx_model(tmp_path: Path):
    proto = model(
        [node("Add", "x w", "y")],
        {"x": [64]},
        {"y": [64]},
        constants={"w": np.arange(64, dtype=np.float32)},
    )
    graph, weights = tmp_path / "graph", tmp_path / "weights"
    for folder in (graph, weights):
        folder.mkdir()
    onnx.save(
        proto, graph / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
    )
    os.rename(graph / "w.bin", weights / "w.bin")
    fails(ModelError, "w.bin, which is missing", build, graph / "m.onnx")
    made = build(graph / "m.onnx", config_dict={"model_file": {"mindir_path": str(weights)}})
    np.testing.assert_array_equal(
        made.predict([np.ones(64, np.float32)])[0].get_data_to_numpy(), np.arange(64) + 1
    )


def test_no_path_leaves_the_named_folder(apart: tuple[Path, Path], tmp_path: Path):
    path, weights = apart
    os.rename(weights / "split_mlp_variables", tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", weights / "split_mlp_variables")
    fails(
        ModelError,
        f"lies outside the model's folder {weights}: refused",
        build,
        path,
        config_dict={"model_file": {"mindir_path": str(weights)}},
    )


def test_a_model_whose_weights_lie_elsewhere_is_not_cached(
    apart: tuple[Path, Path], tmp_path: Path
):
    """The cache knows a model by its own file, and the weights may be others next time."""
    path, weights = apart
    build(
        path,
        config_dict={
            "model_file": {"mindir_path": str(weights)},
            "ascend_context": {"model_cache_dir": str(tmp_path / "cache")},
        },
    )
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("sections", "text"),
    [
        (
            {"model_file": {"mindir_path": "/no/such.mindir"}},
            "[model_file] mindir_path = /no/such.mindir: does not exist",
        ),
        (
            {"weight": {"weight_path": "/no/such"}},
            "[weight] weight_path = /no/such: does not exist",
        ),
        ({"weight": {"path": "."}}, "the section [weight] of the configuration has no weight_path"),
    ],
)
def test_bad_folders(sections: dict[str, dict[str, str]], text: str):
    fails(RuntimeError, text, build, DATA / "split_mlp" / "split_mlp.mindir", config_dict=sections)


def test_nothing_is_named():
    assets = ModelAssets.of(Config({"model_file": {"other": "key"}}))
    assert (assets.folder, assets.groups, bool(assets)) == ("", {}, False)


# Named groups.


def shard(**attributes: Any) -> LoadedModel:
    proto = model(
        [collective("AllReduce", "x", "s", **attributes), node("Neg", "s", "y")],
        {"x": [4]},
        {"y": [4]},
        known={"s": [4]},
    )
    return LoadedModel(proto, "m.onnx")


def test_a_shard_may_name_a_group_that_the_file_defines():
    plan = make_plan(shard(group="tp"), 1, 4, {"tp": (3, 1)})
    (exchange,) = plan.collectives
    assert (exchange.call.group.name, exchange.call.group.ranks) == ("tp", (3, 1))
    assert make_plan(shard(group="tp", ranks=[3, 1]), 1, 4, {"tp": (3, 1)}).collectives == [
        exchange
    ]


@pytest.mark.parametrize(
    ("attributes", "groups", "text"),
    [
        (
            {"group": "tp"},
            {},
            "does not say which ranks the group 'tp' has. Export the model with the group's "
            "rank list, or"
            " set context.group_info_file.",
        ),
        ({"group": "tp"}, {"dp": (0, 1)}, "does not say which ranks the group 'tp' has"),
        (
            {"group": "tp", "ranks": [0, 1]},
            {"tp": (1, 0)},
            "ranks [0, 1] here and [1, 0] in the group_info_file",
        ),
        (
            {"group": "tp"},
            {"tp": (1, 2)},
            "this file was given to rank 0, but its group 'tp' is ranks [1, 2]",
        ),
        ({"group": "tp"}, {"tp": (0, 4)}, "was sliced for at least 5 ranks"),
    ],
)
def test_groups_that_do_not_fit(
    attributes: dict[str, Any], groups: dict[str, tuple[int, ...]], text: str
):
    fails(ModelError, text, make_plan, shard(**attributes), 0, 4, groups)


GROUPED = """
    import sys
    import numpy as np
    import rankmesh as mslite

    context = mslite.Context()
    context.cpu.thread_num = 1
    context.group_info_file = sys.argv[2]
    model = mslite.Model()
    model.build_from_file(sys.argv[1], mslite.ModelType.MINDIR, context)
    rank = context.gpu.rank_id
    print(rank, model.predict([np.full(4, 10 ** rank, np.float32)])[0].get_data_to_numpy()[0])
"""


def test_ranks_use_the_groups_of_the_file(tmp_path: Path):
    for rank in range(3):
        group = "pair" if rank < 2 else "single"
        onnx.save(shard(group=group).model, tmp_path / f"m{rank}.mindir")
    groups = tmp_path / "groups.ckpt"
    groups.write_bytes(encoded({"pair": (0, 1), "single": (2,)}))
    status, out, errors = launch(
        "--ranks", 3, script(tmp_path, GROUPED), tmp_path / "m.mindir", groups
    )
    assert status == 0, errors
    assert sorted(out.splitlines()) == ["[rank 0] 0 -11.0", "[rank 1] 1 -11.0", "[rank 2] 2 -100.0"]


def test_a_group_file_that_cannot_be_read_fails_the_build(tmp_path: Path):
    context, made = Context(), Model()
    context.group_info_file = str(tmp_path / "groups.ckpt")
    fails(
        UsageError,
        f"build_from_file failed! Error is group_info_file {tmp_path / 'groups.ckpt'}: cannot "
        "be read",
        made.build_from_file,
        str(DATA / "mlp" / "mlp.mindir"),
        ModelType.MINDIR,
        context,
    )
