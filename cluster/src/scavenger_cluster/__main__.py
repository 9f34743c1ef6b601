"""`python -m scavenger_cluster`."""

import sys

from scavenger_cluster.cli import main

sys.exit(main())
