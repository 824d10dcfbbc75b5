"""Seeded notes that hold a credential, and notes that hold what only looks like one.

Every token is put together here from a seed: none is anybody's, and no file holds one. A variant
is a kind, a way of saying it and a place in a note; the parts that must not get through are named.
"""

import base64
import json
import random
import string
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

_LETTERS = string.ascii_letters
_ALNUM = string.ascii_letters + string.digits
_HEX = "0123456789abcdef"
_LOWER = string.ascii_lowercase + string.digits
_UPPER = string.ascii_uppercase + string.digits
_B64 = _ALNUM + "+/"
_URL64 = _ALNUM + "-_"
_B32 = string.ascii_uppercase + "234567"
_BECH = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"


class Variant(NamedTuple):
    """One note."""

    kind: str
    place: str
    text: str
    value: str  # what must not get through; "" for a note that holds no credential


class Made(NamedTuple):
    """One way to write a credential down."""

    text: str
    value: str


class Chance:
    """Characters by chance, from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def some(self, count: int, of: str = _ALNUM) -> str:
        """So many characters of an alphabet."""
        return "".join(self.random.choices(of, k=count))

    def mixed(self, count: int, of: str = _ALNUM) -> str:
        """So many characters, with a small letter, a capital and a digit among them."""
        while True:
            text = self.some(count, of)
            kinds = (str.islower, str.isupper, str.isdigit)
            if all(any(map(kind, text)) for kind in kinds):
                return text

    def one(self, options: Sequence[str]) -> str:
        """One of them."""
        return self.random.choice(options)


def _encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def _armoured(c: Chance, kind: str, lines: int) -> Made:
    body = "\n".join(c.some(64, _B64) for _ in range(lines))
    return Made(f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----", body)


def _named(c: Chance, value: str, *names: str) -> Made:
    """A value behind its name, as programs and people write it."""
    name = c.one(names)
    sign = c.one((": ", "=", " = ", ": "))
    quote = c.one(("", "", '"', "'"))
    return Made(f"{name}{sign}{quote}{value}{quote}", value)


def _bare(value: str) -> Made:
    return Made(value, value)


def _password(c: Chance) -> str:
    return c.one(
        (
            c.mixed(10),
            c.some(4) + "!" + c.some(5) + "7#",
            "-".join(c.mixed(6) for _ in range(3)),
            c.some(5, string.ascii_lowercase).capitalize() + c.some(3, string.digits) + "$k",
            c.mixed(20),
        )
    )


def _jwt(c: Chance) -> str:
    head = _encoded({"alg": c.one(("HS256", "RS256")), "typ": "JWT"})
    body = _encoded({"sub": c.some(8, string.digits), "name": c.some(9), "iat": 1700000000})
    return f"{head}.{body}.{c.some(43, _URL64)}"


def _service_account(c: Chance) -> Made:
    key = _armoured(c, "PRIVATE KEY", 14)
    whole = {"type": "service_account", "project_id": "orchard", "private_key": key.text}
    return Made(json.dumps(whole, indent=2), key.value.replace("\n", "\\n"))


def _in_address(c: Chance, schemes: Sequence[str]) -> Made:
    value = c.mixed(14)
    host = c.one(("db.orchard.test:5432/pears", "10.0.0.7:6379/0", "git.orchard.test/me/x.git"))
    return Made(f"{c.one(schemes)}://{c.some(5, string.ascii_lowercase)}:{value}@{host}", value)


def _slack_hook(c: Chance) -> Made:
    value = f"T{c.some(8, _UPPER)}/B{c.some(10, _UPPER)}/{c.some(24)}"
    return Made("https://hooks." + "slack.com/services/" + value, value)


def _named_password(c: Chance) -> Made:
    value = f"{c.mixed(6)}!{c.some(6)}#9"
    name = c.one(("password", "Password", "DB_PASSWORD", "admin_password", "passwd", "pwd"))
    return Made(f'{name}{c.one((" = ", ": ", "="))}"{value}"', value)


def _told_password(c: Chance) -> Made:
    value = _password(c)
    said = c.one(
        (
            "The router's password is ",
            "My old password was ",
            "Password: ",
            "the password is: ",
            "Das Passwort lautet ",
            "Kennwort: ",
            "La contraseña es ",
            "Le mot de passe est ",
            "mot de passe : ",
            "A senha é ",
            "пароль: ",
            "パスワード: ",
            "**Password:** ",
            "Passphrase: ",
        )
    )
    return Made(said + value, value)


def _azure(c: Chance) -> Made:
    value = c.some(86, _B64) + "=="
    return Made(f"AccountName=pears;AccountKey={value};EndpointSuffix=core.windows.net", value)


def _netrc(c: Chance) -> Made:
    value = c.mixed(18)
    gap = c.one((" ", "\n  "))
    return Made(f"machine git.orchard.test{gap}login me{gap}password {value}", value)


def _seed(c: Chance) -> Made:
    value = c.some(c.random.choice((16, 32)), _B32)
    return Made(f"otpauth://totp/Orchard:me%40x.test?secret={value}&issuer=Orchard", value)


def _wireless(c: Chance) -> Made:
    value = c.mixed(12)
    return Made(
        c.one(("WIFI:T:WPA;S:orchard;P:{};;", "WIFI:S:orchard;T:WPA;P:{};H:true;;")).format(value),
        value,
    )


_Maker = Callable[[Chance], Made]

CREDENTIALS: dict[str, _Maker] = {
    "aws-access-key-id": lambda c: _bare("AK" + "IA" + c.some(16, _B32)),
    "aws-secret-key": lambda c: _named(
        c, c.mixed(40, _B64), "aws_secret_access_key", "AWS_SECRET_ACCESS_KEY", "SecretAccessKey"
    ),
    "github-pat": lambda c: _bare("gh" + "p_" + c.some(36)),
    "github-fine-grained": lambda c: _bare("github" + "_pat_" + c.some(22) + "_" + c.some(59)),
    "github-oauth": lambda c: _bare("gh" + "o_" + c.some(36)),
    "gitlab-pat": lambda c: _bare("gl" + "pat-" + c.some(20, _ALNUM)),
    "slack-bot": lambda c: _bare(
        f"xo{'xb'}-{c.some(12, string.digits)}-{c.some(13, string.digits)}-{c.some(24)}"
    ),
    "slack-webhook": _slack_hook,
    "stripe-live": lambda c: _bare("sk_" + "live_" + c.some(c.random.choice((24, 99)))),
    "openai": lambda c: _bare("sk-" + "proj-" + c.some(58) + "T3Blbk" + "FJ" + c.some(58)),
    "openai-legacy": lambda c: _bare("s" + "k-" + c.some(20) + "T3Blbk" + "FJ" + c.some(20)),
    "anthropic": lambda c: _bare("sk-" + "ant-api03-" + c.some(93, _URL64) + "AA"),
    "google-api": lambda c: _bare("AI" + "za" + c.some(34, _URL64) + c.some(1)),
    "gcp-service-account": _service_account,
    "rsa-private-key": lambda c: _armoured(c, "RSA " + "PRIVATE KEY", 25),
    "openssh-private-key": lambda c: _armoured(c, "OPENSSH " + "PRIVATE KEY", 6),
    "pgp-private-key": lambda c: _armoured(c, "PGP " + "PRIVATE KEY BLOCK", 30),
    "jwt": lambda c: _bare(_jwt(c)),
    "npm": lambda c: _bare("np" + "m_" + c.some(36)),
    "pypi": lambda c: _bare("py" + "pi-AgEIcHlwaS5vcmc" + c.some(120, _URL64) + c.some(1)),
    "sendgrid": lambda c: _bare("S" + "G." + c.some(22) + "." + c.some(43)),
    "twilio": lambda c: _named(c, "S" + "K" + c.some(32, _HEX), "TWILIO_API_KEY", "twilio key"),
    "telegram-bot": lambda c: _bare(c.some(10, "123456789") + ":AA" + c.some(33)),
    "azure-storage": _azure,
    "database-url": lambda c: _in_address(
        c, ("postgres" + "ql", "mysql", "mongodb+srv", "redis", "amqp")
    ),
    "basic-auth-url": lambda c: _in_address(c, ("https", "http", "ftp")),
    "huggingface": lambda c: _bare("h" + "f_" + c.some(34, _LETTERS)),
    "discord-bot": lambda c: _bare(f"M{c.mixed(23)}.{c.some(6, _ALNUM)}.{c.some(27, _ALNUM)}"),
    "mailchimp": lambda c: _bare(c.some(32, _HEX) + "-us" + str(c.random.randint(1, 21))),
    "digitalocean": lambda c: _bare("dop_" + "v1_" + c.some(64, _HEX)),
    "hashicorp-vault": lambda c: _bare("hv" + "s." + c.some(92, _ALNUM)),
    "age-secret": lambda c: _bare("AGE-" + "SECRET-KEY-1" + c.some(58, _BECH)),
    "shopify": lambda c: _bare("shp" + "at_" + c.some(32, _HEX)),
    "databricks": lambda c: _bare("da" + "pi" + c.some(32, _HEX)),
    "linear": lambda c: _bare("lin_" + "api_" + c.some(40)),
    "square": lambda c: _bare("EAA" + "A" + c.some(60)),
    "password-assignment": _named_password,
    "password-prose": _told_password,
    "secret-yaml": lambda c: _named(
        c, c.mixed(40), "client_secret", "CLIENT_SECRET", "api_key", "access_token", "secret_key"
    ),
    "netrc": _netrc,
    "totp-uri": _seed,
    "wifi-qr": _wireless,
}

# Where a credential stands: {} is what is written down.
_PLACES: dict[str, str] = {
    "sentence": "Ask Mira before June; it still works with {}, as she said.\n",
    "end of a sentence": "After the move we kept {}.\n",
    "brackets": "The old one ({}) has to be changed.\n",
    "list": "- water the plants\n- {}\n- call Jonas\n",
    "nested list": "1. Server\n   - staging\n     - {}\n",
    "task": "- [ ] replace {} 📅 2026-02-03\n",
    "table": "| what | value |\n| --- | --- |\n| staging | {} |\n",
    "quote": "> Jonas wrote:\n> {}\n",
    "callout": "> [!warning] Staging\n> {}\n",
    "fence": "```\n{}\n```\n",
    "shell": "```bash\n# as on the old machine\nexport X=1\n{}\n```\n",
    "inline code": "Paste `{}` there.\n",
    "bold": "Use **{}** until Friday.\n",
    "marked": "Use =={}== until Friday.\n",
    "property": "---\ntitle: Staging\nnote: '{}'\n---\nText.\n",
    "plain property": "---\ntitle: Staging\nlogin: {}\ntags: [home]\n---\nText.\n",
    "heading": "# Staging {}\n\nText.\n",
    "field": "login:: {}\n",
    "comment": "%% {} %%\n",
    "markup": "<td>{}</td>\n",
    "footnote": "See below.[^1]\n\n[^1]: {}\n",
    "Chinese": "服务器的说明：{}，请不要外传。\n",
    "Japanese": "メモは「{}」です。\n",
    "Cyrillic": "Записал {} — потом сменить.\n",
    "Arabic": "هذا هو {} في الملف.\n",
    "emoji": "🔑 {} 🔑\n",
    "Windows": "One line.\r\n{}\r\nAnother.\r\n",
    "alone": "{}",
    "link": "[the page](https://x.test/?q=1) and {}\n",
    "display": "[[Staging|{}]]\n",
}
# What has lines of its own, or marks that a place would take for its own.
_LINED = frozenset(
    ("gcp-service-account", "rsa-private-key", "openssh-private-key", "pgp-private-key", "netrc")
)
_PLACES_OF_LINES = ("list", "fence", "shell", "Windows", "alone", "quote", "nested list")


def credential(kind: str, c: Chance) -> Variant:
    """A note with a credential of this kind."""
    made = CREDENTIALS[kind](c)
    place = c.one(_PLACES_OF_LINES if kind in _LINED else tuple(_PLACES))
    text = made.text
    before = _PLACES[place].partition("{}")[0].rpartition("\n")[2]
    if before and "\n" in text:
        lead = before if place == "quote" else " " * len(before)
        text = text.replace("\n", "\n" + lead)
    return Variant(kind, place, _PLACES[place].replace("{}", text), made.value)


def _paragraph(c: Chance) -> str:
    words = [
        "the",
        "tree",
        "pear",
        "garden",
        "rain",
        "in",
        "of",
        "a",
        "we",
        "saw",
        "old",
        "stone",
        "path",
        "winter",
        "until",
        "when",
    ]
    return " ".join(c.one(words) for _ in range(c.random.randint(5, 12))).capitalize() + "."


def _identifier(c: Chance) -> str:
    return "".join(
        c.one(
            (
                "Abstract",
                "Proxy",
                "Token",
                "Key",
                "Config",
                "Secret",
                "Factory",
                "Password",
                "Auth",
                "Provider",
                "Http2",
                "Test",
            )
        )
        for _ in range(6)
    )


def _uuid(c: Chance) -> str:
    return "-".join(c.some(n, _HEX) for n in (8, 4, 4, 4, 12))


def _api_page(c: Chance) -> str:
    return c.one(
        (
            "| field | type | meaning |\n|---|---|---|\n| api_key | string | required |\n"
            "| password | string | at least 12 characters |\n| token | string (JWT) | optional |",
            "`POST /v2/login` takes `username` and `password`, and answers with an access_token.",
            'curl -H "Authorization: Bearer $TOKEN" https://api.orchard.test/v2/trees',
            'client = Client(api_key=os.environ["ORCHARD_API_KEY"])',
            "api_key: ${ORCHARD_API_KEY}\ntoken: {{ secrets.token }}\npassword: !vault |",
            "Set `password` to the value that `getPassword()` returns.",
            "X-Api-Key: <your key>\nAuthorization: Basic <credentials>",
            'ports:\n  - "5432"\nenvironment:\n  POSTGRES_PASSWORD_FILE: /run/secrets/db_password',
            "def login(user: str, password: str, token: str | None = None) -> Session: ...",
            "secretKeyRef:\n  name: orchard-credentials\n  key: database-password",
        )
    )


def _password_talk(c: Chance) -> str:
    return c.one(
        (
            "The password is in the safe, not in here. Change the password every spring.",
            "Password rules: 12 characters, one digit, no names.",
            "Das Passwort ist im Tresor. Das Passwort lautet anders als letztes Jahr.",
            "Le mot de passe est demandé deux fois; le mot de passe est oublié.",
            "La contraseña es obligatoria. La contraseña es demasiado corta.",
            "A senha é pessoal e intransferível.",
            "пароль: см. в сейфе. Пароль хранится у Анны.",
            "密码：请看保险箱。密码不要写在这里。",
            "パスワード：金庫を見てください。",
            "Passwords: why length beats complexity, and why rotation is harmful.",
            "The secret: roast the spices first. The key: patience.",
            "Wi-Fi: ask at the desk for the password; the password was changed.",
            "Guest Wi-Fi password: see the card on the fridge.",
            "Token: a small thing that stands for a large one. Secret: what two people know.",
            "password: hunter",
            "Password = something you know; a key = something you have.",
            "The passphrase is made of words that nobody puts together.",
            "pwd: print the working directory. passwd: change the password.",
        )
    )


def _recipe(c: Chance) -> str:
    return (
        f"key:: value\nserves: {c.random.randint(2, 9)}\noven: {c.random.randint(160, 240)}°C\n"
        f"secret ingredient: {c.one(('cardamom', 'anchovies', 'brown butter', 'miso'))}\n"
        f"source: [[Grandma]], p. {c.random.randint(1, 300)}"
    )


def _reference(c: Chance) -> str:
    key = c.some(6, string.ascii_lowercase) + str(c.random.randint(1990, 2026))
    return (
        f"@article{{{key}Authentication,\n  title = {{Tokens and Keys in Practice}},\n"
        f"  author = {{Authier, A. and Keyes, B.}},\n  doi = {{10.1145/{c.some(7, string.digits)}"
        f".{c.some(7, string.digits)}}},\n  keywords = {{password, secret, api key}},\n"
        f"  url = {{https://doi.test/10.1145/{c.some(7, string.digits)}}}\n}}"
    )


def _trace(c: Chance) -> str:
    return "\n".join(
        f"    at org.orchard.auth.{_identifier(c)}.getToken({_identifier(c)}.java:"
        f"{c.random.randint(10, 999)}) ~[auth-{c.random.randint(1, 9)}.2.jar:{c.some(7, _HEX)}]"
        for _ in range(4)
    )


def _checksums(c: Chance) -> str:
    rows = [f"| release-{n}.tar.gz | {c.some(64, _HEX)} |" for n in range(4)]
    return "\n".join(("| file | sha256 |", "| --- | --- |", *rows))


def _locked(c: Chance) -> str:
    digest = base64.b64encode(bytes(c.random.randrange(256) for _ in range(64))).decode()
    return f'"integrity": "sha512-{digest}",\n"resolved": "https://r.test/x-{c.some(8, _HEX)}.tgz"'


def _picture(c: Chance) -> str:
    data = bytes(c.random.randrange(256) for _ in range(600))
    return f"![tree](data:image/png;base64,{base64.b64encode(data).decode()})"


def _stand_in(c: Chance) -> str:
    return c.one(
        (
            "token: " + "gh" + "p_" + "x" * 36,
            "aws_access_key_id = " + "AK" + "IA" + "IOSFODNN7" + "EXAMPLE",
            "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCY" + "EXAMPLEKEY",
            "password: ********",
            "password: <password>",
            "password: op://Private/router/password",
            "api_key = YOUR_API_KEY",
            "postgres" + "://user:password@localhost:5432/db",
            "mysql://root:${DB_PASSWORD}@db/orchard",
            "secret = [secret:github-pat]",
            "sk-" + "...",
            "password: null\ntoken: none\nsecret: false",
            "client_secret: {{ lookup('env', 'CLIENT_SECRET') }}",
        )
    )


LOOK_ALIKES: dict[str, Callable[[Chance], str]] = {
    "commit": lambda c: f"Fixed in {c.some(40, _HEX)}, see also {c.some(7, _HEX)}.",
    "commit list": lambda c: "\n".join(f"- {c.some(40, _HEX)} tidy keys" for _ in range(5)),
    "uuid": lambda c: f"id: {_uuid(c)}\ntoken id: {_uuid(c)}",
    "picture": _picture,
    "identifier": lambda c: f"`{_identifier(c)}` calls `{_identifier(c)}` for its token.",
    "API page": _api_page,
    "talk of passwords": _password_talk,
    "recipe": _recipe,
    "reference": _reference,
    "stack trace": _trace,
    "checksums": _checksums,
    "lock file": _locked,
    "stand-in": _stand_in,
    "image digest": lambda c: f"image: orchard/pears@sha256:{c.some(64, _HEX)}",
    "public key": lambda c: f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{c.some(43, _B64)} me@laptop",
    "certificate": lambda c: _armoured(c, "CERTIFICATE", 12).text,
    "public block": lambda c: _armoured(c, "PUBLIC KEY", 6).text,
    "block id": lambda c: f"A thought. ^{c.some(6, _LOWER)}\n\n![[Day#^{c.some(6, _LOWER)}]]",
    "video": lambda c: f"https://www.youtube.com/watch?v={c.some(11, _URL64)}&t=42s",
    "document link": lambda c: (
        f"https://docs.google.com/document/d/1{c.some(43, _URL64)}"
        f"/edit#heading=h.{c.some(12, _LOWER)}"
    ),
    "page link": lambda c: f"[notes](https://www.notion.so/Keys-and-Tokens-{c.some(32, _HEX)})",
    "wallet": lambda c: f"0x{c.some(40, _HEX)} sent 0.2 to 0x{c.some(40, _HEX)}",
    "store path": lambda c: f"/nix/store/{c.some(32, _LOWER)}-openssl-3.0.{c.some(1, '123456789')}",
    "log line": lambda c: (
        f"request_id={c.some(20, _LOWER)} trace={c.some(32, _HEX)} key={c.some(8, _HEX)}"
    ),
    "etag": lambda c: f'ETag: "{c.some(32, _HEX)}"',
    "numbers": lambda c: ",".join(str(c.random.randrange(10**9)) for _ in range(30)),
    "colours": lambda c: " ".join("#" + c.some(6, _HEX) for _ in range(12)),
    "prose": lambda c: " ".join(_paragraph(c) for _ in range(4)),
    "bar code": lambda c: (
        f"ISBN 978-{c.some(10, string.digits)}, order {c.some(3, _UPPER)}-{c.some(9, _UPPER)}"
    ),
    "drawing": lambda c: f"```compressed-json\n{c.some(300, _B64)}\n```",
    "identifiers": lambda c: f"id: {c.some(26, _UPPER)}\nkey: {c.some(10, _LOWER)}\nkind: note",
    "publishable": lambda c: "pk_" + "live_" + c.some(24),
    "citation": lambda c: (
        f"[@keyes{c.random.randint(1990, 2026)}authentication, p. 4] on secret-sharing"
    ),
    "settings": lambda c: (
        f"auth: oauth2\nsecret-store: keychain\nkey-size: {c.one(('256', '4096'))}\n"
        f"token-lifetime: {c.random.randint(5, 900)}m\npassword-hash: argon2id"
    ),
    "spoken address": lambda c: (
        f"https://x.test/@{c.some(6, _LOWER)}/why-passwords-fail-{c.some(12, _HEX)}?source=rss"
    ),
}


def look_alike(kind: str, c: Chance) -> Variant:
    """A note that holds no credential."""
    text = LOOK_ALIKES[kind](c)
    text = c.one(("{}", "{}\n", "# Notes\n\n{}\n\nMore.\n", "{}\n\n" + _paragraph(c))).replace(
        "{}", text
    )
    return Variant(kind, "", text, "")


def variants(count: int, seed: int) -> Iterator[Variant]:
    """So many notes, every other one with a credential, each kind as often as the others."""
    c = Chance(seed)
    credentials, others = list(CREDENTIALS), list(LOOK_ALIKES)
    for n in range(count):
        if n % 2 == 0:
            yield credential(credentials[n // 2 % len(credentials)], c)
        else:
            yield look_alike(others[n // 2 % len(others)], c)
