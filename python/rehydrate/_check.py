"""Checks of arguments that many entry points share: types, choices, numbers, paths and timeouts.

Each raises InvalidArgumentError, which names the argument, its value and the remedy.

>>> check_choice("side", "le", ("left", "up"))
Traceback (most recent call last):
rehydrate.errors.InvalidArgumentError: side is 'le'; did you mean 'left'? choose one of 'left', 'up'
"""

from rehydrate._native import (
    check_choice,
    check_known,
    check_list,
    check_methods,
    check_path,
    check_share,
    check_timeout,
    check_type,
    check_whole,
    refuse_copy,
    shown,
)

__all__ = [
    "check_choice",
    "check_known",
    "check_list",
    "check_methods",
    "check_path",
    "check_share",
    "check_timeout",
    "check_type",
    "check_whole",
    "refuse_copy",
    "shown",
]
