"""Reads on the controller what the ladder asks with: known answers, an accuracy set, the API key, a certificate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roles.run import RefusedError, Run
from roles.secrets import SecretsError, read_secret
from slipway.config.deployment import VerifySettings
from slipway.plan.model import Plan
from slipway.verify.sets import AnswerSetError, accuracy_rows, as_rows, chosen_rows
from slipway.verify.subjects import Asking

ANSWERS = "answers"  # folder of users' sets, beside the inventory or in the checkout
CHECKOUT = Path(__file__).resolve().parent.parent


def asking_of(run: Run, plan: Plan) -> Asking:
    """What a plan's ladder is climbed with; read once for each plan of a run. Raises RefusedError.

    A release that is put back is asked what was recorded with it.
    """
    known: dict[int, Asking] = run.notes.setdefault("asking", {})
    if id(plan) not in known:
        known[id(plan)] = _read(run, plan)
    return known[id(plan)]


def _read(run: Run, plan: Plan) -> Asking:
    settings, folder = run.deployment.hosts[0].verify, run.opened.inventory.parent
    try:
        return Asking(
            plan=plan,
            settings=settings,
            known=_known(settings, plan, folder) if run.answers is None else as_rows(run.answers),
            accuracy=_accuracy(settings, folder),
            reference=_reference(settings, plan),
            key=_key(run, settings, folder),
            ca=_certificate(settings, folder),
        )
    except (AnswerSetError, SecretsError) as error:
        raise RefusedError(f"{error}\nnothing was changed") from None


def _key(run: Run, settings: VerifySettings, folder: Path) -> str:
    """The key that is asked with: its own, else the router's."""
    if settings.api_key:
        return read_secret("verify.api_key", settings.api_key, folder)
    place = next((host.router.api_key for host in run.deployment.hosts if host.router.api_key), None)
    return read_secret("router.api_key", place, folder) if place else ""


def _known(settings: VerifySettings, plan: Plan, folder: Path) -> list[Mapping[str, Any]]:
    checkpoint = next((host.checkpoint for host in plan.hosts if host.checkpoint), None)
    own = Path(checkpoint.files.source) if checkpoint and checkpoint.files else None
    names = (checkpoint.name, checkpoint.served_name) if checkpoint else ()
    wanted = settings.known_answers
    chosen = (wanted,) if isinstance(wanted, str) else wanted
    return chosen_rows(chosen, own, _folders(folder), names, plan.simulated)


def _folders(folder: Path) -> list[Path]:
    """Where users' sets are looked for: beside the inventory, then in the checkout."""
    return [place / ANSWERS for place in dict.fromkeys((folder, CHECKOUT))]


def _accuracy(settings: VerifySettings, folder: Path) -> dict[str, Any] | None:
    gate = settings.accuracy
    if not gate["file"]:
        return None
    rows = accuracy_rows(folder / Path(gate["file"]).expanduser(), gate["questions"], gate["prompt"])
    return {"rows": rows, **{name: gate[name] for name in ("threshold", "max_tokens", "at_once")}}


def _reference(settings: VerifySettings, plan: Plan) -> dict[str, Any] | None:
    """References lie in ROOT, so that deployments of one host can be compared with one another."""
    label, save = settings.save_reference or settings.reference, bool(settings.save_reference)
    routers = plan.of("router")
    if not label or not routers:
        return None
    path = f"{plan.host(routers[0].host).paths['root']}/references/{label}.json"
    about = {"deployment": plan.deployment, "workers": [f"{one.role} {one.name}" for one in plan.serving()]}
    return {"path": path, "label": label, "save": save, "tolerance": settings.reference_tolerance, "about": about}


def _certificate(settings: VerifySettings, folder: Path) -> str | None:
    if not settings.ca_file:
        return None
    path = folder / Path(settings.ca_file).expanduser()
    try:
        text = path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not PEM text"
        raise AnswerSetError(f"verify.ca_file: {path}: cannot be read: {reason}") from None
    if "BEGIN CERTIFICATE" not in text:
        raise AnswerSetError(f"verify.ca_file: {path}: holds no certificate; it must be in PEM")
    return text
