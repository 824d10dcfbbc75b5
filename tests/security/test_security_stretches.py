"""Where Python's own engine looks for a secret: nowhere twice."""

from vaultmem.security.engine import PythonEngine


def test_the_end_of_a_text_is_looked_through_once() -> None:
    data = b"key " * 500
    hints = PythonEngine().hints(["key"], "key")

    assert hints.stretches(data, [0]) == [(0, len(data))]


def test_every_place_lies_in_a_stretch_with_room_behind_it() -> None:
    data = b"key " * 5000
    stretches = PythonEngine().hints(["key"], "key").stretches(data, [0])

    for place in range(0, len(data), 4):
        assert any(start <= place < min(len(data), place + 2048) <= end for start, end in stretches)
    assert sum(end - start for start, end in stretches) < 3 * len(data)
