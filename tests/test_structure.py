"""The house's rules that can be checked by reading the code."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted(p for top in ("slipway", "roles") for p in (ROOT / top).rglob("*.py"))
FORBIDDEN_NAMES = {"utils", "helpers", "common", "manager", "base", "misc"}
IMPURE = {"pyinfra", "subprocess", "socket", "requests", "urllib", "asyncio", "http", "gevent", "threading", "time"}
MAX_LINES = 30


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return found


def role_of(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    return parts[1] if parts[0] == "roles" and len(parts) > 2 else ""


def functions(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def test_imports_run_front_to_roles_to_slipway_and_never_back():
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in SOURCES
        for name in imports(path)
        if path.is_relative_to(ROOT / "slipway") and name.split(".")[0] in ("roles", "deploy", "inventory", "playbooks")
    ]
    assert wrong == []


def test_roles_do_not_import_one_another():
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in SOURCES
        if role_of(path)
        for name in imports(path)
        if name.startswith("roles.")
        and (ROOT / "roles" / name.split(".")[1]).is_dir()
        and name.split(".")[1] != role_of(path)
    ]
    assert wrong == []


def test_the_core_is_pure():
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in SOURCES
        if path.is_relative_to(ROOT / "slipway") and not path.is_relative_to(ROOT / "slipway/agent")
        for name in imports(path)
        if name.split(".")[0] in IMPURE
    ]
    assert wrong == []


# The client of the Hub comes with a build of its own, whose Python runs the fetch; nothing else may need a package.
EXCEPTED = {("slipway/agent/fetch_hub.py", "huggingface_hub")}


def test_agents_need_the_standard_library_only():
    import sys

    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in SOURCES
        if path.is_relative_to(ROOT / "slipway/agent")
        for name in imports(path)
        if name.split(".")[0] not in sys.stdlib_module_names and not name.startswith("slipway.agent")
        if (path.relative_to(ROOT).as_posix(), name) not in EXCEPTED
    ]
    assert wrong == []


def test_no_function_is_longer_than_a_screen():
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name} {node.end_lineno - node.lineno + 1}"
        for path in SOURCES
        for node in functions(path)
        if node.end_lineno - node.lineno + 1 > MAX_LINES
    ]
    assert long == []


@pytest.mark.parametrize("top", ["slipway", "roles"])
def test_no_module_is_named_for_being_a_drawer(top):
    found = [p for p in (ROOT / top).rglob("*") if p.stem in FORBIDDEN_NAMES]
    assert found == []


def test_deploy_is_a_table_of_contents():
    lines = (ROOT / "deploy.py").read_text().splitlines()
    assert len(lines) < 60
    assert not any(line.lstrip().startswith(("if ", "for ", "def ")) for line in lines)


def test_no_index_address_or_path_of_a_machine_is_committed():
    import subprocess

    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.split(b"\0")
    needles = [part.encode() for part in ("pypi" + ".org", "python" + "hosted", "debian" + ".org", "/wor" + "k/main")]
    wrong = []
    for name in filter(None, listed):
        path = ROOT / name.decode()
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            wrong += [f"{name.decode()}: {needle.decode()}" for needle in needles if needle in data]
    assert wrong == []
