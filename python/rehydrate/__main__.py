"""`python -m rehydrate`: the command line."""

from __future__ import annotations

import sys

from rehydrate.cli import main

sys.exit(main())
