"""Decryption: every mode and layout gives the plain text; a wrong or missing key is said; no key is
ever shown.
"""

from __future__ import annotations

import shutil
import sys
import tracemalloc
from pathlib import Path

import msgspec
import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import algorithms
from encrypted import ENTRIES, KEY, encrypt_file, encrypted, framed
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_models import model, node

from rankmesh.comm.errors import ModelError, UsageError
from rankmesh.compiler.mindir.crypto import (
    Decryption,
    decrypt,
    decryption_from_environment,
    decryption_from_hex,
)
from rankmesh.compiler.mindir.graph import MindirModel
from rankmesh.compiler.mindir.mindir_pb2 import ModelProto
from rankmesh.compiler.mindir.reader import read_model
from rankmesh.compiler.mindir.segments import MODES
from rankmesh.compiler.model_file.model_format import load_model

pytestmark = pytest.mark.pure

DATA = Path(__file__).parents[2] / "data" / "mindir"
MLP = DATA / "mlp" / "mlp.mindir"
OTHER = b"another key 0123"


def plain(content: bytes, mode: str = "AES-GCM", key: bytes = KEY) -> bytes:
    return bytes(decrypt("m.mindir", memoryview(content), Decryption(key, mode, True)).data)


def file_of(entry: str) -> Path:
    return next(path for path in (DATA / entry).iterdir() if path.suffix == ".mindir")


def read(
    path: Path, mode: str = "AES-GCM", key: bytes | None = KEY, allow: bool = False
) -> MindirModel:
    return read_model(str(path), Decryption(key, mode, allow) if key else None)


def refuse(path: Path, mode: str, key: bytes | None, *phrases: str, allow: bool = False) -> str:
    """Reading fails by a ModelError that names the file and says each phrase, and shows no key."""
    with pytest.raises(ModelError) as caught:
        read(path, mode, key, allow)
    text = str(caught.value)
    for phrase in (str(path), *phrases):
        assert phrase in text
    assert not key or (key.decode() not in text and key.hex() not in text)
    return text


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(MODES), st.lists(st.binary(max_size=70), min_size=1, max_size=4), st.booleans()
)
def test_what_was_encrypted_comes_back(mode: str, parts: list[bytes], tagless: bool) -> None:
    if not (tagless and mode == "SM4-CBC"):  # younger than that layout
        assert plain(encrypted(parts, mode, tagless=tagless), mode) == b"".join(parts)


@pytest.mark.parametrize("length", [16, 24, 32])
@pytest.mark.parametrize("mode", ["AES-GCM", "AES-CBC"])
def test_keys_of_every_length(mode: str, length: int) -> None:
    key = bytes(range(length))
    assert plain(encrypted([b"text"], mode, key), mode, key) == b"text"


def test_a_segment_longer_than_one_step() -> None:
    text = np.random.default_rng(0).bytes((1 << 24) + 12345)
    for mode in ("AES-GCM", "AES-CBC"):
        assert plain(encrypted([text, b"end"], mode), mode) == text + b"end"


@pytest.mark.parametrize("entry", sorted(ENTRIES))
def test_the_weights_are_those_of_the_plain_export(entry: str) -> None:
    mode, key = ENTRIES[entry]
    model = read(file_of(entry), mode, key)
    wanted = {weight.name: weight.array() for weight in read_model(str(MLP)).weights.values()}
    assert {weight.name for weight in model.weights.values()} == wanted.keys()
    for weight in model.weights.values():
        np.testing.assert_array_equal(weight.array(), wanted[weight.name])
        assert not weight.array().flags.writeable


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("segment", [1000, 4096, 1 << 26])
def test_models_in_several_segments(tmp_path: Path, mode: str, segment: int) -> None:
    path = encrypt_file(MLP, tmp_path / "m.mindir", mode, segment)
    assert load_model(str(path), Decryption(KEY, mode)).model == _renamed(
        load_model(str(MLP)).model, "m.mindir"
    )


def _renamed(model, location: str):
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            entry.value = location if entry.key == "location" else entry.value
    return model


