"""Use cases, shared by API and command line: submit, order, rerun, cancel, decide, requeue, register, callbacks."""
