"""What ordinary notes say is found: words beside names of services, places to fill in."""

import pytest

from vaultmem.security.secrets import find_secrets
from vaultmem.vault.private import without_private


@pytest.mark.parametrize(
    "line",
    [
        "On LinkedIn, infrastructure engineers are asked about it.",
        "LinkedIn profile: responsibilities and achievements",
        "Dropbox: synchronization is broken again",
        "tags: [linkedin, administration, hiring]",
        "My Discord user ID: 123456789012345678",
        "Asana task: 1203456789012345",
    ],
)
def test_a_word_or_a_number_behind_the_name_of_a_service_is_no_secret(line: str) -> None:
    assert find_secrets(line) == ()


def test_a_random_value_behind_the_name_of_a_service_is_one() -> None:
    line = "LinkedIn: " + "77" + "q3x0vd" + "2m8kza"
    assert [secret.kind for secret in find_secrets(line)] == ["linkedin-client-id"]


@pytest.mark.parametrize("blank", ["<private key>", "<private network address>"])
def test_a_place_to_fill_in_hides_nothing(blank: str) -> None:
    text = f"ssh -i {blank} user@host\n\nRestart it.\n"
    assert without_private("a.md", text) == (text, ())


@pytest.mark.parametrize("tag", ["<private>", "<private >", '<private class="x">', "<PRIVATE>"])
def test_a_tag_hides_what_it_encloses(tag: str) -> None:
    assert without_private("a.md", f"a {tag}b</private> c")[0] == "a [private] c"