@pytest.mark.parametrize("mode", ["AES-GCM", "AES-CBC"])
def test_models_of_the_old_layout(
    tmp_path: Path, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "m.mindir"
    path.write_bytes(encrypted([MLP.read_bytes()], mode, tagless=True))
    assert len(read(path, mode, allow=True).weights) == len(read_model(str(MLP)).weights)
    assert ("has no tags" in caplog.text) == (mode == "AES-GCM")
    refuse(path, mode, OTHER, "wrong key or mode", allow=True)


def changed_without_its_tag(position: int, change: int) -> bytes:
    """MLP encrypted, then changed by an attacker without the key: AES-GCM turns plain bits with
    those of its cipher.
    """
    content = bytearray(encrypted([MLP.read_bytes()]))
    del content[4:20]  # the tag
    content[4 + 12 + 16 + position] ^= change
    return bytes(content)


def test_a_file_whose_tags_were_cut_out_is_refused(tmp_path: Path) -> None:
    """The attacker chooses what a weight becomes, without the key."""
    weight = next(iter(read(MLP, key=None).weights.values()))
    path = tmp_path / "m.mindir"
    path.write_bytes(
        changed_without_its_tag(weight.offset + 3, 0x80)
    )  # the sign of its first number
    refuse(
        path,
        "AES-GCM",
        KEY,
        "has no tags",
        "nothing shows whether it was changed",
        "--allow-unauthenticated",
        "RANKMESH_ALLOW_UNAUTHENTICATED=1",
    )
    forged = next(iter(read(path, allow=True).weights.values()))
    assert forged.array().ravel()[0] == -weight.array().ravel()[0]


def test_cbc_of_the_old_layout_is_what_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "m.mindir"
    path.write_bytes(encrypted([MLP.read_bytes()], "AES-CBC", tagless=True))
    assert read(path, "AES-CBC").weights


@pytest.mark.parametrize("mode", MODES)
def test_split_models(tmp_path: Path, mode: str) -> None:
    """As MindSpore writes the data: each write of the exporter is a segment of its own."""
    shutil.copytree(DATA / "split_mlp", tmp_path / "model")
    graph = tmp_path / "model" / "split_mlp_graph.mindir"
    data = tmp_path / "model" / "split_mlp_variables" / "data_0"
    encrypt_file(graph, graph, mode)
    encrypt_file(data, data, mode, 64)
    weights = {weight.name: weight.array() for weight in read_model(str(MLP)).weights.values()}
    for weight in read(graph, mode).weights.values():
        np.testing.assert_array_equal(weight.array(), weights[weight.name])


def test_half_a_split_model_encrypted(tmp_path: Path) -> None:
    shutil.copytree(DATA / "split_mlp", tmp_path / "model")
    graph = tmp_path / "model" / "split_mlp_graph.mindir"
    encrypt_file(graph, graph)
    with pytest.raises(ModelError, match="data_0: is not encrypted, and a key was given"):
        read(graph)
    refuse(graph, "AES-GCM", KEY, "data_0: is not encrypted", "not of one export", allow=True)


@pytest.mark.parametrize("entry", sorted(ENTRIES))
def test_no_key(entry: str) -> None:
    mode, _ = ENTRIES[entry]
    text = refuse(
        file_of(entry),
        mode,
        None,
        f"is encrypted ({mode})",
        "--key HEX",
        "--key-file FILE",
        "RANKMESH_KEY",
        "dec_key",
    )
    assert (f"--dec-mode {mode}" in text) == (mode != "AES-GCM")


@pytest.mark.parametrize("entry", sorted(ENTRIES))
def test_wrong_key(entry: str) -> None:
    mode, key = ENTRIES[entry]
    wrong = (OTHER * 2)[: len(key)]
    refuse(
        file_of(entry),
        mode,
        wrong,
        "wrong key" if mode == "AES-GCM" else "wrong key or mode",
        "at byte 0",
    )


def test_a_wrong_key_whose_padding_fits_by_chance(tmp_path: Path) -> None:
    """One key in 256: the plain text is then no model, which says the same."""
    content = file_of("enc_cbc16").read_bytes()
    chance = next(
        key for key in (n.to_bytes(16, "little") for n in range(10_000)) if _padded(content, key)
    )
    (tmp_path / "m.mindir").write_bytes(content)
    with pytest.raises(ModelError, match="wrong key or mode"):
        read(tmp_path / "m.mindir", "AES-CBC", chance)


def _padded(content: bytes, key: bytes) -> bool:
    try:
        plain(content, "AES-CBC", key)
    except ModelError:
        return False
    return True


@pytest.mark.parametrize(
    ("entry", "asked"),
    [
        ("enc_cbc16", "AES-GCM"),
        ("enc_gcm16", "AES-CBC"),
        ("enc_sm4", "AES-CBC"),
        ("enc_gcm16", "SM4-CBC"),
    ],
)
def test_another_mode_than_the_file_has(entry: str, asked: str) -> None:
    mode, key = ENTRIES[entry]
    refuse(
        file_of(entry),
        asked,
        key,
        f"is encrypted with {mode}",
        f"{asked} was asked for",
        f"--dec-mode {mode}",
    )


def test_one_changed_byte_of_the_cipher_text() -> None:
    content = bytearray(encrypted([b"one", b"two"]))
    content[-1] ^= 1
    with pytest.raises(ModelError, match="at byte 51 does not decrypt: wrong key"):
        plain(bytes(content))


@pytest.mark.parametrize("length", [0, 15, 17])
def test_cbc_of_no_whole_blocks(length: int) -> None:
    with pytest.raises(
        ModelError, match=f"at byte 0 has {length} bytes, no positive multiple of 16"
    ):
        plain(framed("AES-CBC", b"", bytes(length)), "AES-CBC")


@pytest.mark.parametrize("cut", [5, 40, 1000, 15365])
def test_a_truncated_file(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "cut.mindir"
    path.write_bytes(file_of("enc_gcm16").read_bytes()[:cut])
    refuse(path, "AES-GCM", KEY, "at byte 0", "again, whole")


def test_a_plain_model_in_the_place_of_an_encrypted_one_is_refused() -> None:
    refuse(
        MLP,
        "AES-GCM",
        KEY,
        "is not encrypted, and a key was given",
        "expected a file that was encrypted",
        "--allow-unauthenticated",
        "RANKMESH_ALLOW_UNAUTHENTICATED=1",
        "A model that is not secret needs no key",
    )
    assert read(MLP, allow=True).weights and read(MLP, key=None).weights


def test_an_onnx_file_in_the_place_of_an_encrypted_one_is_refused(tmp_path: Path) -> None:
    """The content says what a file is, not its name."""
    path = tmp_path / "m.mindir"
    path.write_bytes(model([node("Neg", "x", "y")], {"x": [4]}, {"y": [4]}).SerializeToString())
    for load in (load_model, lambda path, decryption: load_model(path, decryption, shapes=[(8,)])):
        with pytest.raises(ModelError, match="is not encrypted, and a key was given"):
            load(str(path), Decryption(KEY))
        assert load(str(path), Decryption(KEY, allow_unauthenticated=True)).model.graph.node


@pytest.mark.parametrize(
    ("value", "allowed"), [("1", True), ("", False), ("0", False), ("true", False), (" 1", False)]
)
def test_the_environment_allows_it_by_1_alone(value: str, allowed: bool) -> None:
    environ = {"RANKMESH_KEY": KEY.hex(), "RANKMESH_ALLOW_UNAUTHENTICATED": value}
    assert decryption_from_environment(environ, "AES-GCM") == Decryption(KEY, "AES-GCM", allowed)


@pytest.mark.parametrize(
    ("mode", "length"), [("AES-GCM", 15), ("AES-CBC", 33), ("SM4-CBC", 32), ("AES-GCM", 0)]
)
def test_keys_of_another_length(mode: str, length: int) -> None:
    with pytest.raises(UsageError, match=f"has {length} bytes, expected 16.* for {mode}"):
        Decryption(bytes(length), mode)


def test_an_unknown_mode() -> None:
    with pytest.raises(UsageError, match="'AES-XTS', expected AES-GCM, AES-CBC, SM4-CBC"):
        Decryption(KEY, "AES-XTS")


def test_keys_as_text() -> None:
    wanted = Decryption(KEY, "AES-CBC")
    assert decryption_from_hex(KEY.hex().upper(), "AES-CBC", "--key") == wanted
    assert decryption_from_environment({"RANKMESH_KEY": f" {KEY.hex()}\n"}, "AES-CBC") == wanted
    assert decryption_from_environment({"RANKMESH_KEY": ""}, "AES-CBC") is None
    with pytest.raises(UsageError, match="RANKMESH_KEY holds no key") as caught:
        decryption_from_environment({"RANKMESH_KEY": "secret"}, "AES-CBC")
    assert "secret" not in str(caught.value) and caught.value.__suppress_context__


def test_a_key_shows_nowhere() -> None:
    one = Decryption(KEY)
    assert KEY.decode() not in f"{one} {one!r}"
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(one), type=Decryption) == one


def test_cryptography_missing_or_without_sm4(monkeypatch: pytest.MonkeyPatch) -> None:
    content = encrypted([b"text"], "SM4-CBC")
    with monkeypatch.context() as patch:
        patch.delattr(algorithms, "SM4")
        with pytest.raises(
            ModelError, match="the installed package cryptography cannot do SM4-CBC"
        ):
            plain(content, "SM4-CBC")
    monkeypatch.setitem(sys.modules, "rankmesh.compiler.mindir.ciphers", None)
    with pytest.raises(ModelError, match="pip install cryptography"):
        plain(content, "SM4-CBC")


def test_reading_and_lowering_copy_no_decrypted_weight(tmp_path: Path) -> None:
    model = ModelProto.FromString(MLP.read_bytes())
    model.graph.parameter[0].dims[:] = [64 << 20 >> 2]
    model.graph.parameter[0].raw_data = bytes(64 << 20)
    path = tmp_path / "big.mindir"
    path.write_bytes(encrypted([model.SerializeToString()]))
    del model
    tracemalloc.start()
    try:
        loaded = load_model(str(path), Decryption(KEY))
        assert (
            tracemalloc.get_traced_memory()[1] < 16 << 20
        )  # the plain text itself is mapped, and not counted
    finally:
        tracemalloc.stop()
    assert [len(data) >> 20 for data in loaded.memory.values()] == [64]
