"""The scanner for secrets as a target.

An input is text in which the bytes from 128 on stand for pieces of credentials, so that no file of
the corpus holds one: they are put together here, of characters that chance gave once.
"""

import random
import re
import string
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise

from promises import in_time, sound, spent

from vaultmem.model.note import Screening
from vaultmem.security.engine import PythonEngine
from vaultmem.security.mask import mask
from vaultmem.security.rulebook import rulebook
from vaultmem.security.secrets import Scanner, Secret, find_secrets
from vaultmem.vault.parse import decode
from vaultmem.vault.screen import Screen, screened

Finding = Callable[[str], Sequence[Secret]]
Masking = Callable[[str, Sequence[Secret]], str]

# As many secrets may be glued to each other in a note.
LOOKS = 4

_PLACEHOLDER = re.compile(r"\[secret:[\w-]+\]")
_ALNUM = string.ascii_letters + string.digits


@cache
def pieces() -> tuple[str, ...]:
    """What the bytes from 128 on stand for."""
    chance = random.Random(7)

    def some(count: int, of: str = _ALNUM) -> str:
        return "".join(chance.choices(of, k=count))

    lower = string.digits + string.ascii_lowercase
    begins = (
        *("gh" + "p_", "git" + "hub_pat_", "gl" + "pat-", "AK" + "IA", "xo" + "xb-"),
        *("sk" + "_live_", "sk-" + "ant-api03-", "sk" + "-proj-", "AI" + "za", "ey" + "J"),
        *("np" + "m_", "py" + "pi-", "h" + "f_", "SG" + ".", "hv" + "s.", "dop" + "_v1_"),
        *("shp" + "at_", "AGE-" + "SECRET-KEY-1", "-----BEGIN RSA " + "PRIVATE KEY-----\n"),
        *("-----END RSA " + "PRIVATE KEY-----\n", "https://hooks.sl" + "ack.com/services/T"),
        *("postgres" + "://user:", "@db.example.test/x", "password: ", "passwd=", 'token: "'),
        *("secret_key = '", "Authorization: Bearer ", "api_key=", "machine x login y password "),
        *("otp" + "auth://totp/x?secret=", "WIFI:S:x;T:WPA;P:", "<private>", "</private>"),
        *("---\nprivate: true\n---\n", "---\n", "%% vaultmem:begin x %%\n", "```\n", "`"),
    )
    values = (
        *(some(4), some(16), some(16, string.ascii_uppercase + "234567"), some(20), some(24)),
        *(some(32), some(36), some(40), some(64), some(93) + "AA", some(200, _ALNUM + "+/")),
        *(some(32, lower), some(40, lower), some(12, string.digits)),
        *(some(12, string.digits) + "-" + some(24), some(22) + "." + some(43)),
        *(some(30) + "." + some(60) + "." + some(43), "EXAMPLE", "${TOKEN}", "[secret:x]"),
        *("\n", "é", "\r\n", "漢字", "\u2028", "\\n", "x" * 40, "\u202e", "\u200b", "\U000e0041"),
    )
    return begins + values


def spelt_out(data: bytes) -> str:
    """The text that an input stands for."""
    words = pieces()
    return "".join(chr(byte) if byte < 128 else words[(byte - 128) % len(words)] for byte in data)


@cache
def _without_re2() -> Scanner:
    return Scanner(rulebook(), PythonEngine())


def find_without_re2(text: str) -> Sequence[Secret]:
    """What is found where RE2 is not installed."""
    scanner = _without_re2()
    return scanner.find(scanner.look_at(text))


def check_secrets(
    data: bytes,
    *,
    finders: Sequence[Finding] = (find_secrets, find_without_re2),
    masking: Masking = mask,
) -> None:
    """What is found are stretches apart from each other, and masking comes to an end."""
    text, _ = decode("n.md", spelt_out(data).encode())
    for finding in finders:
        answers: list[Sequence[Secret]] = []
        in_time(spent(lambda: answers.append(finding(text))), len(text))  # noqa: B023
        found = answers[-1]
        for secret in found:
            assert 0 <= secret.start < secret.end <= len(text), secret
            assert len(secret.kind.split()) == 1, secret
        assert all(a.end <= b.start for a, b in pairwise(found)), f"secrets overlap: {found}"
        masked = masking(text, found)
        sound(masked)
        assert masked.count("\n") == text.count("\n"), "masking changed the number of lines"
        rest = _PLACEHOLDER.sub("", masked)
        for secret in found:
            value = text[secret.start : secret.end]
            assert text.count(value) > 1 or value not in rest, f"{secret} is still there"
        rounds = 1
        while (left := finding(masked)) and rounds <= len(data):
            # What is glued to a secret may be one that is seen only when the first has gone.
            masked = masking(masked, left)
            rounds += 1
        assert not left, f"masked for ever: {masked[:200]!a}"
        # A tag that stood in code may stand in text when a secret has taken the fence along.
        _screened(text, settled=rounds <= LOOKS and "<private" not in masked.lower())


def _screened(text: str, *, settled: bool) -> None:
    """What is kept out of a note leaves its lines where they were, and is kept out at once.

    settled: whether one in another in another are few enough.
    """
    screen = Screen()
    clean = screened("n.md", text, screen)
    if clean.screening is Screening.WITHHELD:
        assert clean.text == ""
        return
    lines = text.count("\n")
    assert clean.text.count("\n") == lines, "screening changed the number of lines"
    assert clean.screening is Screening.PARTS or clean.text == text
    assert all(1 <= finding.line <= lines + 1 for finding in clean.findings), clean.findings
    assert all(0 <= problem.line <= lines + 1 for problem in clean.problems), clean.problems
    again = screened("n.md", clean.text, screen).text
    assert again == clean.text or not settled, f"screened again: {again[:200]!a}"
