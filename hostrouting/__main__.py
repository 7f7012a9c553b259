"""`python -m hostrouting`: the command line."""

import sys

from hostrouting.cli import main

sys.exit(main())
