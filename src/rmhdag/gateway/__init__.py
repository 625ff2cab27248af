"""The gateway for business partners: reads a few views, forwards commands to the API, and shows nothing else."""
