"""What the benchmark ran on."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path


def machine() -> dict[str, str]:
    """Names and values, for the report."""
    system = _first(Path("/etc/os-release"), r'PRETTY_NAME="?([^"\n]*)') or platform.system()
    return {
        "processor": _first(Path("/proc/cpuinfo"), r"model name\s*:\s*(.*)") or platform.machine(),
        "cores": str(os.cpu_count()),
        "memory": _memory(),
        "system": f"{system}, Linux {platform.release()}",
        "Python": platform.python_version(),
        "C compiler": _told("cc", "--version"),
        "Node": _told("node", "--version"),
    }


def _first(path: Path, pattern: str) -> str | None:
    found = re.search(pattern, path.read_text()) if path.exists() else None
    return found[1].strip() if found else None


def _memory() -> str:
    kilobytes = _first(Path("/proc/meminfo"), r"MemTotal:\s*(\d+)")
    return f"{int(kilobytes) / 2**20:.0f} GB" if kilobytes else "unknown"


def _told(program: str, option: str) -> str:
    """The first line that a program prints, or that there is none."""
    if shutil.which(program) is None:
        return "none"
    told = subprocess.run((program, option), capture_output=True, text=True, check=False).stdout
    return told.partition("\n")[0].strip()
