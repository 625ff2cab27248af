"""The schema of the database over HTTP."""

from pydantic import Field

from rmhdag.models.api.api_model import ApiModel


class MigrationStep(ApiModel):
    title: str
    statements: list[str]


class MigrationRefusal(ApiModel):
    what: str
    where: str
    why: str
    remedy: str


class MigrationPlan(ApiModel):
    """What the database lacks, or what it was given."""

    schema_name: str
    up_to_date: bool
    applied: bool = Field(description="The steps were taken by this call")
    steps: list[MigrationStep]
    refusals: list[MigrationRefusal] = Field(description="With any of these, no step is taken")
    notices: list[str] = Field(description="Objects that the models do not have; they are left alone")
    sql: str = Field(description="The steps as a script for people")
