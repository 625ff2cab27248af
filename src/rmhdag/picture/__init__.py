"""Pictures of a workflow: its layout, and its drawing as SVG, terminal text, Mermaid and DOT."""
