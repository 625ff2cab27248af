"""Orders of platforms: submit, and how they stand."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Response

from rmhdag.api.context import ApiContext, Conn
from rmhdag.api.identity import Reader, Submitter
from rmhdag.api.input_checks import with_checks
from rmhdag.api.problems import Problem, callback_refused, not_found
from rmhdag.api.routes.jobs import (
    REPEAT,
    SOURCE,
    KeyHeader,
    check_submitter,
    invalid_parameters,
    is_id,
    known_workflows,
    one_key,
    say_repeated,
    unfit_workflow,
    unknown_workflow,
    workflow_retired,
)
from rmhdag.api.views.assets import accepted, read_request
from rmhdag.assets.identity import InvalidReferences
from rmhdag.assets.revisions import AssetConflict
from rmhdag.models.api.assets import OrderAccepted, RequestView, WorkOrderBody
from rmhdag.orchestrator.callbacks.destinations import CallbackRefused
from rmhdag.orchestrator.fitness import UnfitWorkflowError
from rmhdag.orchestrator.requests import (
    NoAssetError,
    Ordered,
    OtherRequestError,
    PlatformMissingError,
    WorkOrder,
    order,
)
from rmhdag.orchestrator.submissions import Completion, RetiredWorkflowError, UnknownWorkflowError
from rmhdag.workflow import InvalidInputs

router = APIRouter(prefix="/api/v1", tags=["assets"])

RequestName = Annotated[str, Path(description="The id of a request", examples=["5f0c6a52-8d0f-4c38-9a5e-0b1f7a3c2d1e"])]
ACCEPTED: dict[int | str, dict[str, Any]] = {200: {"model": OrderAccepted, **REPEAT[200]}}


@router.post("/submit", status_code=201, responses=ACCEPTED)
def submit_request(
    body: WorkOrderBody, caller: Submitter, api: ApiContext, response: Response, key: KeyHeader = None
) -> OrderAccepted:
    """Order work for a platform: request, asset, revision and job come to be together. 409 if the asset is being
    processed with other parameters.
    """
    api.submit_rate.take(caller.rate_name, 1)
    api.quotas.admit_jobs(caller.namespace, [body.input_params], [body.priority])
    check_submitter(caller, body.submitted_by)
    given = body.model_dump(exclude={"submitted_by", "idempotency_key"})
    wanted = WorkOrder(
        **given,
        submitted_by=body.submitted_by or caller.name,
        client_id=caller.name,
        idempotency_key=one_key(body.idempotency_key, key),
    )

    def make(conn: Conn, complete: Completion) -> Ordered:
        try:
            return order(
                conn,
                wanted,
                namespace=caller.namespace,
                platforms=api.settings.platforms,
                callback_rules=api.settings.callbacks.rules,
                source_app=SOURCE,
                complete=complete,
            )
        except UnknownWorkflowError:
            known = known_workflows(conn, caller.namespace)
            raise unknown_workflow(known(), body.workflow_id, None) from None
        except UnfitWorkflowError as error:
            raise unfit_workflow(error) from None
        except RetiredWorkflowError as error:
            raise workflow_retired(error) from None
        except InvalidInputs as error:
            raise invalid_parameters(error) from None
        except CallbackRefused as error:
            raise callback_refused(error, "/callback_url") from None
        except InvalidReferences as error:
            what = str(error) if len(error.problems) == 1 else f"{len(error.problems)} references are wrong"
            raise Problem(422, "invalid_references", what, places=error.problems) from None
        except PlatformMissingError as error:
            raise Problem(422, "platform_missing", str(error), pointer="/platform_id") from None
        except NoAssetError as error:
            raise Problem(422, "no_asset", str(error), pointer="/platform_refs") from None
        except OtherRequestError as error:
            raise Problem(422, "request_reused", str(error), pointer="/request_id") from None
        except AssetConflict as error:
            raise conflict(error) from None

    ordered = with_checks(api, caller.namespace, make)
    if ordered.is_repeat:
        say_repeated(response)
    return accepted(ordered.request)


@router.get("/requests/{request_id}")
def get_request(request_id: RequestName, caller: Reader, api: ApiContext) -> RequestView:
    """How an order stands: its status, result or error, and how far it is."""
    with api.connection() as conn:
        found = read_request(conn, caller.namespace, request_id) if is_id(request_id) else None
    if found is None:
        raise not_found(f"request {request_id!r}")
    return found


def conflict(error: AssetConflict) -> Problem:
    return Problem(409, error.code, str(error), remedy=error.remedy)
