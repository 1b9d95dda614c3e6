"""Weights shared between processes through Model: owner, users, handles, and updates that all of
them see.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from changed_weights import other, weights, with_weights
from mindir_models import built, fails, file_of, saved
from processes import wait_until
from told_process import PATIENCE
from weights_user import User, build, predict, tensor, update

from rankmesh import Model, UsageError, WeightManager
from rankmesh.worker.api.model import weight_owner
from rankmesh.worker.weights import readers as quiescence


@pytest.fixture
def user() -> Iterator[User]:
    made = User()
    yield made
    made.close()


@pytest.fixture
def owner() -> Iterator[User]:
    made = User()
    yield made
    made.close()


def results(made: Model, inputs: list[np.ndarray]) -> list[np.ndarray]:
    return [output.get_data_to_numpy() for output in made.predict(inputs)]


@pytest.mark.parametrize(
    "name",
    [
        "mlp",
        "split_mlp",
        "bert_encoder",
        "lstm",
        "bf16_params",
        "cf_while",
        "state_cache",
        "passthrough",
    ],
)
def test_a_user_computes_what_the_owner_does_and_follows_its_updates(user: User, name: str) -> None:
    inputs, _ = saved(name)
    made = built(
        name, config_dict={"ascend_context": {"shareable_weight_pid_list": f"0, {user.pid}"}}
    )
    handle = made.get_model_info("shareable_weight_mem_handle")
    assert 0 < int(handle) < 2**63
    user("build", file_of(name), {"ascend_context": {"shareable_weight_mem_handle": handle}})
    assert user("info", "shareable_weight_mem_handle") == ""
    for number in range(3):
        assert user("info", "weights_version") == str(number)
        for mine, theirs in zip(results(made, inputs), user("predict", inputs), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        names = weight_owner(made).names
        new = {
            key: array for key, array in other(weights(file_of(name))).items() if names.known(key)
        }
        made.update_weights(
            [[tensor(key, array * array.dtype.type(1 + number)) for key, array in new.items()]]
        )
    made.rollback()
    assert user("info", "weights_version") == "2"
    for mine, theirs in zip(results(made, inputs), user("predict", inputs), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize(
    "config",
    [
        lambda handle: {"shared_mem_handle": int(handle)},
        lambda handle: {"shared_mem_handle": handle},
        lambda handle: {"ascend_context": {"shareable_weight_mem_handle": int(handle)}},
    ],
)
def test_the_documents_other_spellings(user: User, config: Any) -> None:
    inputs, _ = saved("mlp")
    made = built("mlp", config_dict={"pids": f"{user.pid}, 0"})
    assert (
        user("build", file_of("mlp"), config(made.get_model_info("shareable_weight_mem_handle")))
        == ""
    )
    np.testing.assert_array_equal(results(made, inputs)[0], user("predict", inputs)[0])


def test_models_that_share_nothing_have_no_handle() -> None:
    assert built("mlp").get_model_info("shareable_weight_mem_handle") == ""
    assert Model().get_model_info("shareable_weight_mem_handle") == ""


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"pids": "1;2"}, "build_from_file failed! Error is shareable_weight_pid_list: got '1;2'"),
        ({"pids": "one"}, "expected process ids separated by commas"),
        ({"pids": "1", "shared_mem_handle": 5}, "are both set"),
        ({"shared_mem_handle": 0}, "shareable_weight_mem_handle is '0', expected the number"),
        ({"shared_mem_handle": 2**63}, "1 to 2**63 - 1"),
        ({"shared_mem_handle": "none"}, "shareable_weight_mem_handle is 'none'"),
        ({"shared_mem_handle": 4711}, "no process shares weights under this handle"),
    ],
)
def test_configurations_that_are_refused(config: dict[str, Any], text: str) -> None:
    fails(RuntimeError, text, built, "mlp", config_dict=config)


def test_users_do_not_update(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("fc1.weight")
    config = {
        "shareable_weight_mem_handle": "5",
        "variable_weights_file": str(tmp_path / "names.txt"),
    }
    fails(
        RuntimeError,
        "only the owner of shared weights updates them",
        built,
        "mlp",
        config_dict={"ascend_context": config},
    )


def test_numbers_elsewhere_stay_type_errors() -> None:
    fails(
        TypeError,
        "config_dict_value_value must be str",
        built,
        "mlp",
        config_dict={"ascend_context": {"a": 1}},
    )
    fails(TypeError, "config_dict_value must be dict", built, "mlp", config_dict={"a": "1"})
    fails(TypeError, "config_dict must be dict", built, "mlp", config_dict=[])


def test_another_model_is_refused(user: User, tmp_path: Path) -> None:
    """Other bytes are another model, another name or place is not."""
    made = built("mlp", config_dict={"pids": str(user.pid)})
    config = {"shared_mem_handle": made.get_model_info("shareable_weight_mem_handle")}
    name, array = next(iter(weights(file_of("mlp")).items()))
    changed = array.copy()
    changed.reshape(-1)[3] += 1
    for path in (file_of("lenet5"), with_weights(file_of("mlp"), {name: changed}, tmp_path)):
        assert "refuses: the model differs from the owner's" in user("build", path, config)
    copy = shutil.copy(file_of("mlp"), tmp_path / "copy.mindir")
    assert user("build", str(copy), config) == ""


def test_only_the_owner_updates(user: User) -> None:
    made = built("mlp", config_dict={"pids": str(user.pid)})
    user(
        "build",
        file_of("mlp"),
        {"shared_mem_handle": made.get_model_info("shareable_weight_mem_handle")},
    )
    assert "belong to another process, and only their owner updates them" in user(
        "update", other(weights(file_of("mlp")))
    )


def test_the_weight_manager(user: User) -> None:
    inputs, _ = saved("mlp")
    made = built("mlp")
    with WeightManager.share(made, pids=[user.pid]) as manager:
        config = {"shared_mem_handle": manager.handle}
        assert user("build", file_of("mlp"), config) == ""
        assert manager.clients() == [user.pid]
        manager.revoke(user.pid)
        assert "is not on the owner's list" in user("build", file_of("mlp"), config)
        np.testing.assert_array_equal(
            user("predict", inputs)[0], results(made, inputs)[0]
        )  # what it has it keeps
        manager.allow(user.pid)
        assert user("build", file_of("mlp"), config) == ""
        with pytest.raises(UsageError, match="there is no process 4194000 here"):
            manager.allow(4194000)
    assert "no process shares weights under this handle" in user("build", file_of("mlp"), config)
    np.testing.assert_array_equal(user("predict", inputs)[0], results(made, inputs)[0])


def test_who_has_the_weights_when_the_sharing_ends(user: User) -> None:
    """It goes on with them, holds up no update, and is told where an update needs memory that it
    does not get.
    """
    inputs, _ = saved("mlp")
    made = built("mlp")
    (first, a), (second, b), *_ = weights(file_of("mlp")).items()
    with WeightManager.share(made, pids=[user.pid]) as manager:
        user("build", file_of("mlp"), {"shared_mem_handle": manager.handle})
    np.testing.assert_array_equal(user("predict", inputs)[0], results(made, inputs)[0])
    made.update_weights([[tensor(first, a * np.float32(2))]])
    for _ in range(2):
        assert "does not get them any more" in user("predict", inputs)
    with WeightManager.share(made, pids=[user.pid]) as again:
        assert again.handle != manager.handle
        assert user("build", file_of("mlp"), {"shared_mem_handle": again.handle}) == ""
        np.testing.assert_array_equal(user("predict", inputs)[0], results(made, inputs)[0])
    made.update_weights([[tensor(first, a * np.float32(2)), tensor(second, b * np.float32(3))]])
    np.testing.assert_array_equal(
        user("predict", inputs)[0], results(made, inputs)[0]
    )  # it has all memory there is


def test_a_user_that_comes_after_updates(user: User) -> None:
    inputs, _ = saved("mlp")
    made = built("mlp", config_dict={"pids": str(user.pid)})
    for factor in (2, 3):
        update(
            [made],
            {key: array * np.float32(factor) for key, array in weights(file_of("mlp")).items()},
        )
    user(
        "build",
        file_of("mlp"),
        {"shared_mem_handle": made.get_model_info("shareable_weight_mem_handle")},
    )
    assert user("info", "weights_version") == "2"
    np.testing.assert_array_equal(user("predict", inputs)[0], results(made, inputs)[0])


def test_a_user_that_stops_in_a_request_is_named(
    user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An update that needs the memory it reads fails and changes nothing; once it goes on, updates
    do too.
    """
    monkeypatch.setattr(quiescence, "READERS_DEADLINE", 0.3)
    path, names = uniform(tmp_path)
    made: list[Model] = []
    handle = build(made, path, {"pids": str(user.pid)})
    user("build", path, {"shared_mem_handle": handle})
    user.tell("stop_inside", [np.ones((1, 64), np.float32)])
    assert user.answer() == "inside"
    update(made, {names[0]: np.ones((64, 64), np.float32)})
    with pytest.raises(
        UsageError, match=f"process {user.pid} computes with the version before the current one"
    ):
        update(made, {names[0]: np.zeros((64, 64), np.float32)})
    assert made[0].get_model_info("weights_version") == "1"
    user.tell("go on")
    assert user.answer() == "done"
    assert update(made, {names[0]: np.zeros((64, 64), np.float32)}) == "2"


