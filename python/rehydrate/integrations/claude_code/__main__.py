"""`python -m rehydrate.integrations.claude_code EVENT [AGENT]`: one hook.

Run as a module, not as a file: where the package is gone, Python exits with 1, which an agent
passes over. For a file that is gone it exits with 2, which would block the user's prompt.
"""

import sys
import time

from rehydrate.integrations.claude_code.hook import main

if __name__ == "__main__":
    main(sys.argv[1:], time.monotonic())
