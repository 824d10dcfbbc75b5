"""Put placeholders where secrets stood, and name each secret without telling it."""

import hmac
from collections.abc import Callable, Sequence
from hashlib import sha256

from vaultmem.model.note import Finding
from vaultmem.security.secrets import Secret

# Of a secret, what a report may show: enough to find it again, too little to be of use.
MAX_SHOWN = 4
# Hexadecimal digits, behind those of the key.
FINGERPRINT_CHARS = 16


def mask(text: str, secrets: Sequence[Secret]) -> str:
    """The text with `[secret:KIND]` for each secret; it keeps its number of lines."""
    parts: list[str] = []
    at = 0
    for start, end, kind in secrets:
        parts += (text[at:start], f"[secret:{kind}]", "\n" * text.count("\n", start, end))
        at = end
    parts.append(text[at:])
    return "".join(parts)


def report(
    text: str, secrets: Sequence[Secret], key: Callable[[], bytes], allowed: frozenset[str]
) -> tuple[Finding, ...]:
    """What may be told of secrets.

    key: a person's own, so that nobody else can try likely passwords against a fingerprint; empty
         bytes where there is none to be had, and fingerprints are empty then.
    """
    findings: list[Finding] = []
    at = line = 0
    for start, end, kind in secrets:
        line += text.count("\n", at, start)
        at = start
        secret = text[start:end]
        fingerprint = fingerprint_of(secret, key())
        shown = secret[: min(MAX_SHOWN, len(secret) // 6)].split("\n")[0]
        is_allowed = bool(fingerprint) and fingerprint in allowed
        findings.append(Finding(line + 1, kind, shown, fingerprint, is_allowed))
    return tuple(findings)


def fingerprint_of(secret: str, key: bytes) -> str:
    """A name for a secret that does not tell it: HMAC-SHA256 under a person's own key.

    It begins with a name of the key, so that those made with another can be told.
    """
    if not key:
        return ""
    digest = hmac.new(key, secret.encode("utf-8", "replace"), sha256).hexdigest()
    return key_name(key) + digest[:FINGERPRINT_CHARS]


def key_name(key: bytes) -> str:
    """The four digits that every fingerprint made with this key begins with."""
    return sha256(key).hexdigest()[:4] if key else ""
