"""Drawings of the Excalidraw plugin: what of their files is text, in every form it has written."""

import json
from base64 import b64encode
from random import Random
from time import process_time

import pytest

from vaultmem.model.note import Note
from vaultmem.vault.chunk import chunk_note
from vaultmem.vault.facts import is_stub
from vaultmem.vault.parse import parse
from vaultmem.vault.subpath import Place, find_place

PROPERTIES = "---\n\nexcalidraw-plugin: parsed\ntags: [excalidraw, pottery]\n\n---\n"
WARNING = (
    "==⚠  Switch to EXCALIDRAW VIEW in the MORE OPTIONS menu of this document. ⚠== "
    "You can decompress Drawing data with the command palette: 'Decompress current Excalidraw "
    "file'. For more info check in plugin settings under 'Saving'\n\n\n"
)
OLD_WARNING = "==⚠  Switch to EXCALIDRAW VIEW in the MORE OPTIONS menu of this document. ⚠==\n\n\n"
ELEMENTS = """\
Kiln schedule #firing ^aB3dE6gH

See [[Glaze recipes|recipes]]
and ![[Cone chart.md#Cone 6]] ^zZ1234xy

- decision:: fire at cone six
- [ ] buy cones ^Q9w8E7r6

"""
LINKS = "## Element Links\nq1W2e3R4: [[Clay#Prices]]\n\n"
IMAGES = (
    "Embedded Files\n"
    "0123456789abcdef0123456789abcdef01234567: [[kiln plan.png]]\n\n"
    "89abcdef0123456789abcdef0123456789abcdef: [[Other drawing.excalidraw|100%]]\n\n"
    "fedcba98: $$\\int_0^1 T(x)\\,dx$$\n\n"
)


def scene() -> str:
    """The drawing as JSON, of 200 KB, with everything in it that could be taken for text."""
    elements = [
        {
            "id": f"element{number}",
            "type": "text",
            "strokeColor": "#1e1e1e",
            "text": "Hidden words #hidden",
            "rawText": "[[Hidden note]] [x](Hidden.md) key:: value",
            "originalText": "# Hidden heading\n- [ ] hidden ^hidden1",
            "link": "[[Hidden note]]",
            "points": [[0, 0], [number, 1.5]],
        }
        for number in range(600)
    ]
    return json.dumps({"type": "excalidraw", "version": 2, "elements": elements}, indent="\t")


def compressed() -> str:
    """What a compressed drawing looks like: 200 KB of base64 in blocks of 256 characters."""
    text = b64encode(Random(7).randbytes(150_000)).decode()
    return "\n\n".join(text[at : at + 256] for at in range(0, len(text), 256))


def drawing(head: str, *, packed: bool, mark: str = "##", behind: str = "\n%%") -> str:
    kind, text = ("compressed-json", compressed()) if packed else ("json", scene())
    return f"{head}{mark} Drawing\n```{kind}\n{text}\n```{behind}"


DATA = "# Excalidraw Data\n\n## Text Elements\n"
OLD = f"{OLD_WARNING}# Text Elements\n{ELEMENTS}"
FORMS = {
    "today": drawing(f"{WARNING}{DATA}{ELEMENTS}{LINKS}## {IMAGES}%%\n", packed=True),
    "today, plain": drawing(f"{WARNING}{DATA}{ELEMENTS}{LINKS}## {IMAGES}%%\n", packed=False),
    "all in a comment": drawing(f"{WARNING}%%\n{DATA}{ELEMENTS}{LINKS}## {IMAGES}", packed=False),
    "in a comment, closed before": drawing(
        f"{WARNING}%%\n{DATA}{ELEMENTS}{LINKS}## {IMAGES}%%\n", packed=True
    ),
    "commented drawing": drawing(f"{OLD}# {IMAGES}%%\n", packed=False, mark="#"),
    "first": drawing(
        f"{OLD}# {IMAGES.replace('Files', 'files')}", packed=False, mark="#", behind=""
    ),
}
every_form = pytest.mark.parametrize("form", FORMS)


def file_of(form: str) -> str:
    return PROPERTIES + FORMS[form]


def note(text: str, path: str = "Pottery/Kiln.excalidraw.md") -> Note:
    return parse(path, text.encode())


def searched(found: Note) -> str:
    return "".join(found.text[start:end] for start, end in found.parts).strip()


def passages(found: Note) -> list[str]:
    return [chunk.text for chunk in chunk_note(found, max_pieces=180)]


@every_form
def test_of_a_drawing_the_text_elements_are_searched_and_nothing_else(form: str) -> None:
    found = note(file_of(form))

    assert len(found.text) > 190_000
    assert passages(found) == [ELEMENTS.strip()]
    assert searched(found) == ELEMENTS.strip()
    assert found.problems == ()
    assert not is_stub(found)


