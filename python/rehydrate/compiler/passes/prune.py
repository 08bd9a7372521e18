"""placeholder"""

from rehydrate.compiler.target import traced


def prune(ir, target):
    return traced("prune", ir, ir)
