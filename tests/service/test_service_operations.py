"""The table of operations that every surface is a translation of."""

import dataclasses
import typing

import pytest

from vaultmem.model.errors import VaultmemError, all_errors
from vaultmem.model.operation import Changes, Operation
from vaultmem.service.operations import OPERATIONS


def named(operation: Operation) -> str:
    return operation.name


def test_names_are_unique_and_what_the_command_line_promises() -> None:
    names = [operation.name for operation in OPERATIONS]
    assert len(set(names)) == len(names)
    assert {"search", "index", "related", "read", "lint", "inspect", "status"} <= set(names)
    assert all(name.isidentifier() and name == name.lower() for name in names)


@pytest.mark.parametrize("operation", OPERATIONS, ids=named)
def test_requests_and_replies_are_frozen_values(operation: Operation) -> None:
    for kind in (operation.request, operation.reply):
        assert dataclasses.is_dataclass(kind)
        assert kind.__dataclass_params__.frozen  # type: ignore[union-attr]
        assert kind.__doc__
        assert not kind.__doc__.startswith(kind.__name__), "a docstring that says nothing"


@pytest.mark.parametrize("operation", OPERATIONS, ids=named)
def test_summaries_are_short_sentences(operation: Operation) -> None:
    assert 0 < len(operation.summary.split()) < 25
    assert operation.summary.endswith(".")


@pytest.mark.parametrize("operation", OPERATIONS, ids=named)
def test_what_runs_takes_the_request_and_gives_the_reply(operation: Operation) -> None:
    hints = typing.get_type_hints(operation.run)
    assert hints["request"] is operation.request
    assert hints["return"] is operation.reply
    changing = {"allow_secret": Changes.STATE, "index": Changes.INDEX}
    assert operation.changes is changing.get(operation.name, Changes.NOTHING)
    assert (operation.question is not None) is (operation.changes is Changes.STATE)


def test_every_error_has_an_exit_code_a_status_and_a_code_of_its_own() -> None:
    kinds: list[type[VaultmemError]] = [*all_errors(), VaultmemError]
    assert len({kind.exit_code for kind in kinds}) == len(kinds)
    assert len({kind.code for kind in kinds}) == len(kinds)
    assert all(400 <= kind.http_status < 600 for kind in kinds)
    assert not {kind.exit_code for kind in kinds} & {0, 1, 130}