@every_form
def test_links_of_text_elements_elements_and_images_count_and_none_of_the_drawing(
    form: str,
) -> None:
    found = note(file_of(form))

    links = [(link.target, link.subpath, link.embed) for link in found.links]
    assert [link for link in links if link[0] != "Clay"] == [
        ("Glaze recipes", "", False),
        ("Cone chart.md", "#Cone 6", True),
        ("kiln plan.png", "", False),
        ("Other drawing.excalidraw", "", False),
    ]
    assert (("Clay", "#Prices", False) in links) == ("Element Links" in FORMS[form])
    lines = found.text.split("\n")
    assert all(f"[[{link.target}" in lines[link.line - 1] for link in found.links)


@every_form
def test_tags_fields_tasks_and_ids_are_those_of_the_text_elements(form: str) -> None:
    found = note(file_of(form))

    lines = found.text.split("\n")
    assert found.tags == ("excalidraw", "pottery", "firing")
    assert [(field.key, field.value) for field in found.fields] == [
        ("decision", "fire at cone six")
    ]
    assert [task.text for task in found.tasks] == ["buy cones ^Q9w8E7r6"]
    assert [block.id for block in found.block_ids] == ["aB3dE6gH", "zZ1234xy", "Q9w8E7r6"]
    assert all(lines[b.line - 1].endswith(f" ^{b.id}") for b in found.block_ids)


@every_form
def test_passages_know_their_lines_in_the_file(form: str) -> None:
    found = note(file_of(form))

    (chunk,) = chunk_note(found, max_pieces=180)
    lines = found.text.split("\n")
    assert lines[chunk.first_line - 1 : chunk.last_line] == ELEMENTS.strip().split("\n")
    assert lines[chunk.first_line - 2].endswith("Text Elements")
    assert chunk.trail == ()


@every_form
def test_a_text_element_is_read_by_its_id(form: str) -> None:
    found = note(file_of(form))

    first = found.text.split("\n").index("Kiln schedule #firing ^aB3dE6gH") + 1
    assert find_place(found, "#^aB3dE6gH") == Place("block", first, first)
    assert find_place(found, "#^hidden1") is None


@every_form
def test_line_ends_of_other_systems_change_nothing(form: str) -> None:
    expected = note(file_of(form))

    assert note(file_of(form).replace("\n", "\r\n")) == expected


@pytest.mark.parametrize(
    ("path", "properties", "is_drawing"),
    [
        ("Kiln.excalidraw.md", PROPERTIES, True),
        ("Kiln.excalidraw.md", "", True),
        ("Kiln.EXCALIDRAW.MD", "---\nx: [\n---\n", True),
        ("Kiln.md", PROPERTIES, True),
        ("Kiln.md", "---\nexcalidraw-plugin: raw\n---\n", True),
        ("Kiln.md", "---\nexcalidraw-plugin:\n---\n", True),
        ("Kiln.md", "", False),
        ("Kiln.md", "---\nexcalidraw: parsed\n---\n", False),
        ("excalidraw.md", "", False),
    ],
)
def test_a_drawing_is_told_by_its_property_or_its_name(
    path: str, properties: str, is_drawing: bool
) -> None:
    found = note(properties + FORMS["today, plain"], path)

    assert (searched(found) == ELEMENTS.strip()) == is_drawing
    assert ("Hidden words" in searched(found)) != is_drawing


def test_a_note_that_is_only_called_a_drawing_is_searched_as_a_whole() -> None:
    found = note(PROPERTIES + "# Plan\ntext about the kiln\n\n%%\nremark\n%%\n\nmore\n")

    assert searched(found).startswith("# Plan\ntext about")
    assert searched(found).endswith("more")


@every_form
def test_what_a_person_writes_on_the_back_is_searched_and_the_warning_is_not(form: str) -> None:
    head, plugin = FORMS[form].split("\n\n\n", 1)
    back = "# About this kiln\nBuilt in 1998, see [[Builder]] #history\n\n## Use\nOften.\n"
    found = note(f"{PROPERTIES}{head}\n\n{back}\n{plugin}")

    assert [(c.trail, c.text) for c in chunk_note(found, max_pieces=180)] == [
        (("About this kiln",), "# About this kiln\nBuilt in 1998, see [[Builder]] #history"),
        (("About this kiln", "Use"), "## Use\nOften."),
        ((), ELEMENTS.strip()),
    ]
    assert ("Builder", 10) in [(link.target, link.line) for link in found.links]
    assert "history" in found.tags
    assert "EXCALIDRAW VIEW" not in searched(found)


