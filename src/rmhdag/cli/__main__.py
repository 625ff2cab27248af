"""`python -m rmhdag.cli` is the command `rmhdag`."""

from rmhdag.cli.main import main

main()
