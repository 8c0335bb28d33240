"""Reads the flags of an SGLang by asking its own parser; runs in the engine's Python. See knowledge/README.md."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
from typing import Any

KINDS = {
    "_StoreTrueAction": "switch", "BooleanOptionalAction": "toggle", "DeprecatedAction": "ignored",
    "DeprecatedStoreTrueAction": "switch", "DeprecatedStoreConstAction": "switch",
}  # fmt: skip
TYPES = {"int": "int", "float": "float", "loads": "json", "json_list_type": "json_list", "human_readable_int": "size"}


def read_flags() -> dict[str, Any]:
    """What `FlagList.from_json` reads."""
    parser = argparse.ArgumentParser()
    importlib.import_module("sglang.srt.server_args").ServerArgs.add_cli_args(parser)
    actions = [action for action in parser._actions if action.option_strings and action.dest != "help"]
    return {
        "release": importlib.metadata.version("sglang"),
        "source": "parser of the built engine",
        "confidence": "observed",
        "flags": {action.option_strings[0]: row(action) for action in actions},
    }


def row(action: Any) -> dict[str, Any]:
    """One flag; what is usual is left out."""
    kind = KINDS.get(type(action).__name__, "value")
    named = action.option_strings[0][2:].replace("-", "_")
    unset = action.default is False or action.default is argparse.SUPPRESS
    deprecated = "Deprecated" in type(action).__name__
    found = {
        "also": [name for name in action.option_strings[1:] if not name.startswith("--no-")],
        "dest": action.dest if action.dest != named else None,
        "default": None if unset else plain(action.default),
        "required": action.required or None,
        "deprecated": (getattr(action, "new_flag", None) or "") if deprecated else None,
        **(valued(action) if kind == "value" else {"kind": kind}),
    }
    return {key: value for key, value in found.items() if value is not None and (value != [] or key == "default")}


def valued(action: Any) -> dict[str, Any]:
    """What only a flag with a value has."""
    choices = [plain(choice) for choice in action.choices or ()]
    return {"type": TYPES.get(getattr(action.type, "__name__", "")), "nargs": action.nargs, "choices": choices}


def plain(value: Any) -> Any:
    """What JSON takes; None for the rest."""
    return value if isinstance(value, (str, int, float, bool, list, dict)) else None
