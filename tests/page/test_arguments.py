"""What a page is of is checked: a wrong value is named, with what to pass."""

from __future__ import annotations

from typing import Any

import pytest

from rehydrate.errors import InvalidArgumentError
from rehydrate.page import evaluation_page, inspector_page, side_by_side, store_page


@pytest.mark.parametrize(
    ("page", "name"),
    [
        (inspector_page, "prompt"),
        (evaluation_page, "found"),
        (lambda value: store_page(value, []), "store"),
        (lambda value: side_by_side([], value), "compaction"),
    ],
)
def test_a_page_of_something_else_is_refused(page: Any, name: str):
    with pytest.raises(InvalidArgumentError, match=f"^{name} is of type dict; pass "):
        page({})
