"""Workers: a parent that claims, supervises and reports, and children that run handlers."""
