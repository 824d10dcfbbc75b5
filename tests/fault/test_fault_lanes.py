"""A slip of the pen in the variables of these tests ends the run, in one sentence."""

import pytest
from lanes import lane_of, seed_of


def test_lane_and_seed_are_those_that_are_named() -> None:
    assert (lane_of({}), seed_of({})) == ("fast", 8)
    assert (lane_of({"FAULT_LANE": "slow"}), seed_of({"FAULT_SEED": "12"})) == ("slow", 12)


def test_a_lane_that_there_is_not_is_named_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"^FAULT_LANE is 'slwo'; .* one of fast, slow\.$"):
        lane_of({"FAULT_LANE": "slwo"})


def test_a_seed_that_is_no_number_is_named() -> None:
    with pytest.raises(ValueError, match=r"^FAULT_SEED is 'x'; .* a whole number, as 8\.$"):
        seed_of({"FAULT_SEED": "x"})
