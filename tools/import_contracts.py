"""A contract of import-linter: what modules may import, by list; everything that is not in the list is refused.

import-linter's own `forbidden` knows only what may not be imported, and passes every module that nobody thought of.
"""

from __future__ import annotations

from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output
from importlinter.application import contract_utils
from importlinter.domain.helpers import module_expressions_to_modules


class AllowedContract(Contract):
    """Source modules import themselves and what is allowed, nothing else.

    Options:
        source_modules: packages, with all that is in them.
        allowed_modules: modules and packages; of one that is external its first name, as `collections`.
        allow_indirect_imports: whether what is allowed may import what it likes. By default all that is loaded with the
            source modules has to be in the list.
        ignore_imports: single imports that pass all the same.
    """

    type_name = "allowed"

    source_modules = fields.SetField(subfield=fields.ModuleExpressionField())
    allowed_modules = fields.SetField(subfield=fields.StringField())
    allow_indirect_imports = fields.BooleanField(required=False, default=False)
    ignore_imports = fields.SetField(subfield=fields.ImportExpressionField(), required=False)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Find every import that the list does not allow, in the source modules and in what they load."""
        sources: Any = self.source_modules
        allowed: Any = self.allowed_modules
        ignored: Any = self.ignore_imports
        removal = contract_utils.remove_ignored_imports_and_report(graph, ignored, contract_utils.AlertLevel.ERROR)
        within = {module.name for module in module_expressions_to_modules(graph, sources)}
        passed = within | set(allowed)
        importers = set().union(*({name, *graph.find_descendants(name)} for name in within))
        if not self.allow_indirect_imports:
            importers |= set().union(*(graph.find_upstream_modules(name, as_package=True) for name in within))
        refused = sorted(
            (importer, imported)
            for importer in importers
            for imported in graph.find_modules_directly_imported_by(importer)
            if not any(imported == name or imported.startswith(f"{name}.") for name in passed)
        )
        ignored_count = removal.ignored_import_count
        return ContractCheck(kept=not refused, ignored_import_count=ignored_count, metadata={"refused": refused})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """A line for each import that is not in the list."""
        for importer, imported in check.metadata["refused"]:
            output.print_error(f"{importer} is not allowed to import {imported}", bold=False)
        output.new_line()
