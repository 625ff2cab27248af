"""How processes hear that there is work: doorbells over rows that are found by polling anyway."""