def test_an_owner_that_dies(owner: User, user: User) -> None:
    """Who has the weights goes on; newcomers are told."""
    inputs, _ = saved("mlp")
    handle = owner("build", file_of("mlp"), {"pids": f"{user.pid}"})
    assert user("build", file_of("mlp"), {"shared_mem_handle": handle}) == ""
    before = user("predict", inputs)
    owner.close()
    np.testing.assert_array_equal(user("predict", inputs)[0], before[0])
    assert "its owner has ended" in user("build", file_of("mlp"), {"shared_mem_handle": handle})


def test_a_user_that_dies_holds_up_no_update(user: User) -> None:
    made = built("mlp", config_dict={"pids": str(user.pid)})
    user(
        "build",
        file_of("mlp"),
        {"shared_mem_handle": made.get_model_info("shareable_weight_mem_handle")},
    )
    broker = weight_owner(made).broker
    assert broker is not None
    assert broker.clients() == [user.pid]
    user.process.kill()
    user.process.join()
    for number in range(1, 5):
        update(
            [made],
            {key: array * np.float32(number) for key, array in weights(file_of("mlp")).items()},
        )
    wait_until(lambda: not broker.clients(), "the broker to notice the end of its client")


def test_a_dropped_owners_memory_is_freed() -> None:
    made = built("mlp", config_dict={"pids": "0"})
    made.update_weights([[tensor(*next(iter(weights(file_of("mlp")).items())))]])
    kept = weakref.ref(weight_owner(made))
    del made
    gc.collect()
    assert kept() is None


