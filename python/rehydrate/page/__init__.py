"""A session before and after, side by side, as one HTML page that needs nothing else.

    messages, Compaction -> rows.rows -> Row a unit -> writing.side_by_side -> the page

`rehydrate compact FILE --html PAGE` writes it. The page has no script at all, and its style stands
in it: it opens anywhere, offline, and nothing that a message holds can run.
"""

from rehydrate.page.writing import side_by_side

__all__ = ["side_by_side"]
