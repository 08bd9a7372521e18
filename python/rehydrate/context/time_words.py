"""Times as people and models write them. docs/request-context-times.md has the forms.

The code is in `rust/rehydrate-py/src/times.rs`.
"""

from rehydrate._native import describe, parse_time_range

__all__ = ["describe", "parse_time_range"]
