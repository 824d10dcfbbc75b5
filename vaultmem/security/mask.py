"""Put placeholders where secrets stood, and name each secret without telling it."""

import hmac
from collections.abc import Callable, Sequence
from hashlib import sha256

from vaultmem.model.note import Finding
from vaultmem.security.secrets import Secret, apart

# Of a secret, what a report may show: enough to find it again, too little to be of use.
MAX_SHOWN = 4
# A shorter value may be a word that stands elsewhere for itself.
MIN_REPEATED = 8
# Values that a note is looked through for once more; each costs a pass over it.
MAX_REPEATED = 200
# Hexadecimal digits, behind those of the key.
FINGERPRINT_CHARS = 16


def mask(text: str, secrets: Sequence[Secret]) -> str:
    """The text with `[secret:KIND]` for each secret; it keeps its number of lines."""
    parts: list[str] = []
    at = 0
    for start, end, kind in secrets:
        parts += (text[at:start], placeholder(text, start, end, f"secret:{kind}"))
        at = end
    parts.append(text[at:])
    return "".join(parts)


def with_repetitions(text: str, secrets: Sequence[Secret]) -> tuple[Secret, ...]:
    """The secrets and every other place of the text where one of them stands again.

    Only what looks random is looked for: a word that was taken for a password is one elsewhere.
    """
    values = {text[start:end]: kind for start, end, kind in secrets if _telling(text[start:end])}
    if not values:
        return apart(secrets)
    taken = list(secrets)
    for value, kind in sorted(values.items(), key=lambda entry: -len(entry[0]))[:MAX_REPEATED]:
        at = text.find(value)
        while at >= 0:
            end = at + len(value)
            taken.append(Secret(at, end, kind))
            at = text.find(value, end)
    return apart(taken)


def _telling(value: str) -> bool:
    """Whether a value is nothing else wherever it stands: digits and letters, and not few."""
    digits = sum(sign.isdigit() for sign in value)
    return len(value) >= MIN_REPEATED and digits >= 2 and any(map(str.isalpha, value))


def placeholder(text: str, start: int, end: int, name: str) -> str:
    """`[name]` for a stretch of a text, with as many line ends.

    It keeps away from brackets: `[[name]]` would be a link to a note.
    """
    before = " " if text[start - 1 : start] == "[" else ""
    behind = " " if text[end : end + 1] == "]" else ""
    return f"{before}[{name}]{behind}" + "\n" * text.count("\n", start, end)


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
