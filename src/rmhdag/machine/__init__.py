"""The machine that our processes share with others: whose files they trust, and what they leave open to read."""
