"""Pictures of a workflow: SVG for documents and the web, text for terminals, Mermaid and DOT for other tools."""
