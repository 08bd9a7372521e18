"""A contract of import-linter: no circle of modules that import each other.

Imports for types only count too: who reads the one file needs the other. The contract is in
pyproject.toml, and `make lint` checks it.
"""

from graphlib import CycleError, TopologicalSorter

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output


class NoCircles(Contract):
    """Fails with the modules of a circle, each with the next that it imports."""

    type_name = "no_circles"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002
        """Sort the modules by their imports.

        The root is left out. It is where the linter sees imports of the compiled module.
        """
        imports = {
            module: {one for one in graph.find_modules_directly_imported_by(module) if "." in one}
            for module in graph.modules
        }
        try:
            TopologicalSorter(imports).prepare()
        except CycleError as error:
            return ContractCheck(kept=False, metadata={"circle": error.args[1][::-1]})
        return ContractCheck(kept=True)

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print the circle."""
        output.print_error(" -> ".join(check.metadata["circle"]))
