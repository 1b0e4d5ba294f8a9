"""Certificates for test servers, made with openssl."""

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Certificates:
    """A certificate of this machine, its key, and the authority that signed it."""

    ca: Path
    certificate: Path
    key: Path

    @property
    def context(self) -> ssl.SSLContext:
        """The context of a client that trusts the authority."""
        return ssl.create_default_context(cafile=self.ca)


def make_certificates(folder: Path, name: str = "IP:127.0.0.1") -> Certificates:
    """Make an authority in a folder, and a certificate for a name of this machine.

    Raises:
        FileNotFoundError: openssl is missing.
    """
    certificates = Certificates(folder / "ca.crt", folder / "server.crt", folder / "server.key")
    ca_key = folder / "ca.key"
    new_key = (
        *("openssl", "req", "-x509", "-noenc", "-days", "2"),
        *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
    )
    for command in (
        (*new_key, "-keyout", ca_key, "-out", certificates.ca, "-subj", "/CN=authority"),
        (
            *(
                *new_key,
                "-keyout",
                certificates.key,
                "-out",
                certificates.certificate,
                "-subj",
                "/CN=node",
            ),
            *("-CA", certificates.ca, "-CAkey", ca_key, "-addext", f"subjectAltName={name}"),
            *("-addext", "basicConstraints=critical,CA:false"),
        ),
    ):
        subprocess.run(command, check=True, capture_output=True)
    return certificates
