"""The simulator's profiler answers as the engine's does, and its trace has as many steps as tokens were made."""

from __future__ import annotations

from pathlib import Path

from slipway.profile import breakdown, events

from .conftest import Start
from .harness import ask, chat


def test_a_profile_from_start_to_stop(start: Start, tmp_path: Path) -> None:
    port = start().port

    assert ask(port, "/stop_profile", {}).status == 500
    assert ask(port, "/start_profile", {"output_dir": str(tmp_path / "traces")}).status == 200
    assert ask(port, "/start_profile", {}).status == 500
    made = chat(port, max_tokens=7, ignore_eos=True).json["usage"]["completion_tokens"]
    assert ask(port, "/stop_profile", {}).status == 200

    (trace,) = (tmp_path / "traces").iterdir()
    assert breakdown(events([trace.read_bytes()])).steps == (("DECODE bs=1", made),)
