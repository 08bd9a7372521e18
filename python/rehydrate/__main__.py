"""`python -m rehydrate`: the command line."""

import sys

from rehydrate.cli import main

sys.exit(main())
