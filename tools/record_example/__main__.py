"""Record examples/session.jsonl: `python tools/record_example -o examples/session.jsonl`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parents[1]


def main() -> int:
    """Record the session; exit 1, naming the step, where the code no longer answers as scripted."""
    sys.path.insert(0, str(HERE.parent))
    from record_example.recorder import RecordingError, record
    from record_example.script import SCRIPT
    from record_example.workshop import Workshop

    parser = argparse.ArgumentParser(prog="record_example", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--source", type=Path, default=CHECKOUT, help="the repository to clone")
    parser.add_argument("--commit", default="HEAD", help="where the session starts")
    parser.add_argument(
        "--target-dir",
        type=Path,
        default=CHECKOUT / "target" / "record_example",
        help="cargo's, kept between recordings",
    )
    options = parser.parse_args()

    def progress(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    try:
        with Workshop.cloned(
            options.source.resolve(),
            options.commit,
            target_dir=options.target_dir.resolve(),
            progress=progress,
        ) as workshop:
            text = record(SCRIPT, workshop, progress=progress)
    except RecordingError as error:
        progress(f"record_example: {error}")
        return 1
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(text, encoding="utf-8")
    progress(f"wrote {options.output}: {text.count(chr(10))} lines, {len(text.encode()):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
