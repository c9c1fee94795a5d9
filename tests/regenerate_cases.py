"""`python -m tests.regenerate_cases`: writes the goldens of `cases/` anew. Read the difference before keeping it."""

from __future__ import annotations

import sys

from tests.case_files import CASES, goldens


def main() -> None:
    written = removed = 0
    for case in CASES:
        wanted = {golden.path: golden.content for golden in goldens(case)}
        for path in (*case.folder.glob("*.to-*"), *wanted):
            if path not in wanted:
                path.unlink()
                removed += 1
            elif not path.exists() or path.read_bytes() != wanted[path]:
                path.write_bytes(wanted[path])
                written += 1
    sys.stdout.write(f"{written} written, {removed} removed\n")


if __name__ == "__main__":
    main()
