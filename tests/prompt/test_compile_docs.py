"""docs/compile.md tells the truth: its example prints what it says."""

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "compile.md"


def test_the_example_prints_what_the_page_says():
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    expected = re.findall(r"^# (.*)$", program, re.MULTILINE)
    with redirect_stdout(StringIO()) as printed:
        exec(program, {})
    assert printed.getvalue().splitlines() == expected
