"""Commands that are printed for a user to paste: what was typed, with another playbook."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

# What make's DATA carries unharmed: the Makefile hands it on by words, unquoted.
PLAIN = re.compile(r"[\w.,:/+@=-]+")
ENGINE = "engine.kind="  # the Makefile's ENGINE
# Options of pyinfra without which its next run would not reach the same hosts; passwords are not repeated.
REACHING = {"ssh_user": "--ssh-user", "ssh_port": "--ssh-port", "ssh_key": "--ssh-key", "sudo_user": "--sudo-user"}


def playbook_words(typed: Mapping[str, Any], data: Sequence[str], playbook: str, *more: str) -> list[str]:
    """A pyinfra call like the one that was typed, for `playbook`.

    typed: pyinfra's parameters, with the inventory as it was given. data: its --data, KEY.PATH=VALUE. more: words
    that come after the playbook.
    """
    words = ["--sudo"] if typed.get("sudo") else []
    words += [word for name, flag in REACHING.items() if typed.get(name) for word in (flag, str(typed[name]))]
    words += [word for item in data for word in ("--data", item)]
    return ["pyinfra", *words, str(typed.get("inventory", "inventory.py")), playbook, *more]


def make_command(target: str, data: Sequence[str]) -> str:
    """`make TARGET` with the same data, for the default inventory; '' where make cannot carry it."""
    if not all(PLAIN.fullmatch(item) for item in data):
        return ""
    engine = next((item.removeprefix(ENGINE) for item in data if item.startswith(ENGINE)), "")
    rest = [item for item in data if not item.startswith(ENGINE)]
    words = ["make", target, *([f"ENGINE={engine}"] if engine else [])]
    return " ".join([*words, f'DATA="{" ".join(rest)}"'] if rest else words)


def command_again(typed: Mapping[str, Any], data: Sequence[str], playbook: str, target: str, *more: str) -> str:
    """What to paste, quoted for a shell. target: make's, when the inventory is the default one; '' otherwise."""
    asked = [word for word in more if not word.startswith("-")]
    reached = not typed.get("sudo") and not any(typed.get(name) for name in REACHING)
    short = make_command(target, [*data, *asked]) if target and reached else ""
    return short or shlex.join(playbook_words(typed, data, playbook, *more))
