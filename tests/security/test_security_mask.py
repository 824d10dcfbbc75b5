"""Placeholders in the place of secrets, and names of secrets that do not tell them."""

import pytest
from variants import Chance

from vaultmem.security.mask import (
    FINGERPRINT_CHARS,
    MAX_SHOWN,
    fingerprint_of,
    key_name,
    mask,
    report,
)
from vaultmem.security.secrets import Secret, find_secrets

KEY, OTHER_KEY = b"k" * 32, b"l" * 32
NOBODY: frozenset[str] = frozenset()


def test_a_placeholder_names_the_kind_and_the_rest_stays() -> None:
    assert mask("a SECRET b", [Secret(2, 8, "jwt")]) == "a [secret:jwt] b"
    assert mask("SECRET", [Secret(0, 6, "jwt")]) == "[secret:jwt]"
    assert mask("é漢SECRETб", [Secret(2, 8, "jwt")]) == "é漢[secret:jwt]б"


def test_each_of_several_secrets_has_its_own_placeholder() -> None:
    masked = mask("AAA-BBB", [Secret(0, 3, "one"), Secret(4, 7, "two")])
    assert masked == "[secret:one]-[secret:two]"
    assert mask("AAABBB", [Secret(0, 3, "one"), Secret(3, 6, "two")]) == "[secret:one][secret:two]"


@pytest.mark.parametrize("lines", [1, 2, 7])
def test_lines_behind_a_secret_keep_their_numbers(lines: int) -> None:
    secret = "\n".join(["LINE"] * lines)
    text = f"before\n{secret}\nbehind"
    masked = mask(text, [Secret(7, 7 + len(secret), "private-key")])
    assert masked.split("\n").index("behind") == text.split("\n").index("behind")
    assert "LINE" not in masked


def test_a_text_without_secrets_is_the_same() -> None:
    assert mask("a\nb", []) == "a\nb"


def test_a_placeholder_is_no_secret_and_masking_again_changes_nothing() -> None:
    text = "password: " + "Vb7kq2Wx" + "\ntoken = '" + "gh" + "p_" + Chance(3).some(36) + "'"
    once = mask(text, find_secrets(text))
    assert once.count("[secret:") == 2
    assert find_secrets(once) == ()


def test_a_report_names_line_and_kind_and_four_characters_at_most() -> None:
    secret = "abcdefghijklmnopqrstuvwxyz0123"
    text = f"one\ntwo {secret}\n\n{secret}"
    places = [Secret(8, 38, "jwt"), Secret(40, 70, "jwt")]
    first, second = report(text, places, lambda: KEY, NOBODY)
    assert (first.line, first.kind, first.shown) == (2, "jwt", secret[:MAX_SHOWN])
    assert second.line == 4
    assert first.fingerprint == second.fingerprint
    assert not first.allowed


@pytest.mark.parametrize(("size", "shown"), [(5, 0), (6, 1), (12, 2), (23, 3), (24, 4), (900, 4)])
def test_of_a_short_secret_less_is_shown(size: int, shown: int) -> None:
    (finding,) = report("x" * size, [Secret(0, size, "password")], lambda: KEY, NOBODY)
    assert len(finding.shown) == shown


def test_what_is_shown_has_one_line() -> None:
    text = "a\n" + "b" * 30
    (finding,) = report(text, [Secret(0, len(text), "x")], lambda: KEY, NOBODY)
    assert finding.shown == "a"


def test_a_fingerprint_is_keyed_and_tells_its_key() -> None:
    name = fingerprint_of("secret", KEY)
    assert name.startswith(key_name(KEY))
    assert len(name) == len(key_name(KEY)) + FINGERPRINT_CHARS
    assert name == fingerprint_of("secret", KEY)
    assert name[4:] != fingerprint_of("secret", OTHER_KEY)[4:]
    assert name != fingerprint_of("secret ", KEY)
    assert key_name(KEY) != key_name(OTHER_KEY)


def test_without_a_key_there_is_no_fingerprint_and_nothing_is_allowed() -> None:
    assert fingerprint_of("secret", b"") == ""
    assert key_name(b"") == ""
    (finding,) = report("secret", [Secret(0, 6, "x")], bytes, frozenset(("",)))
    assert finding.fingerprint == ""
    assert not finding.allowed


def test_the_secret_with_the_allowed_fingerprint_is_allowed_and_no_other() -> None:
    allowed = frozenset((fingerprint_of("AAAAAA", KEY),))
    places = [Secret(0, 6, "x"), Secret(7, 13, "x")]
    first, second = report("AAAAAA BBBBBB", places, lambda: KEY, allowed)
    assert first.allowed
    assert not second.allowed
