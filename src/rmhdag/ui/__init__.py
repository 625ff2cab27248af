"""The web interface's files: the page that starts it, and the bundle that `scripts/build-ui` makes from `ui/`"""
