"""Write the reference pages: python -m scripts.reference [PAGE ...]. --check writes nothing and exits 1 if stale."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def pages() -> dict[str, ModuleType]:
    """Every page by its module's name."""
    names = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return {name: importlib.import_module(f"scripts.reference.{name}") for name in names if not name.startswith("_")}


def stale(page: ModuleType) -> bool:
    """Whether the page in the checkout is not what the code says."""
    path = ROOT / page.PATH
    return not path.is_file() or path.read_text(encoding="utf-8") != page.text()


def main(argv: list[str]) -> int:
    """Write the pages that are stale, and name them."""
    known = pages()
    parser = argparse.ArgumentParser(prog="python -m scripts.reference", description=__doc__)
    parser.add_argument("page", nargs="*", choices=[*known, []], help="default: all")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a page is stale")
    asked = parser.parse_args(argv)
    old = [known[name] for name in asked.page or known if stale(known[name])]
    for page in old:
        print(f"{page.PATH}: {'stale' if asked.check else 'written'}")
        if not asked.check:
            (ROOT / page.PATH).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / page.PATH).write_text(page.text(), encoding="utf-8")
    return 1 if asked.check and old else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
