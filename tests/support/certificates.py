"""Certificates for servers of tests: an authority of their own, and what it issues."""

import datetime
import secrets
import ssl
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Issued:
    """The certificate of a host and its key, as files."""

    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """What a server with this certificate uses."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


class Authority:
    """An authority whose certificate is the file `root`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Authority {secrets.token_hex(8)}")])
        self.root = folder / "root.crt"
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        self.root.write_bytes(_signed(self._builder(self._name, self._key).add_extension(constraints, True), self._key))

    def issue(self, host: str) -> Issued:
        """A certificate for a name or an address."""
        key = ec.generate_private_key(ec.SECP256R1())
        try:
            name: x509.GeneralName = x509.IPAddress(ip_address(host))
        except ValueError:
            name = x509.DNSName(host)
        builder = self._builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)]), key)
        files = Issued(self._folder / f"{host}.crt", self._folder / f"{host}.key")
        files.certificate.write_bytes(
            _signed(builder.add_extension(x509.SubjectAlternativeName([name]), False), self._key)
        )
        files.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return files

    def _builder(self, name: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder(self._name, name, key.public_key(), x509.random_serial_number())
        return builder.not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(
            now + datetime.timedelta(days=1)
        )


def _signed(builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> bytes:
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
