"""What goes over HTTP, as models: the API, the client and the command line use the same ones."""
