"""A certificate authority for tests, made when it is needed and thrown away with its folder."""

from __future__ import annotations

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NAMES = ("localhost", "*.test")
ADDRESSES = ("127.0.0.1", "::1")


class Authority:
    """Its certificate is `ca`, a PEM file for the client; `context` is for the server."""

    def __init__(self, folder: Path) -> None:
        self.ca = folder / "ca.pem"
        key, name = _key(), _name("Twins test CA")
        root = _certificate(name, name, key.public_key(), ca=True).sign(key, hashes.SHA256())
        self.ca.write_bytes(root.public_bytes(serialization.Encoding.PEM))
        self._leaf = folder / "leaf.pem"
        leaf_key = _key()
        leaf = _certificate(_name("localhost"), name, leaf_key.public_key(), ca=False)
        signed = leaf.sign(key, hashes.SHA256())
        self._leaf.write_bytes(_private(leaf_key) + signed.public_bytes(serialization.Encoding.PEM))

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._leaf)
        return context


def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, *, ca: bool
) -> x509.CertificateBuilder:
    # TLS checks dates by the machine's clock, whatever time a twin believes in.
    today = datetime.now(UTC)
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in NAMES]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in ADDRESSES]
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - timedelta(days=1))
        .not_valid_after(today + timedelta(days=30))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )
    return made if ca else made.add_extension(x509.SubjectAlternativeName(names), critical=False)
