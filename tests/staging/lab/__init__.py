"""Throw-away staging hosts: a real systemd as PID 1, sshd, a network, on one machine without containers.

Each host is a Debian userland in namespaces of its own (pid, mount, uts, ipc, cgroup, net), on an overlay
over one shared base. All hosts of a lab hang on one bridge inside the lab's own 'switch' namespace, which
is also where the controller (ssh, pyinfra) runs: the machine itself gets no address and no route.

    with Lab({"h1": "10.77.0.11", "h2": "10.77.0.12"}) as lab:
        lab["h1"].ssh("systemctl status", user="deploy")

Not a security boundary: there is no user namespace, and root inside keeps CAP_SYS_ADMIN.
"""

from tests.staging.lab.host import Host
from tests.staging.lab.lab import Lab
from tests.staging.lab.needs import missing
from tests.staging.lab.remains import leftovers, sweep

__all__ = ["Host", "Lab", "leftovers", "missing", "sweep"]
