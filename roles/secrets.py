"""Reads the secrets that a plan names, on the controller, just before they are compared and sent."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from slipway.plan.model import Plan
from slipway.plan.secrets import API_KEY


class SecretsError(Exception):
    """Secrets that cannot be read: one line each, which names where they should be and never shows any."""


def read_secrets(plan: Plan, folder: Path) -> dict[str, dict[str, str]]:
    """Instance -> variable -> value. folder: the inventory's, from which paths start. Raises SecretsError."""
    found: dict[str, dict[str, str]] = {}
    problems: dict[str, None] = {}
    for instance in plan.instances:
        for name, place in instance.secrets.items():
            try:
                found.setdefault(instance.name, {})[name] = _checked(name, _read(name, place, folder))
            except SecretsError as error:
                problems[str(error).replace(f"secret_env.{API_KEY}", "api_key", 1)] = None
    problems.update(dict.fromkeys(_other_keys(plan, found)))
    if problems:
        raise SecretsError("\n".join(problems))
    return found


def _other_keys(plan: Plan, found: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """The router sends its own key to workers."""
    router = next((found[one.name][API_KEY] for one in plan.of("router") if API_KEY in found.get(one.name, {})), None)
    for name, values in found.items():
        if router is not None and values.get(API_KEY, router) != router:
            yield f"api_key: {name} asks for another key than the router sends; both must be given the same one"


def read_token(place: Mapping[str, str], folder: Path) -> str:
    """The token of model.token; '' when there is none or it lies on the host. Raises SecretsError."""
    if not place or "host_file" in place:
        return ""
    try:
        return _checked("token", _read("token", place, folder))
    except SecretsError as error:
        raise SecretsError(str(error).replace("secret_env.token", "model.token", 1)) from None


def read_secret(key: str, place: Mapping[str, str], folder: Path) -> str:
    """One secret that a key of the configuration says the place of. Raises SecretsError."""
    try:
        return _checked(key, _read(key, place, folder))
    except SecretsError as error:
        raise SecretsError(str(error).replace(f"secret_env.{key}", key, 1)) from None


def _read(name: str, place: Mapping[str, str], folder: Path) -> str:
    if "env" in place:
        if place["env"] not in os.environ:
            raise SecretsError(f"secret_env.{name}: the environment variable {place['env']} is not set here; export it")
        return os.environ[place["env"]]
    path = folder / Path(place["file"]).expanduser()
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise SecretsError(f"secret_env.{name}: {path} cannot be read: {reason}") from None


def _checked(name: str, value: str) -> str:
    """An environment file takes one line, and an empty secret is a forgotten one."""
    if not value or not value.isprintable():
        what = "empty" if not value else "more than one line of printable text"
        raise SecretsError(f"secret_env.{name}: what was found is {what}; it must be one line")
    return value
