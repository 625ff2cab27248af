"""What the models of the HTTP API have in common."""

from pydantic import BaseModel, ConfigDict


class ApiModel(BaseModel):
    """Its validator is built on first use: a command imports the models of the whole API and needs two or three."""

    model_config = ConfigDict(defer_build=True)
