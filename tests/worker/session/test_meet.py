"""Which rank a script is, from its launcher, its rank table and its Context, before anybody is
waited for.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import rankmesh
from rankmesh.comm.errors import UsageError
from rankmesh.comm.rendezvous.rendezvous import SingleRank
from rankmesh.compiler.model_file.config import Config
from rankmesh.worker.api_types.context import Context
from rankmesh.worker.session.meet import meet

pytestmark = pytest.mark.pure

TABLES = Path(rankmesh.__file__).parent / "rank_tables"
TWO = "hccl_2p_01_10.20.30.41.json"
FOUR_FIVE = "hccl_2p_45_10.20.30.41.json"
TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none",
    "RANK": "1",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
}


def ascend(rank: int | None = None, device: int | None = None) -> Context:
    context = Context()
    context.target = ["Ascend"]
    if rank is not None:
        context.ascend.rank_id = rank
    if device is not None:
        context.ascend.device_id = device
    return context


def config(table: str | Path) -> Config:
    return Config({"ascend_context": {"rank_table_file": str(TABLES / table)}})


@pytest.fixture
def torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is rank 1 of 2."""
    for name, text in TORCHRUN.items():
        monkeypatch.setenv(name, text)


def refusal(context: Context, configuration: Config) -> str:
    with pytest.raises(UsageError) as caught:
        meet(context, configuration)
    return str(caught.value)


def test_alone_without_launcher_and_table() -> None:
    meeting = meet(Context(), Config())
    assert isinstance(meeting, SingleRank) and meeting.rank.world_size == 1


def test_table_of_one() -> None:
    assert isinstance(meet(ascend(), config("hccl_1p_0_10.20.30.41.json")), SingleRank)


@pytest.mark.parametrize(
    "context, table, message",
    [
        (ascend(2, 0), TWO, "ascend.rank_id is 2, and the rank table has the ranks 0 to 1"),
        (
            ascend(1, 0),
            "hccl_1p_0_10.20.30.41.json",
            "ascend.rank_id is 1, and the rank table has the ranks 0 to 0",
        ),
        (ascend(1, 0), TWO, "ascend.device_id is 0, and the rank table gives rank 1 the device 1"),
        (ascend(0, 0), FOUR_FIVE, "the rank table gives rank 0 the device 4"),
        (ascend(0, 3), "hccl_1p_0_10.20.30.41.json", "the rank table gives rank 0 the device 0"),
    ],
)
def test_context_against_table(context: Context, table: str, message: str) -> None:
    assert message in refusal(context, config(table))


def test_faults_of_the_table_are_told_with_its_file(tmp_path: Path) -> None:
    assert "missing.json" in refusal(ascend(), config("missing.json"))
    text = (TABLES / TWO).read_text()
    broken = tmp_path / "broken.json"
    broken.write_text(text.replace('"rank_id": "1"', '"rank_id": "0"'))
    assert broken.read_text() != text
    assert str(broken) in refusal(ascend(), config(broken))


@pytest.mark.usefixtures("torchrun")
@pytest.mark.parametrize(
    "context, configuration, message",
    [
        (
            ascend(),
            config("hccl_8p_01234567_10.20.30.41.json"),
            "rank table has 8 ranks, and torchrun started 2",
        ),
        (ascend(3), Config(), "ascend.rank_id is 3, and torchrun says that this is rank 1"),
        (ascend(0), Config(), "ascend.rank_id is 0, and torchrun says that this is rank 1"),
        (
            ascend(1, 0),
            config(FOUR_FIVE),
            "ascend.device_id is 0, and the rank table gives rank 1 the device 5",
        ),
        (
            ascend(1, 4),
            config(FOUR_FIVE),
            "ascend.device_id is 4, and the rank table gives rank 1 the device 5",
        ),
    ],
)
def test_user_against_launcher(context: Context, configuration: Config, message: str) -> None:
    assert message in refusal(context, configuration)


@pytest.mark.usefixtures("torchrun")
def test_launchers_variables_against_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "2")
    assert "the variables of torchrun contradict each other: rank 2" in refusal(Context(), Config())
