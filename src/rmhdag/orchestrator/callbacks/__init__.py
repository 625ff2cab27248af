"""Telling submitters of the end of their jobs: where that may go, how it is signed, and the exchange itself."""
