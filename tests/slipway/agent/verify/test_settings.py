"""Effective settings against the plan, on what a real engine reported (SGLang 0.5.13 on an H200)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slipway.agent.verify.climbing import attempt
from slipway.agent.verify.settings import settings_equal

from .scripted import Answer, serving

INFO = json.loads((Path(__file__).parents[3] / "data/verify/server_info_0.5.13.json").read_text())
PLANNED = {"tp_size": 1, "context_length": 8192, "mem_fraction_static": 0.2, "attention_backend": "triton",
           "kv_cache_dtype": "auto", "enable_metrics": True, "quantization": None}  # fmt: skip


def compared(planned: dict[str, Any], path: str = "/server_info", **more: Any) -> tuple[bool, str]:
    def script(asked: str, _body: dict[str, Any], _headers: dict[str, str]) -> Answer:
        return (200, {**INFO, "api_key": "s3cret"}) if asked == path else (404, {"detail": "Not Found"})

    with serving(script) as url:
        subject = {"url": url, "timeout_s": 5, "settings": planned, "release": "0.5.13", **more}
        return attempt(settings_equal, subject, 5)


def test_as_planned() -> None:
    assert compared(PLANNED) == (True, "7 settings as planned")


def test_only_differences_are_shown() -> None:
    ok, detail = compared({**PLANNED, "tp_size": 4, "attention_backend": "fa3"})
    assert not ok
    assert detail == (
        "2 effective setting(s) differ from the plan: attention_backend is 'triton'; the plan's is 'fa3'; "
        "tp_size is 1; the plan's is 4"
    )


def test_what_may_be_secret_is_not_shown() -> None:
    ok, detail = compared({"api_key": "other"})
    assert (ok, "s3cret" in detail, "other" in detail) == (False, False, False)


@pytest.mark.parametrize(
    ("planned", "words"),
    [
        ({"disaggregation_transfer_backend": "mooncake_tcp"}, "1 settings as planned"),  # the engine's own alias
        ({"flag_of_tomorrow": 3}, "0 settings as planned; not told: flag_of_tomorrow"),
    ],
)
def test_what_the_engine_calls_otherwise(planned: dict[str, Any], words: str) -> None:
    assert compared(planned) == (True, words)


def test_a_setting_that_the_release_reports_under_another_name() -> None:
    ok, detail = compared({"cuda_graph_most": 7}, renamed={"cuda_graph_most": "cuda_graph_max_bs"})
    assert not ok
    assert f"cuda_graph_most is {INFO['cuda_graph_max_bs']}; the plan's is 7" in detail


def test_another_release() -> None:
    assert compared({}, release="0.5.14")[1] == "it is release 0.5.13; the plan's is 0.5.14"


def test_the_older_endpoint() -> None:
    assert compared(PLANNED, path="/get_server_info")[0]
