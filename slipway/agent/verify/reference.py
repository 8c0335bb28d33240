"""Compares answers with those of a reference run, so that disaggregated is proven to equal aggregated.

A reference is kept on the router's host under its label: what was asked, what was answered, and the logprob of each
token where the server gives them.
"""

from __future__ import annotations

import json
import os
from typing import Any

from slipway.agent.verify.lengths import padded
from slipway.agent.verify.questions import Answer, ask, sane
from slipway.agent.verify.reasons import RungError

FREE = ("Say hello.", "Write one sentence about the sea.", "Count from one to ten in words.")
LONG_WORDS = 200
TOKENS = 48
FORM = 1


def equals_reference(subject: dict[str, Any]) -> str:
    """Answers and logprobs are those of the reference run; or this run becomes the reference."""
    reference = subject.get("reference")
    if not reference:
        return "no reference named (verify.reference)"
    if reference["save"]:
        return saved(subject, reference)
    known = read(reference["path"], reference["label"])
    if known["model"] != subject["model"]:
        raise RungError(f"the reference {reference['label']} is of model {known['model']}, not {subject['model']}")
    return compared(subject, known, reference["tolerance"])


def read(path: str, label: str) -> dict[str, Any]:
    """A saved reference."""
    try:
        with open(path, encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
    except FileNotFoundError:
        raise RungError(f"no reference {label} ({path}); make one with verify.save_reference={label}") from None
    except (OSError, ValueError) as error:
        raise RungError(f"the reference {label} cannot be read: {error}") from None
    if found.get("form") != FORM:
        raise RungError(f"the reference {label} is of another Slipway; save it again")
    return found


def prompts(subject: dict[str, Any]) -> list[dict[str, Any]]:
    """What a reference asks: known questions, free ones, and a long one."""
    free = [{"question": text} for text in FREE]
    return [*subject["known_answers"][:8], *free, padded(free[0], LONG_WORDS)]


def asked(subject: dict[str, Any], question: dict[str, Any]) -> Answer:
    """One answer with logprobs; without, where the server refuses to give them."""
    more = {"logprobs": 1} if subject.get("plain") else {"logprobs": True}
    try:
        return sane(ask(subject, question, TOKENS, **more), TOKENS, cut=True)
    except RungError:
        return sane(ask(subject, question, TOKENS), TOKENS, cut=True)


def saved(subject: dict[str, Any], reference: dict[str, Any]) -> str:
    """Ask, and keep the answers under the label."""
    rows = []
    for row in prompts(subject):
        answer = asked(subject, row)
        rows.append({"question": row, "text": answer.said, "logprobs": list(answer.logprobs)})
    data = {"form": FORM, "model": subject["model"], "plain": bool(subject.get("plain")), "rows": rows,
            "about": reference.get("about", {})}  # fmt: skip
    os.makedirs(os.path.dirname(reference["path"]), exist_ok=True)
    with open(f"{reference['path']}.part", "w", encoding="utf-8") as file:
        json.dump(data, file, indent=1)
    os.replace(f"{reference['path']}.part", reference["path"])
    return f"{len(rows)} answers saved as reference {reference['label']}"


def compared(subject: dict[str, Any], known: dict[str, Any], tolerance: float) -> str:
    """Every answer equals, and no token's logprob is further off than the tolerance."""
    subject["plain"] = known["plain"]
    furthest, offered = 0.0, 0
    for row in known["rows"]:
        answer = asked(subject, row["question"])
        if answer.said != row["text"]:
            question = row["question"]["question"]
            raise RungError(f"{question[-60:]!r} -> {answer.said[:80]!r}; the reference has {row['text'][:80]!r}")
        pairs = list(zip(answer.logprobs, row["logprobs"]))  # noqa: B905 - 3.10's
        offered += len(pairs)
        furthest = max([furthest, *(abs(a - b) for a, b in pairs)])
    if furthest > tolerance:
        raise RungError(f"the answers equal, and a logprob differs by {furthest:.3f}; allowed is {tolerance:g}")
    told = f", logprobs of {offered} tokens within {furthest:.4f}" if offered else ""
    return f"{len(known['rows'])} answers equal the reference's{told}"
