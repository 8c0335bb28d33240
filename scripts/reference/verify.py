"""docs/reference/verify.md: every rung of the ladder."""

from __future__ import annotations

from slipway.verify.rungs import rung_rows
from slipway.verify.sets import built_in

PATH = "docs/reference/verify.md"
PLACES = {
    "worker": "the worker's host", "decode": "each decode's host", "router": "the router's host",
    "again": "the worker's host, after the load", "controller": "the controller", "logs": "each instance's host, last",
}  # fmt: skip
HEAD = """\
# The verification ladder

Made by `make docs` from `slipway/verify/rungs.yml`; edit that, not this page.

Climbed at the end of every deploy, and alone by `pyinfra -y INVENTORY playbooks/verify.py`, which exits 1 when a rung
does not hold. Each rung presumes those above it here: the first that does not hold ends the climb of its instance,
others go on, and what goes through the router is asked when all workers hold. Results are printed as a table and kept
as JSON in the deployment's folder on the router's host (`verified.json`), and on the controller in the file that
`verify.json` names.

`verify.rungs` says what a rung does that does not hold (`fail`, `warn`, or `skip`: it is not climbed),
`verify.limits_s` how long it may take. Light rungs are climbed after each step of a rollout too.
"""
TAIL = """\
## Known answers

A set is a YAML file; the built-in ones are {sets}. Sets of your own go to
`answers/` beside the inventory and are used for the checkpoints that `models` fits, or are named in
`verify.known_answers`. A checkpoint may bring along its own in `known_answers.yml`.

```yaml
set: my-model
models: ["*my-model*"]        # names of checkpoints, as patterns
answers:
  - {{question: "What is 17*23? Answer with the number only.", expect: "391", match: number}}
  - {{question: "Name the capital of France.", expect: "paris", match: contains, max_tokens: 64}}
```

`match` is `exact` (the default), `number` (the last number said), `regex` (found anywhere) or `contains` (whatever the
case); thinking before the answer is left out. `max_tokens`, `system` and `prompt` (for models without a chat template)
may be given per question.

`verify.accuracy.file` adds a gate by a set of yours, one JSON object a line as in gsm8k: `{{"question": ..., "answer":
"... #### 18"}}`.

## Disaggregated equals aggregated

`--data verify.save_reference=aggregated` keeps this run's answers and logprobs on the router's host;
`--data verify.reference=aggregated` compares another deployment of that host with them, text by text, and
logprobs within `verify.reference_tolerance`.
"""


def text() -> str:
    """The page."""
    rows = [
        f"| `{row.name}` | {PLACES[row.where]} | {row.level}{', light' if row.light else ''} | {row.limit_s} | "
        f"{row.proves} |"
        for row in rung_rows()
    ]
    sets = ", ".join(f"`{one.name}` ({len(one.rows)} questions)" for one in built_in())
    head = ["| rung | climbed on | when it fails | limit (s) | proves that |", "| --- | --- | --- | --- | --- |"]
    return "\n".join([HEAD, *head, *rows, "", TAIL.format(sets=sets)])
