"""Certificates of tests: an authority, and certificates that it signs, as PEM files."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Signed:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


class Authority:
    """An authority with a folder for what it signs."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        self.certificate = folder / f"{name}.pem"
        basic = x509.BasicConstraints(ca=True, path_length=None)
        made = _builder(self._name, self._name, self._key, DAY).add_extension(basic, critical=True)
        _write(self.certificate, made.sign(self._key, hashes.SHA256()))

    def sign(self, name: str, *, valid: timedelta = DAY) -> Signed:
        """A certificate for localhost and 127.0.0.1."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
        made = _builder(_named(name), self._name, key, valid)
        made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        signed = Signed(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        _write(signed.certificate, made.sign(self._key, hashes.SHA256()))
        form = Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        signed.key.write_bytes(key.private_bytes(*form))
        return signed


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, valid: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 9 * DAY)
        .not_valid_after(now + valid)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _write(path: Path, certificate: x509.Certificate) -> None:
    path.write_bytes(certificate.public_bytes(Encoding.PEM))
