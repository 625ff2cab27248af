"""The schema of the database over HTTP."""

from __future__ import annotations

from pydantic import BaseModel, Field


class MigrationStep(BaseModel):
    title: str
    statements: list[str]


class MigrationRefusal(BaseModel):
    what: str
    where: str
    why: str
    remedy: str


class MigrationPlan(BaseModel):
    """What the database lacks, or what it was given."""

    schema_name: str
    up_to_date: bool
    applied: bool = Field(description="The steps were taken by this call")
    steps: list[MigrationStep]
    refusals: list[MigrationRefusal] = Field(description="With any of these, no step is taken")
    notices: list[str] = Field(description="What is there beyond the models, and left alone")
    sql: str = Field(description="The steps as a script for people")
