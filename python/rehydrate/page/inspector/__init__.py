"""A prompt as one HTML page: what stands in it, what it costs, where it is from, what went and why.

    PromptIR -> ir.explain() -> head, body, tables -> writing.inspector_page -> the page

`rehydrate inspect FILE -o PAGE` writes it. Like the page of a compaction it has no script and loads
nothing: it opens anywhere, offline, and nothing that a prompt holds can run.
"""

from rehydrate.page.inspector.writing import inspector_page

__all__ = ["inspector_page"]
