"""Which program this is, and how it stood its tests, over HTTP."""

from datetime import date

from pydantic import Field

from rmhdag.models.api.api_model import ApiModel


class Campaign(ApiModel):
    """What one chaos campaign did to real processes, and what its checker found afterwards."""

    version: str = Field(description="Of the program that was tested")
    date: date
    command: str = Field(description="Repeats the same faults; moments differ")
    minutes: float
    jobs: int
    tasks: int
    kills: int = Field(description="Processes that were killed without warning")
    freezes: int = Field(description="Processes that were stopped and went on later")
    freezes_past_lease: int = Field(description="Of these, those that woke when others had taken their work over")
    freezes_in_transaction: int = Field(description="Of these, those between BEGIN and COMMIT")
    database_restarts: int
    other_faults: int = Field(
        description="Connections that were cut, half-open, delayed or ended, and departures in good order"
    )
    lost: int = Field(description="Work that vanished, or was called completed without a result")
    doubled: int = Field(description="Work that was completed twice")
    stuck: int = Field(description="Jobs that did not end within two minutes after the last fault")
    late: int = Field(description="All other violations, above all what came too late")


class DeathTimes(ApiModel):
    """How long it took to notice one death or departure, while nothing else went wrong; in seconds."""

    what: str
    samples: int
    p50_seconds: float
    p99_seconds: float
    max_seconds: float
    limit: str = Field(description="What was asked for")


class ChaosResults(ApiModel):
    campaigns: list[Campaign] = Field(description="The last ones before this version was made")
    deaths: list[DeathTimes]


class About(ApiModel):
    """The program, and its last chaos campaigns. They come with the program: no campaign ran on this installation."""

    version: str = Field(description="Of the API")
    process_versions: list[str] = Field(description="Of the workers and orchestrators that are alive")
    chaos: ChaosResults
