"""How many credentials the scanner misses, and how often it takes something else for one."""

from collections import Counter

import pytest
from variants import CREDENTIALS, LOOK_ALIKES, Variant, variants

from vaultmem.security.mask import mask
from vaultmem.security.secrets import find_secrets
from vaultmem.vault.parse import decode

SEED = 20260
COUNT = 5000
# A run of so many characters of a credential is more than may be left of it.
LEFT = 8


@pytest.fixture(scope="module")
def judged() -> list[tuple[Variant, bool, bool]]:
    """Each variant, whether something was found in it, and whether all of its value has gone."""
    return [judge(variant) for variant in variants(COUNT, SEED)]


def judge(variant: Variant) -> tuple[Variant, bool, bool]:
    text = decode("n.md", variant.text.encode())[0]
    found = find_secrets(text)
    return variant, bool(found), not left_of(variant.value, mask(text, found))


def left_of(value: str, masked: str) -> bool:
    """Whether a stretch of the value is still to be read."""
    parts = [value[at : at + LEFT] for at in range(max(1, len(value) - LEFT + 1))]
    return any("\n" not in part and part in masked for part in parts)


def told(counted: Counter[str]) -> str:
    return ", ".join(f"{name} x {n}" for name, n in counted.most_common())


def test_nineteen_of_twenty_credentials_are_masked_in_full(
    judged: list[tuple[Variant, bool, bool]],
) -> None:
    credentials = [row for row in judged if row[0].value]
    assert {variant.kind for variant, _, _ in credentials} == set(CREDENTIALS)
    missed = Counter(
        f"{variant.kind} ({variant.place})"
        for variant, found, gone in credentials
        if not (found and gone)
    )
    recall = 1 - missed.total() / len(credentials)
    assert recall >= 0.95, f"recall {recall:.4f}: {told(missed)}"


def test_nineteen_of_twenty_findings_are_credentials(
    judged: list[tuple[Variant, bool, bool]],
) -> None:
    others = [row for row in judged if not row[0].value]
    assert {variant.kind for variant, _, _ in others} == set(LOOK_ALIKES)
    right = sum(found for variant, found, _ in judged if variant.value)
    wrong = Counter(variant.kind for variant, found, _ in others if found)
    precision = right / (right + wrong.total())
    assert precision >= 0.95, f"precision {precision:.4f}: {told(wrong)}"


def test_no_kind_is_missed_more_often_than_it_is_found(
    judged: list[tuple[Variant, bool, bool]],
) -> None:
    met = Counter(variant.kind for variant, _, _ in judged if variant.value)
    gone = Counter(
        variant.kind for variant, found, all_gone in judged if variant.value and found and all_gone
    )
    assert {kind for kind in met if gone[kind] * 2 < met[kind]} == set()


def test_a_scanner_that_finds_nothing_would_be_noticed() -> None:
    variant = next(iter(variants(1, SEED)))
    assert variant.value in variant.text
    assert left_of(variant.value, variant.text)
    assert not left_of(variant.value, variant.text.replace(variant.value, "[secret:x]"))
    assert left_of(variant.value, variant.value[: LEFT + 1])
