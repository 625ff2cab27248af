"""All that the first screen of the web interface shows, in one answer; it refreshes each part by a route of its own."""

from pydantic import Field

from rmhdag.models.api.api_model import ApiModel
from rmhdag.models.api.attention import Attention, Pulse
from rmhdag.models.api.jobs import JobPage
from rmhdag.models.api.metrics import ThroughputMetrics
from rmhdag.models.api.processes import WorkerList


class Dashboard(ApiModel):
    attention: Attention
    pulse: Pulse
    throughput: ThroughputMetrics
    open_jobs: JobPage = Field(
        description="Running and pending jobs, newest first; with the progress of those that run"
    )
    workers: WorkerList
