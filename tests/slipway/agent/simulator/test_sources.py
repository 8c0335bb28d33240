"""The simulator is copied to hosts: old Python, standard library only, no names of its own package."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from .harness import ROOT

SOURCES = sorted((ROOT / "slipway/agent/simulator").glob("*.py"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_a_module_is_python_3_9_and_imports_only_the_standard_library(source: Path) -> None:
    tree = ast.parse(source.read_text(), feature_version=(3, 9))
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        assert all(name.split(".")[0] in sys.stdlib_module_names for name in names), names


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_functions_stay_short(source: Path) -> None:
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert (node.end_lineno or 0) - node.lineno < 30, f"{source.name}: {node.name}"
