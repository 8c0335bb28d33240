"""The table of docs/guides/patches.md is what really comes out of its cases; `python -m tests.patches.test_guide`."""

from pathlib import Path

from slipway.agent.patch_tree import PatchError, apply_patch
from tests.slipway.patching.diffs import numbered, overlay, patch

GUIDE = Path(__file__).parents[2] / "docs/guides/patches.md"
START, END = "<!-- cases -->\n", "<!-- /cases -->"
HUNKS = """\
@@ -3,5 +3,5 @@
 line 3
 line 4
-line 5
+fifth
 line 6
 line 7
@@ -28,5 +28,5 @@
 line 28
 line 29
-line 30
+thirtieth
 line 31
 line 32
"""
DIFF = "--- a/python/pkg/a.py\n+++ b/python/pkg/a.py\n" + HUNKS
PLAIN = numbered(40)
DONE = numbered(40, l5="fifth", l30="thirtieth")
CASES = {
    "the release is as the patch expects it": (PLAIN, DIFF),
    "lines were added before": ("new\n" * 7 + PLAIN, DIFF),
    "the release holds the patch": (DONE, DIFF),
    "the release holds one of two hunks": (numbered(40, l5="fifth"), DIFF),
    "a line was changed since": (numbered(40, l31="other"), DIFF),
    "the file is not there": (None, DIFF),
    "the diff is of another repository": (PLAIN, DIFF.replace("python/pkg", "vllm")),
    "the diff is empty": (PLAIN, ""),
    "an HTML page came instead": (PLAIN, "<!DOCTYPE html><html></html>"),
    "the diff was cut": (PLAIN, DIFF[:-12]),
    "the diff leads out of the tree": (PLAIN, DIFF.replace("python/pkg", "../pkg")),
    "the diff names an absolute path": (PLAIN, DIFF.replace("a/python", "/etc").replace("b/python", "/etc")),
    "a binary file of the package": (
        PLAIN,
        "diff --git a/python/pkg/x b/python/pkg/x\nBinary files a/x and b/x differ\n",
    ),
    "the diff has CRLF throughout": (PLAIN, DIFF.replace("\n", "\r\n")),
    "the file has CRLF": (PLAIN.replace("\n", "\r\n"), DIFF),
}


def outcome(content: str | None, text: str) -> str:
    tree = overlay({} if content is None else {"pkg/a.py": content})
    try:
        applied = apply_patch(tree, patch(text))
    except PatchError as error:
        assert tree.changes == {}
        words = " ".join(str(error).split())
        return f"refused: {words.partition(': ')[2] if words.startswith('patch pr-1: ') else words}"
    return (
        ", ".join([applied.state, *applied.moved]) if applied.state == "applied" else "contained: skipped, and told so"
    )


def table() -> str:
    rows = [f"| {name} | {outcome(*case)} |" for name, case in CASES.items()]
    return "\n".join(["| case | outcome |", "| --- | --- |", *rows]) + "\n"


def test_the_guide_s_table_is_what_comes_out():
    assert table() in GUIDE.read_text(), "run: python -m tests.patches.test_guide"


if __name__ == "__main__":
    text = GUIDE.read_text()
    before, _, rest = text.partition(START)
    GUIDE.write_text(f"{before}{START}{table()}{END}{rest.partition(END)[2]}")
