"""How fast the platform is: orchestrator and worker as processes of their own, and the floor below them."""
