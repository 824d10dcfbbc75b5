"""Every labelled sample of the hostile set, in every context, over 30 seeds: 5,100 texts."""

import json
from pathlib import Path

import pytest
from hostile import Vault, secrets

from vaultmem.security.secrets import find_secrets
from vaultmem.vault.screen import Screen, screened

SEEDS = 30


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    out = tmp_path_factory.mktemp("samples")
    for seed in range(SEEDS):
        # Only the list is wanted, none of the vault's files.
        secrets(Vault(str(out), seed, {"no group"}))
        found += json.loads((out / "secrets.json").read_text("utf-8"))
    return found


def test_nearly_every_credential_is_found_and_nearly_nothing_else(
    samples: list[dict[str, str]],
) -> None:
    missed = [s["kind"] for s in samples if s["secret"] and not find_secrets(s["text"])]
    alarms = [s["kind"] for s in samples if not s["secret"] and find_secrets(s["text"])]
    credentials = sum(bool(s["secret"]) for s in samples)

    assert len(samples) == 5_100
    assert len(missed) / credentials <= 0.05, missed
    assert len(alarms) / (credentials - len(missed)) <= 0.05, alarms


def test_of_a_credential_that_is_found_nothing_is_left(samples: list[dict[str, str]]) -> None:
    left: list[str] = []
    for sample in samples:
        text = sample["text"]
        shown = screened("n.md", text, Screen()).text
        left += [
            sample["kind"]
            for s in find_secrets(text)
            for line in text[s.start : s.end].split("\n")
            if line.strip() and line in shown
        ]
    assert left == []


def test_the_first_seed_is_found_whole(samples: list[dict[str, str]], tmp_path: Path) -> None:
    secrets(Vault(str(tmp_path), 20261129, {"no group"}))
    first = json.loads((tmp_path / "secrets.json").read_text("utf-8"))

    assert [s["kind"] for s in first if bool(find_secrets(s["text"])) is not s["secret"]] == []
