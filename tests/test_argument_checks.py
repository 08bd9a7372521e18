"""The shared checks of arguments refuse what looks like a right value, and name it."""

from __future__ import annotations

from typing import Any

import pytest

from rehydrate._check import check_list, check_methods, check_share, check_whole
from rehydrate.errors import InvalidArgumentError


@pytest.mark.parametrize("value", [True, 1.0, "1", None, 0, 257])
def test_a_whole_number_is_no_bool_and_lies_in_its_range(value: Any):
    with pytest.raises(InvalidArgumentError, match=r"threads is .*; pass a whole number from 1 to"):
        check_whole("threads", value, 1, 256)


def test_the_ends_of_a_range_belong_to_it_and_none_only_where_it_may():
    check_whole("threads", 1, 1, 256)
    check_whole("threads", 256, 1, 256)
    check_whole("threads", None, 1, or_none=True)
    with pytest.raises(InvalidArgumentError, match="whole number from 1 up, or None"):
        check_whole("threads", 0, 1, or_none=True)


@pytest.mark.parametrize("value", [True, -0.1, 1.1, float("nan"), "1", None])
def test_a_share_is_a_number_from_0_to_1(value: Any):
    with pytest.raises(InvalidArgumentError, match="pass a number from 0 to 1"):
        check_share("trust", value)


@pytest.mark.parametrize("value", ["text", b"text", {"a": 1}, 3, None])
def test_one_thing_is_no_list_of_things(value: Any):
    with pytest.raises(
        InvalidArgumentError, match=f"tools is of type {type(value).__name__}; pass"
    ):
        check_list("tools", value, "pass a list")


def test_every_method_must_be_there():
    check_methods("names", [], "append pop", "pass a list")
    with pytest.raises(InvalidArgumentError, match="names is of type tuple; pass a list"):
        check_methods("names", (), "count append", "pass a list")
