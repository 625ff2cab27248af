"""The vocabulary: rows, messages, enums and transition tables. Imports nothing of ours."""
