"""Runs on a host: prints what is on its disk and what its units do, so that two looks can be compared.

usage: look.py [hash]   with `hash`: the content of every file too, and access times of nothing.
"""
# Twenty thousand files are looked at, where os is several times quicker than pathlib.

import hashlib
import json
import os
import stat
import subprocess
import sys

# Other file systems, and what a host writes by itself: its log, who logged in, what sudo remembers.
LEFT_OUT = ("/proc", "/sys", "/dev", "/run", "/tmp", "/var/log", "/var/tmp", "/var/lib/systemd", "/root/.cache")


def entry(path: str, hashed: bool) -> list:
    info = os.lstat(path)
    # An overlay marks a folder when it is looked into, which changes its ctime; files keep theirs.
    changed = info.st_mtime_ns if stat.S_ISDIR(info.st_mode) else info.st_ctime_ns
    row = [info.st_mode, info.st_uid, info.st_gid, info.st_size, changed]
    if os.path.islink(path):
        row.append(os.readlink(path))
    elif hashed and os.path.isfile(path):
        with open(path, "rb") as file:
            row.append(hashlib.sha256(file.read()).hexdigest())
    return row


def disk(hashed: bool) -> dict:
    found = {}
    for folder, folders, files in os.walk("/"):
        folders[:] = [name for name in folders if os.path.join(folder, name) not in LEFT_OUT]
        for name in [*folders, *files]:
            path = os.path.join(folder, name)
            found[path] = entry(path, hashed)
    return found


def units() -> dict:
    listed = subprocess.run(
        ["systemctl", "list-unit-files", "--no-legend", "--no-pager", "slipway*"], stdout=subprocess.PIPE, text=True
    ).stdout.splitlines()
    shown = subprocess.run(
        ["systemctl", "show", "-p", "Id,ActiveState,SubState,MainPID,NeedDaemonReload,NRestarts", "slipway*"],
        stdout=subprocess.PIPE,
        text=True,
    ).stdout.split("\n\n")
    return {"files": sorted(listed), "states": sorted(block for block in shown if block.strip())}


if __name__ == "__main__":
    print(json.dumps({"disk": disk("hash" in sys.argv), "units": units()}))
