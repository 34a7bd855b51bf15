"""On what the figures were measured: enough to judge them, nothing that tells whose machine it was."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path


def machine() -> dict[str, str]:
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "cpu": cpu_name(),
        "cores": str(os.cpu_count()),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": system_name(),
    }


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def system_name() -> str:
    try:
        told = platform.freedesktop_os_release()
    except OSError:
        return f"{platform.system()} {platform.release()}"
    return f"{told.get('PRETTY_NAME', platform.system())}, {platform.system()} {platform.release().split('-')[0]}"
