"""A checkpoint that comes from the Hub: what `slipway checkpoint facts` recorded of it, and what of it is fetched."""

from __future__ import annotations

import fnmatch
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from slipway.config.deployment import ModelSettings

from .model import CheckpointPlan, Files

RECORD = "hub.json"  # beside the small files, in the folder that model.facts names
PUBLIC = "https://huggingface.co"


@dataclass(frozen=True)
class HubFiles(Files):
    """Files of one commit. entries: name -> (size, 'sha256:HEX' of large files, 'git:HEX' of small ones).

    revision: what the configuration asks for; commit: what it stood for when it was recorded. token: where it is
    found, {env: NAME}, {file: PATH} or {host_file: PATH}, or {} for none. bandwidth: bytes a second, 0 for no cap.
    """

    repo: str = ""
    revision: str = ""
    commit: str = ""
    endpoint: str = PUBLIC
    token: Mapping[str, str] = field(default_factory=dict)
    workers: int = 8
    bandwidth: int = 0
    timeout_s: int = 30
    patience_s: int = 900
    deadline_s: int = 86400

    @property
    def bytes(self) -> int:
        """Of all its files."""
        return sum(size for size, _ in self.entries.values())


def facts_folder(model: ModelSettings) -> str:
    """Where the record of a repository lies: model.facts, else a place of our own beside the inventory."""
    return model.facts or f".slipway/checkpoints/{folder_of(model.repo or '')}"


def folder_of(repo: str) -> str:
    """ORG/NAME as one folder's name."""
    return repo.replace("/", "--")


def hub_key(model: ModelSettings) -> str:
    """What the record goes by among the files of an inventory."""
    return f"hub:{facts_folder(model)}:{model.repo}@{model.revision}"


def read_record(text: str, model: ModelSettings) -> HubFiles | str:
    """The record as files to fetch; a text says why it is none for this configuration."""
    try:
        data = json.loads(text)
        entries = {name: (int(size), str(digest)) for name, (size, digest) in data["files"].items()}
        repo, revision, commit = (str(data[key]) for key in ("repo", "revision", "commit"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"its {RECORD} is damaged"
    if repo != model.repo or model.revision not in (revision, commit):
        return f"it was recorded for {repo} at {revision}, the configuration asks for {model.repo} at {model.revision}"
    unsafe = [name for name in entries if name.startswith(("/", ".cache/")) or ".." in name.split("/")]
    if unsafe:
        return f"its {RECORD} names {unsafe[0]!r}, which may lead out of the folder"
    left = chosen(entries, model.include, model.exclude)
    if not left:
        return "model.include and model.exclude leave no file"
    return HubFiles("", left, repo, model.revision, commit, str(data.get("endpoint", PUBLIC)))


def plan_hub(found: HubFiles, model: ModelSettings, checkpoints: str) -> CheckpointPlan:
    """The checkpoint of a host. checkpoints: the folder of all of them there."""
    name = folder_of(found.repo)
    files = replace(
        found,
        endpoint=model.endpoint or found.endpoint,
        token=dict(model.token or {}),
        workers=model.fetch_workers,
        bandwidth=int(model.fetch_mb_per_s * 1e6),
        timeout_s=model.fetch_timeout_s,
        patience_s=model.fetch_patience_s,
        deadline_s=model.fetch_deadline_s,
    )
    place = found.commit + (f"-{_choice(found)}" if model.include or model.exclude else "")
    served = model.name or found.repo.rpartition("/")[2]
    return CheckpointPlan(name, served, found.commit, f"{checkpoints}/{name}/{place}", files)


def _choice(found: HubFiles) -> str:
    """Tells one choice of a commit's files from another, so that each is complete in a folder of its own."""
    return hashlib.sha256("\n".join(sorted(found.entries)).encode()).hexdigest()[:8]


def chosen(files: Mapping[str, Any], include: Iterable[str], exclude: Iterable[str]) -> dict[str, Any]:
    """The files that the patterns leave, as huggingface_hub reads patterns; no include means all."""
    wanted, unwanted = [*map(_whole, include)], [*map(_whole, exclude)]
    return {
        name: found
        for name, found in files.items()
        if (not wanted or any(fnmatch.fnmatch(name, pattern) for pattern in wanted))
        and not any(fnmatch.fnmatch(name, pattern) for pattern in unwanted)
    }


def _whole(pattern: str) -> str:
    """A folder stands for all below it."""
    return pattern + "*" if pattern.endswith("/") else pattern
