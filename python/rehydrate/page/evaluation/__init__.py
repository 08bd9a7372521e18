"""An evaluation as one HTML page: what is recommended, charts, tables, what was lost and why.

    Evaluation -> head, charts, tables, losses -> writing.evaluation_page -> the page

`rehydrate eval SESSIONS --html PAGE` writes it. Like the other pages it has no script and loads
nothing: it opens anywhere, offline, and nothing that a session holds can run.
"""

from rehydrate.page.evaluation.writing import evaluation_page

__all__ = ["evaluation_page"]