def test_what_stands_before_the_warning_is_searched_too() -> None:
    found = note(f"{PROPERTIES}My kiln\n{FORMS['today']}")

    assert passages(found) == ["My kiln", ELEMENTS.strip()]


def test_a_heading_in_a_text_element_opens_a_section_that_ends_with_the_elements() -> None:
    text = f"{PROPERTIES}{WARNING}{DATA}before ^a\n\n# Big title ^b\n\nbelow ^c\n\n%%\n"
    found = note(drawing(text, packed=False))

    assert [(c.trail, c.text) for c in chunk_note(found, max_pieces=180)] == [
        ((), "before ^a"),
        (("Big title ^b",), "# Big title ^b\n\nbelow ^c"),
    ]


def test_a_drawing_without_a_word_is_an_empty_note() -> None:
    found = note(drawing(f"{PROPERTIES}{WARNING}{DATA}%%\n", packed=True))

    assert (found.parts, passages(found)) == ((), [""])
    assert found.title == "Kiln.excalidraw"
    assert is_stub(found)


def test_a_drawing_that_is_cut_short_is_searched_as_far_as_it_goes() -> None:
    found = note(f"{PROPERTIES}{WARNING}{DATA}{ELEMENTS}")

    assert passages(found) == [ELEMENTS.strip()]


def test_words_that_begin_like_a_section_are_words() -> None:
    said = "Drawing a pot ^a\n\n# Drawing lessons ^b\n\nText Elements ^c\n\n%% aside %% ^d"
    found = note(drawing(f"{PROPERTIES}{WARNING}{DATA}{said}\n\n%%\n", packed=True))

    assert searched(found) == said


@every_form
def test_a_drawing_of_200_kilobytes_is_read_in_no_time(form: str) -> None:
    text = file_of(form)
    start = process_time()

    chunk_note(note(text), max_pieces=180)

    assert process_time() - start < 1


@pytest.mark.parametrize(
    "text",
    [
        "%%\n" * 60_000,
        "## Text Elements\nx ^a\n\n" * 10_000,
        "==⚠ x ⚠==\n" * 20_000 + "# Drawing\n",
        "#" * 200_000,
        ("#" + " " * 2_000 + "Drawin\n") * 100,
    ],
    ids=["comments", "sections", "warnings", "marks", "blanks"],
)
def test_the_time_to_read_a_drawing_grows_no_faster_than_the_file(text: str) -> None:
    start = process_time()

    found = note(PROPERTIES + text)
    chunk_note(found, max_pieces=180)

    assert process_time() - start < 3
    assert all(0 <= p.start <= p.end <= len(found.text) for p in found.parts)


@every_form
def test_a_persons_own_comments_and_headings_do_not_end_the_back(form: str) -> None:
    head, plugin = FORMS[form].split("\n\n\n", 1)
    back = "first\n\n%%\nremark\n%%\n\n## Drawing\nhow I drew it\n\n%%\nlast remark\n%%\n\nlast\n"
    found = note(f"{PROPERTIES}{head}\n\n{back}\n{plugin}")

    assert searched(found).split() == f"{back} {ELEMENTS}".split()


@every_form
def test_what_a_person_writes_behind_the_drawing_is_searched(form: str) -> None:
    found = note(file_of(form) + "\n\n# Afterword\nIt never cracked, says [[Builder]].\n")

    assert passages(found) == [
        ELEMENTS.strip(),
        "# Afterword\nIt never cracked, says [[Builder]].",
    ]
    assert found.links[-1].target == "Builder"


def test_a_drawing_without_a_fence_is_no_text() -> None:
    data = json.dumps({"type": "excalidraw", "elements": [{"text": "hidden"}]})
    found = note(f"{PROPERTIES}{OLD_WARNING}# Text Elements\nseen ^a\n\n# Drawing\n{data}\n%%")

    assert searched(found) == "seen ^a"


def drawn(back: str, elements: str = "") -> str:
    source = (
        PROPERTIES + WARNING + back + "\n# Excalidraw Data\n\n## Text Elements\n" + elements
        + '\n%%\n## Drawing\n```json\n{"type": "excalidraw"}\n```\n%%\n'
    )  # fmt: skip
    return "\n".join(
        chunk.text for chunk in chunk_note(parse("a.md", source.encode()), max_pieces=180)
    )


def test_a_warning_of_the_persons_own_is_their_text() -> None:
    assert "call Bob" in drawn("==⚠ Attention== call Bob\n")
    assert "EXCALIDRAW VIEW" not in drawn("==⚠ Attention== call Bob\n")


def test_a_text_element_may_begin_with_the_plugins_words() -> None:
    found = drawn("", "## Embedded Files\nplan of the attic ^a2\n\nthe end ^a3\n")

    assert "attic" in found
    assert "the end" in found
    assert "excalidraw" not in found
