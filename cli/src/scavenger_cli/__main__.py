"""`python -m scavenger_cli` is `kubectl sj`."""

from scavenger_cli.main import main

main()
