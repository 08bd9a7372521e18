"""HTML pages that need nothing else: a compaction, an evaluation, a prompt.


    messages, Compaction -> rows.rows -> Row a unit -> writing.side_by_side -> the page

`rehydrate compact FILE --html PAGE` writes it. The page has no script at all, and its style stands
in it: it opens anywhere, offline, and nothing that a message holds can run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.page.comparison import (
        side_by_side as side_by_side,
    )
    from rehydrate.page.evaluation import (
        evaluation_page as evaluation_page,
    )
    from rehydrate.page.inspector import (
        inspector_page as inspector_page,
    )

__all__, __dir__, __getattr__ = front(
    __name__,
    {
        "comparison": "side_by_side",
        "evaluation": "evaluation_page",
        "inspector": "inspector_page",
    },
    internal={
        "charts": "MOST_SESSIONS",
        "html": "escaped",
        "pairing": "rows",
    },
)
