"""HTML pages in one file each: a compaction, an evaluation, a prompt, a context store.

    messages, Compaction -> pairing.rows -> a Row for each unit -> comparison.side_by_side -> page

`rehydrate compact FILE --html PAGE` writes it. A page has no script, and its style is inside. It
opens offline, and no content of a message can run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.page.comparison import (
        lists_side_by_side as lists_side_by_side,
        side_by_side as side_by_side,
    )
    from rehydrate.page.context_store import store_page as store_page
    from rehydrate.page.evaluation import evaluation_page as evaluation_page
    from rehydrate.page.inspector import inspector_page as inspector_page

__all__, __dir__, __getattr__ = front(__name__)
