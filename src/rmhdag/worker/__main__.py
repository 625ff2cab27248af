"""`python -m rmhdag.worker` runs a child process; the worker's parent process starts it."""

from rmhdag.worker.child import main

main()
