"""A contract of import-linter: distributions import only what is installed with them.

Imports for types and inside functions count too. The contract is in pyproject.toml.
"""

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output

from tools.distributions import CORE, homes

OF_LAB = tuple(f"rehydrate.integrations.{name}" for name in ("ray_data", "spark", "proxy"))
"""Run the lab's batches and make its pages; their extras bring the lab."""
FRONTS = ("rehydrate", "rehydrate.agent", "rehydrate.agent.interpreter", "rehydrate.cost")
"""Import names of other distributions for type checkers alone; they load when they are used."""


class DistributionArrows(Contract):
    """Fails with each import from one distribution of another that it does not require."""

    type_name = "distributions"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002
        """Compare the homes of both ends of each import."""
        home = homes()
        wrong = [
            f"{module} ({home[module]}) -> {one} ({home[one]})"
            for module in sorted(graph.modules & home.keys())
            for one in sorted(graph.find_modules_directly_imported_by(module) & home.keys())
            if home[one] not in (CORE, home[module])
            and module not in FRONTS
            and not (home[one] == "rehydrate_lab" and module.startswith(OF_LAB))
        ]
        return ContractCheck(kept=not wrong, metadata={"wrong": wrong})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print the imports."""
        for line in check.metadata["wrong"]:
            output.print_error(line)