def test_a_model_that_is_dropped_is_no_owner_any_more(owner: User, user: User) -> None:
    handle = owner("build", file_of("mlp"), {"pids": f"{user.pid}"})
    owner("drop")
    assert "no process shares weights under this handle" in user(
        "build", file_of("mlp"), {"shared_mem_handle": handle}
    )


def test_a_fork_does_not_use_the_parents_place() -> None:
    inputs, _ = saved("mlp")
    made = built("mlp", config_dict={"pids": ""})
    mine, theirs = multiprocessing.get_context("fork").Pipe()

    def child() -> None:
        try:
            made.predict(inputs)
        except UsageError as error:
            theirs.send(str(error))

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    assert mine.poll(PATIENCE)
    assert "was forked from it: build the model in each process" in mine.recv()
    process.join()


def uniform(folder: Path, width: int = 64) -> tuple[str, list[str]]:
    """Four products with weights of their own, which hold one and the same number in every
    version."""
    from onnx import save
    from onnx_models import model, node

    names = [f"w{i}" for i in range(4)]
    nodes = [node("MatMul", f"x {name}", f"y{i}") for i, name in enumerate(names)]
    save(
        model(
            nodes,
            {"x": [1, width]},
            {f"y{i}": [1, width] for i in range(4)},
            constants={name: np.zeros((width, width), np.float32) for name in names},
        ),
        str(folder / "four.onnx"),
        save_as_external_data=True,
        location="four.bin",
    )
    return str(folder / "four.onnx"), names


def test_users_see_all_of_an_update_or_none(user: User, tmp_path: Path) -> None:
    path, names = uniform(tmp_path)
    made: list[Model] = []
    handle = build(made, path, {"pids": str(user.pid)})
    assert user("build", path, {"shared_mem_handle": handle}) == ""
    user.tell("watch", [np.ones((1, 64), np.float32)], 100)
    number, deadline = 0, time.monotonic() + PATIENCE
    while not user.pipe.poll(0):
        assert time.monotonic() < deadline
        number += 1
        assert update(made, {name: np.full((64, 64), number, np.float32) for name in names}) == str(
            number
        )
    assert user.answer() == 0


