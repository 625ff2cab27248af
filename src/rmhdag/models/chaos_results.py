"""The results of the last chaos campaigns, which ship with the program. Tables of docs/reliability.md are made from
them; this prints both:

    python -m rmhdag.models.chaos_results

`rmhdag chaos --record FILE` adds a campaign.
"""

from __future__ import annotations

from pathlib import Path

from rmhdag.models.api.about import Campaign, ChaosResults

FILE = Path(__file__).with_name("chaos_results.json")


def read_results(file: Path = FILE) -> ChaosResults:
    return ChaosResults.model_validate_json(file.read_bytes())


def add_campaign(file: Path, campaign: Campaign) -> None:
    """An earlier one by the same command is replaced."""
    results = read_results(file) if file.exists() else ChaosResults(campaigns=[], deaths=[])
    others = [other for other in results.campaigns if other.command != campaign.command]
    results = ChaosResults(campaigns=[*others, campaign], deaths=results.deaths)
    file.write_text(results.model_dump_json(indent=2) + "\n", encoding="utf-8")


def render_campaigns(results: ChaosResults) -> str:
    freezes = "freezes, of these past the lease, and between BEGIN and COMMIT"
    verdict = "lost / doubled / stuck / late"
    lines = [
        f"| command | jobs, tasks | kills | {freezes} | database restarts | other faults | {verdict} |",
        "|---|---|---|---|---|---|---|",
    ]
    for campaign in results.campaigns:
        has_faults = campaign.kills + campaign.freezes + campaign.database_restarts > 0
        freezes = f"{campaign.freezes}, {campaign.freezes_past_lease}, {campaign.freezes_in_transaction}"
        faults = [str(campaign.kills), freezes, str(campaign.database_restarts)] if has_faults else ["–", "–", "–"]
        others = f"{campaign.other_faults}" if has_faults else f"{campaign.other_faults} departures in good order"
        verdict = f"{campaign.lost} / {campaign.doubled} / {campaign.stuck} / {campaign.late}"
        cells = [f"`{campaign.command}`", f"{campaign.jobs:,}, {campaign.tasks:,}", *faults, others, verdict]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def render_deaths(results: ChaosResults) -> str:
    lines = ["| | samples | p50 | p99 | max | wanted |", "|---|---|---|---|---|---|"]
    for death in results.deaths:
        figures = f"{death.p50_seconds} | {death.p99_seconds} | {death.max_seconds}"
        lines.append(f"| {death.what} | {death.samples} | {figures} | {death.limit} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(render_campaigns(read_results()))
    print(render_deaths(read_results()), end="")
