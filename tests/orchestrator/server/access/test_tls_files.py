"""TLS files: those that cannot be used are named at the start."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

import pytest
from certificates import DAY, Authority

from rankmesh import UsageError
from rankmesh.orchestrator.server.access.tls_files import TlsFiles, TlsIdentity

pytestmark = pytest.mark.pure


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority(folder)
    authority.sign("a")
    authority.sign("b")
    authority.sign("old", valid=-DAY)
    (folder / "nonsense").write_bytes(b"\0nonsense")
    return folder


def test_files_that_belong_together_make_a_context(folder: Path) -> None:
    files = TlsFiles(f"{folder}/a.pem", f"{folder}/a.key")
    made = TlsIdentity.read(files)
    assert made.context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert made.context.verify_mode == ssl.CERT_NONE
    mutual = TlsIdentity.read(TlsFiles(files.certificate, files.key, f"{folder}/authority.pem"))
    assert mutual.context.verify_mode == ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (("missing", "a.key", None), "missing: cannot be read: No such file"),
        (("a.pem", "missing", None), "missing: cannot be read"),
        (("nonsense", "a.key", None), "nonsense: has no certificate"),
        (("a.pem", "nonsense", None), "nonsense: has no private key"),
        (("a.pem", "a.pem", None), "a.pem: has no private key"),
        (("a.pem", "b.key", None), "b.key: is not the key of the certificate in"),
        (("a.pem", "a.key", "a.key"), "a.key: has no certificate"),
        (("a.pem", "a.key", "missing"), "missing: cannot be read"),
        ((".", "a.key", None), "cannot be read: Is a directory"),
    ],
)
def test_a_file_that_is_wrong_is_named(
    folder: Path, names: tuple[str | None, ...], text: str
) -> None:
    certificate, key, client_ca = (None if one is None else f"{folder}/{one}" for one in names)
    assert certificate is not None and key is not None
    with pytest.raises(UsageError) as raised:
        TlsIdentity.read(TlsFiles(certificate, key, client_ca))
    assert text in str(raised.value)


def test_one_option_alone_is_refused() -> None:
    assert TlsFiles.named(None, None) is None
    for options in (("a", None, None), (None, "a", None), (None, None, "a")):
        with pytest.raises(UsageError, match="--tls-certificate and --tls-key"):
            TlsFiles.named(*options)


def test_an_expired_certificate_is_told(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "rankmesh.server"):
        TlsIdentity.read(TlsFiles(f"{folder}/old.pem", f"{folder}/old.key"))
    assert "old.pem: the certificate has expired" in caplog.text