def test_one_copy_of_the_weights(user: User, tmp_path: Path) -> None:
    """64 MiB of weights: neither process has them in memory of its own, and both map them."""
    path, _ = uniform(tmp_path, 2048)
    made: list[Model] = []
    handle = build(made, path, {"pids": str(user.pid)})
    user("build", file_of("mlp"), None)  # everything is imported
    before = user("memory")
    assert user("build", path, {"shared_mem_handle": handle}) == ""
    user("predict", [np.ones((1, 2048), np.float32)])
    growth = {key: value - before[key] for key, value in user("memory").items()}
    assert growth["Rss"] > 60 * 2**20
    assert growth["Private_Dirty"] < 8 * 2**20
    assert growth["Pss_Anon"] < 8 * 2**20


def weight_files() -> dict[int, int]:
    """The bytes that each file of weights takes which this process has open, by its inode."""
    gc.collect()  # earlier tests' owners close theirs
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the descriptor of the listing itself
            path = f"/proc/self/fd/{fd}"
            if re.match("/memfd:rankmesh-weights(-spare)? ", os.readlink(path)):
                found[os.stat(path).st_ino] = os.stat(path).st_blocks * 512
    return found


def test_updates_take_two_more_copies_of_what_they_change(tmp_path: Path) -> None:
    """Of four weights of 16 MiB one is updated: 64 and 32 MiB, and files do not become more with
    further updates.
    """
    path, names = uniform(tmp_path, 2048)
    made: list[Model] = []
    before = weight_files().keys()
    build(made, path, {"pids": "0"})
    for number in range(1, 6):
        update(made, {names[0]: np.full((2048, 2048), number, np.float32)})
    files = weight_files().keys() - before
    assert len(files) == 2
    assert 96 * 2**20 <= sum(weight_files()[file] for file in files) < 98 * 2**20
    update(made, {name: np.ones((2048, 2048), np.float32) for name in names[1:]})
    assert weight_files().keys() - before == files


def test_the_command_updates_an_owner(owner: User, tmp_path: Path) -> None:
    inputs, _ = saved("mlp")
    names = tmp_path / "names.txt"
    new = other(weights(file_of("mlp")))
    names.write_text("\n".join(name for name in new if name.endswith("weight")))
    owner("build", file_of("mlp"), {"ascend_context": {"variable_weights_file": str(names)}})
    before = owner("predict", inputs)
    np.savez(tmp_path / "new.npz", **new)
    done = _command("--pid", owner.pid, tmp_path / "new.npz")
    assert done.returncode == 0, done.stderr
    assert f"updated {len(new)} weights of {file_of('mlp')}: version 1" in done.stdout
    want = _expected(with_weights(file_of("mlp"), new, tmp_path), inputs)
    np.testing.assert_allclose(owner("predict", inputs)[0], want[0], 1e-5, 1e-6)
    np.savez(tmp_path / "zero.npz", **{name: np.zeros_like(array) for name, array in new.items()})
    assert _command("--pid", owner.pid, tmp_path / "zero.npz", "--delta").returncode == 0
    np.testing.assert_array_equal(owner("predict", inputs)[0], before[0])
    np.savez(tmp_path / "bad.npz", stranger=np.zeros(3))
    bad = _command("--pid", owner.pid, tmp_path / "bad.npz")
    assert bad.returncode == UsageError.exit_code
    assert "has no weight 'stranger'" in bad.stderr
    assert owner("info", "weights_version") == "2"


def _command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rankmesh", "update-weights", *map(str, arguments)],
        text=True,
        capture_output=True,
        timeout=PATIENCE,
    )


def _expected(path: str, inputs: list[np.ndarray]) -> list[np.ndarray]:
    made: list[Model] = []
    build(made, path, None)
    return predict(made, inputs)


def test_the_command_names_who_shares_nothing(user: User, tmp_path: Path) -> None:
    np.savez(tmp_path / "new.npz", w=np.zeros(3))
    done = _command("--pid", user.pid, tmp_path / "new.npz")
    assert done.returncode == UsageError.exit_code
    assert f"process {user.pid} shares no weights" in done.stderr
    assert "cannot be read" in _command("--pid", 1, tmp_path / "none.npz").stderr
