"""The database's schema: what it lacks, and giving it that."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import PlatformOperator
from rmhdag.api.problems import Problem
from rmhdag.models.api.bootstrap import MigrationPlan, MigrationRefusal, MigrationStep
from rmhdag.observability.logs import get_logger
from rmhdag.store.migration_steps import MigrationFailed, MigrationRefused, MigrationSteps

router = APIRouter(prefix="/api/v1/bootstrap", tags=["bootstrap"])
log = get_logger(__name__)

# Somebody waits for the answer; a migration that goes on longer than this belongs to `rmhdag db migrate`.
GIVE_UP_SECONDS = 25.0


@router.get("/ddl")
def show_ddl(caller: PlatformOperator, api: ApiContext) -> MigrationPlan:
    """The steps of a migration as SQL. Nothing is changed."""
    # Here and below: SQLAlchemy takes half a second, and most servers are never asked.
    from rmhdag.store import migration

    return as_model(migration.plan(api.settings.owner_dsn or api.settings.dsn, api.settings.schema_name), applied=False)


@router.post("/migrate")
def migrate(
    caller: PlatformOperator,
    api: ApiContext,
    confirm: Annotated[str | None, Query(max_length=10, description="`yes`, or nothing is done")] = None,
) -> MigrationPlan:
    """Migrate the database. It only adds, and is safe to repeat, concurrently and under load."""
    if confirm != "yes":
        raise Problem(
            400,
            "not_confirmed",
            "nothing was changed: this alters the database",
            remedy="Look at `GET /api/v1/bootstrap/ddl`, then ask with `?confirm=yes`.",
            pointer="/query/confirm",
        )
    from rmhdag.store import migration

    log.info("migration_asked_for", by=caller.name)
    try:
        plan = migration.apply(
            api.settings.owner_dsn or api.settings.dsn,
            api.settings.schema_name,
            give_up_seconds=GIVE_UP_SECONDS,
            actor=caller.name,
        )
    except MigrationRefused as error:
        raise Problem(
            409,
            "migration_refused",
            "the database cannot be migrated safely, so nothing was changed",
            remedy="Each error says what to do first.",
            places=[("", str(refusal)) for refusal in error.refusals],
        ) from None
    except MigrationFailed as error:
        log.error("migration_failed", by=caller.name, error=str(error))
        raise Problem(
            503,
            "migration_failed",
            str(error),
            remedy="Repeat the call: it continues where it stopped. `rmhdag db migrate` waits longer.",
            headers={"Retry-After": "5"},
        ) from None
    return as_model(plan, applied=bool(plan.steps))


def as_model(plan: MigrationSteps, *, applied: bool) -> MigrationPlan:
    return MigrationPlan(
        schema_name=plan.schema,
        up_to_date=applied or plan.is_empty,
        applied=applied,
        steps=[MigrationStep(title=step.title, statements=list(step.statements)) for step in plan.steps],
        refusals=[
            MigrationRefusal(what=refusal.what, where=refusal.where, why=refusal.why, remedy=refusal.remedy)
            for refusal in plan.refusals
        ],
        notices=list(plan.notices),
        sql=plan.render(),
    )
