"""Renders the templates; an undefined variable is an error, and shows before any host is changed."""

from __future__ import annotations

import shlex
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

TEMPLATES = Path(__file__).resolve().parent.parent / "templates"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701 - the output is unit files and shell, quoted by the filters below
    )
    environment.filters.update(sh=shlex.quote, unit=unit_quote, env=env_quote, program=program_quote)
    return environment


def render(template: str, **values: Any) -> str:
    """The text of `templates/TEMPLATE`."""
    return _environment().get_template(template).render(**values)


def unit_quote(word: Any) -> str:
    """One word of a systemd command line: quoted, with % and $ taken literally."""
    text = str(word).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    text = text.replace("\n", "\\n")
    plain = text and not set(text) & set(" \t'\"\\;#")
    return text if plain else f'"{text}"'


def env_quote(value: Any) -> str:
    """A value that an environment file of systemd and a POSIX shell read alike."""
    text = str(value)
    for character in '\\"$`':
        text = text.replace(character, "\\" + character)
    return f'"{text}"'


def program_quote(value: Any) -> str:
    """A value in supervisor's configuration, which expands %(name)s and cuts at ` ;`."""
    return str(value).replace("%", "%%").replace(" ;", r" \;")
