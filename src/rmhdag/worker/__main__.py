"""`python -m rmhdag.worker` is a child; a parent starts it."""

from rmhdag.worker.child import main

main()
