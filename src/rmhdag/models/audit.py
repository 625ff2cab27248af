"""Who changed what outside of jobs, and why. Rows are only added."""

from typing import Annotated, ClassVar

from pydantic import Field

from rmhdag.models.columns import Holder, JsonObject, Message, Name, Namespace, NumberedByDatabase, Stamped, varchar
from rmhdag.models.table import Index, Row, Table

Subject = Annotated[str, varchar(400, min_length=1)]


class AuditRecord(Row):
    """`before` and `after` say what the change was, as far as that can be said shortly."""

    table: ClassVar[Table] = Table(
        name="dag_audit",
        key=("seq",),
        indexes=(Index("subject", ("namespace", "subject", "seq")), Index("list", ("namespace", "seq"))),
    )

    seq: NumberedByDatabase | None = None
    namespace: Namespace = "default"
    actor: Holder
    action: Name
    subject: Subject
    before: JsonObject = Field(default_factory=dict)
    after: JsonObject = Field(default_factory=dict)
    reason: Message | None = None
    at: Stamped
