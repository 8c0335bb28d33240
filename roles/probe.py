"""Runs one of the single-file agent programs on a host, leaving nothing there: one execution, one JSON answer."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

from pyinfra.api import FactBase, FactProcessError, QuoteString, StringCommand

from slipway.bundle import agent_source

_LOADER = "import base64,sys,zlib;exec(compile(zlib.decompress(base64.b64decode(sys.argv.pop(1))),'agent','exec'))"


def inline(program: str) -> list[str]:
    """The command line that runs a single-file program from its source."""
    packed = base64.b64encode(zlib.compress(agent_source(program).encode(), 9)).decode()
    return ["python3", "-c", _LOADER, packed]


class Probe(FactBase[dict[str, Any]]):
    """What `slipway/agent/PROGRAM.py` answers to a request, read from the host."""

    @staticmethod
    def default() -> dict[str, Any]:
        """Nothing is known."""
        return {}

    def command(self, program: str, request: str = "{}") -> StringCommand:
        """One execution of the host's own python3."""
        return StringCommand(*(QuoteString(word) for word in [*inline(program), request]))

    def process(self, output: list[str]) -> dict[str, Any]:
        """The JSON on the last line."""
        try:
            answer: dict[str, Any] = json.loads(output[-1])
        except (ValueError, IndexError) as error:
            raise FactProcessError(f"the probe did not answer in JSON: {output[-1:]!r}") from error
        return answer
