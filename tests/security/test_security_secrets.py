"""What the scanner takes for a credential, where it says it stands, on either engine."""

from functools import cache
from itertools import pairwise
from time import process_time

import pytest
from variants import CREDENTIALS, Chance, variants

from vaultmem.security.engine import Engine, PythonEngine, Re2Engine
from vaultmem.security.mask import mask
from vaultmem.security.rulebook import rulebook
from vaultmem.security.secrets import Scanner, find_secrets, is_stand_in

C = Chance(11)
GITHUB = "gh" + "p_" + C.some(36)
OTHER_GITHUB = "gh" + "p_" + C.some(36)
JWT = CREDENTIALS["jwt"](C).value
TELEGRAM = CREDENTIALS["telegram-bot"](C).value
DISCORD = CREDENTIALS["discord-bot"](C).value
MAILCHIMP = CREDENTIALS["mailchimp"](C).value
AWS_SECRET = C.mixed(40)
AZURE = C.some(86) + "=="
RANDOM = C.mixed(32)
SEED = C.some(32, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")
BEGIN = "-----BEGIN RSA " + "PRIVATE KEY-----"
END = "-----END RSA " + "PRIVATE KEY-----"
BODY = [C.some(64) for _ in range(10)]

# Of each rule of our own: its kind, what is written, what of it is secret.
OWN: tuple[tuple[str, str, str], ...] = (
    ("private-key", "\n".join((BEGIN, *BODY)), BODY[-1]),
    ("jwt", JWT, JWT),
    ("telegram-bot-token", TELEGRAM, TELEGRAM),
    ("discord-bot-token", DISCORD, DISCORD),
    ("mailchimp-api-key", MAILCHIMP, MAILCHIMP),
    ("azure-storage-key", f"AccountKey={AZURE}", AZURE),
    ("aws-secret-access-key", f"aws_secret_access_key = {AWS_SECRET}", AWS_SECRET),
    ("url-password", "redis" + "://:Vb7kq2Wx@cache.test:6379", "Vb7kq2Wx"),
    ("password", "password: " + "Vb7kq2Wx", "Vb7kq2Wx"),
    ("password", "Passwort ist " + "Vb7kq2Wx", "Vb7kq2Wx"),
    ("password", "password = " + '"vb!kqx"', "vb!kqx"),
    ("secret-assignment", f"client secret: {RANDOM}", RANDOM),
    ("netrc-password", "machine a.test login b password " + "Vb7kq2Wx", "Vb7kq2Wx"),
    ("otp-seed", "otpauth" + f"://totp/a:b?secret={SEED}&issuer=a", SEED),
    ("wifi-password", "WIFI" + ":T:WPA;S:home;P:Vb7kq2Wx;;", "Vb7kq2Wx"),
)
PLACES = {
    "prose": "It was {} all along.",
    "end": "It was {}.",
    "list": "- one\n- {}\n- two",
    "table": "| a | b |\n|---|---|\n| x | {} |",
    "quote": "> {}",
    "fence": "```\n{}\n```",
    "properties": "---\na: x\nb: '{}'\n---\ntext",
    "link": "[[Note]] {} [page](https://x.test)",
    "Chinese": "说明 {} 的内容。",
    "after an emoji": "👩‍👩‍👧 {}",
}


@cache
def scanner(engine: str) -> Scanner:
    made: Engine = Re2Engine() if engine == "re2" else PythonEngine()
    return Scanner(rulebook(), made)


def found(text: str, engine: str = "re2") -> list[tuple[str, str]]:
    """(kind, text) of each secret."""
    one = scanner(engine)
    return [(s.kind, text[s.start : s.end]) for s in one.find(one.look_at(text))]


# Rules


@pytest.mark.parametrize("engine", ["re2", "re"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("kind", "written", "value"), OWN)
def test_each_rule_of_ours_finds_its_secret_wherever_a_note_holds_it(
    kind: str, written: str, value: str, place: str, engine: str
) -> None:
    if "\n" in written and place in ("quote", "table", "properties"):
        written = written.replace("\n", "\\n")  # on one line, as in JSON
    text = PLACES[place].format(written)
    secrets = found(text, engine)
    assert len(secrets) == 1, secrets
    assert value in secrets[0][1]
    # A mark behind a password may be part of it.
    assert secrets[0][1].rstrip(".'") in written


@pytest.mark.parametrize(("kind", "written", "value"), OWN)
def test_each_rule_of_ours_names_its_kind(kind: str, written: str, value: str) -> None:
    kinds = {kind, "aws-secret-access-key", "generic-api-key"}
    (secret,) = found(written)
    assert secret[0] in kinds
    assert kind in {rule.kind for rule in rulebook().rules}


@pytest.mark.parametrize(
    "text",
    [
        BEGIN + "\nshort\n",
        "eyJ" + "hbGciOiJIUzI1NiJ9 is how a JWT begins",
        "eyJ" + "hbGciOiJIUzI1NiJ9.eyJ" + "zdWIiOiIxIn0",
        "1234567:AA" + RANDOM,
        C.some(32, "0123456789abcdef") + "-use",
        "AccountKey=" + "<key>",
        "amazon " + AWS_SECRET + "x",
        "https://x.test:8080/@someone/page",
        "scheme://user:password@host",
        "postgres" + "://user:${PASSWORD}@host",
        "password: correcthorse",
        "password is required",
        "password: 20240105",
        "The password is in the safe.",
        'password: "horse"',
        "token: " + "a" * 40,
        "token: " + "lowercaseonly" * 3,
        "secret_key: " + "0123456789" * 4,
        "machine learning: the login page and its password reset",
        "otpauth" + "://totp/a?issuer=b",
        "WIFI" + ":T:nopass;S:home;;",
    ],
)
@pytest.mark.parametrize("engine", ["re2", "re"])
def test_what_nearly_fits_a_rule_is_left_alone(text: str, engine: str) -> None:
    assert found(text, engine) == []


@pytest.mark.parametrize(
    "value",
    [
        "AK" + "IA" + "IOSFODNN7" + "EXAMPLE",
        "gh" + "p_" + "x" * 36,
        "password: op://Private/login/password1",
        "password: env:DATABASE_Password1",
        "password: ${DB_PASSWORD_1}",
        "password: <Your-Password-1>",
        "api_key: {{ secrets.KEY_1 }}",
        "token: [secret:github-pat]",
        "password: ********",
        "password: Abc…4567",
    ],
)
def test_an_example_or_a_reference_is_no_secret(value: str) -> None:
    assert found(f"Set {value} there.") == []


def test_a_row_of_one_character_stands_for_a_secret_and_a_short_run_in_one_does_not() -> None:
    assert is_stand_in("x" * 8)
    assert is_stand_in("ab" + "0" * 20 + "cd")
    assert not is_stand_in("Vb7kkkkkkk2WxPq9r" + "Zt5u")


def test_every_expression_compiles_on_both_engines() -> None:
    book = rulebook()
    assert len(book.rules) > 200
    sources = [rule.expression for rule in book.rules]
    for rule in book.rules:
        sources += [source for entry in rule.allowances for source in entry.expressions]
    sources += book.allowance.expressions
    assert len(sources) > 220
    for engine in (Re2Engine(), PythonEngine()):
        for source in sources:
            engine.compile(source)
        Scanner(book, engine)


def test_both_engines_find_the_same_in_every_variant() -> None:
    texts = [variant.text for variant in variants(1000, 5)]
    apart = [text for text in texts if found(text, "re2") != found(text, "re")]
    assert sum(bool(found(text)) for text in texts) > 400
    assert apart == []


# Places


@pytest.mark.parametrize("engine", ["re2", "re"])
@pytest.mark.parametrize(
    "before", ["", "é ", "漢字かな交じり文 ", "👩‍👩‍👧 \U0001f511 ", "a\n\u2028\n", "\ufffd "]
)
def test_offsets_count_characters_and_not_bytes(before: str, engine: str) -> None:
    text = f"{before}{GITHUB} — ключ\n{before}{OTHER_GITHUB}"
    assert found(text, engine) == [("github-pat", GITHUB), ("github-pat", OTHER_GITHUB)]


def test_a_secret_of_letters_beyond_ascii_is_found_in_full() -> None:
    text = "адрес é: postgres" + "://u:pä55wörd漢字9@h.test/x"
    assert found(text) == [("url-password", "pä55wörd漢字9")]


def test_what_several_rules_find_is_one_secret_of_the_more_telling_kind() -> None:
    text = f'api_key = "{GITHUB}" and token: {OTHER_GITHUB}'
    assert found(text) == [("github-pat", GITHUB), ("github-pat", OTHER_GITHUB)]


def test_neighbours_stay_apart_and_in_order() -> None:
    text = " ".join(CREDENTIALS[kind](C).text for kind in ("jwt", "github-pat", "telegram-bot"))
    secrets = find_secrets(f"{text}\n{text}")
    assert [secret.kind for secret in secrets] == ["jwt", "github-pat", "telegram-bot-token"] * 2
    assert all(a.end <= b.start for a, b in pairwise(secrets))


def test_a_key_goes_with_its_last_line() -> None:
    text = "\n".join(("Before.", BEGIN, *BODY, END, "Behind."))
    assert mask(text, find_secrets(text)).split() == ["Before.", "[secret:private-key]", "Behind."]


def test_a_key_whose_end_is_missing_goes_as_far_as_its_lines() -> None:
    text = "\n".join((BEGIN, *BODY, "", "Then we had lunch."))
    masked = mask(text, find_secrets(text))
    assert masked.split("\n")[-1] == "Then we had lunch."
    assert not any(line in masked for line in BODY)


def test_a_public_key_is_no_secret() -> None:
    text = "\n".join(("-----BEGIN PUBLIC KEY-----", *BODY, "-----END PUBLIC KEY-----"))
    assert found(text) == []


def test_a_long_text_of_near_secrets_costs_no_more_than_its_length() -> None:
    pieces = (BEGIN + "\n", "eyJ" + "a" * 40 + ".eyJ", "http://a:" + "b" * 30, "password=")
    for piece in pieces:
        short, long = (piece * (size // len(piece)) for size in (50_000, 400_000))
        found(short)  # compiles what it needs
        little, much = max(cpu_seconds(short), 0.02), cpu_seconds(long)
        assert much < 8 * 4 * little, (piece[:12], little, much)


def cpu_seconds(text: str) -> float:
    began = process_time()
    found(text)
    return process_time() - began
