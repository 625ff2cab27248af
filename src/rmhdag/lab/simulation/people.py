"""Those who use the system: they submit, cancel, approve, retry and rerun, sometimes twice and at bad moments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rmhdag.engine.inputs import CancelJob, Decided, Input, RetryNode, ReusedNode, Start
from rmhdag.engine.rerun import plan_rerun
from rmhdag.lab.simulation import reads
from rmhdag.lab.simulation.actor import Actor
from rmhdag.lab.simulation.faults import Fault
from rmhdag.lab.simulation.orchestrator import Orchestrator
from rmhdag.lab.simulation.rows import CommandRow, JobRow
from rmhdag.lab.simulation.workloads import child_plans, random_workflow
from rmhdag.lab.simulation.world import World
from rmhdag.models.states import JOB_TERMINAL, JobStatus, NodeStatus


class People(Actor):
    """One actor for all of them. It neither dies nor freezes; its requests do get lost."""

    letter = "p"

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number)
        # Where nothing goes wrong there is a crowd instead: many jobs at once, cancelled at every moment and twice.
        self.is_crowd = self.faults.is_calm
        self.to_submit = self.rng.randint(6, 16) if self.is_crowd else self.rng.randint(2, 6)
        self.reruns = self.rng.choice((0, 0, 1, 2))
        self.has_plans = True
        self.asked = 0
        self.impatient: str | None = None
        world.plans.update(child_plans())
        for index in range(self.rng.randint(1, 3)):
            world.plans[f"flow{index}"] = random_workflow(self.rng, f"flow{index}")

    def live(self) -> Iterator[float]:
        while self.to_submit:
            self._submit()
            if self.is_crowd:
                self._interfere()
            yield self.rng.uniform(0.0, 0.3 if self.is_crowd else 6.0)
        self.has_plans = False
        while True:
            self._decide_approvals()
            if not self.faults.are_over:
                self._interfere()
            yield self.rng.uniform(0.01, 0.4) if self.is_crowd else self.rng.uniform(0.5, 4.0)

    def _submit(self) -> None:
        number = self.to_submit
        size = self.rng.choice((0, 1, 3, 10, 10, 25, 60))
        items = [{"key": f"k{index}", "n": index} | ({"odd": True} if index % 3 else {}) for index in range(size)]
        workflow_id = f"flow{self.rng.randrange(len(self.world.plans) - len(child_plans()))}"
        self._send(JobRow(f"job{number}", workflow_id, {"k": self.rng.randrange(100), "items": items}, f"key{number}"))
        self.to_submit -= 1

    def _send(self, job: JobRow) -> None:
        job_id = self.store.submit(job)
        if self.faults.happens(Fault.SUBMIT_UNSEEN):
            again = self.store.submit(
                JobRow(f"{job.job_id}-again", job.workflow_id, job.input_params, job.idempotency_key)
            )
            assert again == job_id
        self.world.note(self.actor_id, f"submits {job_id}: {job.workflow_id}")
        self.world.ring(lambda actor: isinstance(actor, Orchestrator))

    def _issue(self, job_id: str, job_input: Input) -> None:
        self.asked += 1
        self.world.note(self.actor_id, f"asks of {job_id}: {job_input}")
        self.store.issue(CommandRow(f"command{self.asked}", job_id, job_input))

    def _decide_approvals(self) -> None:
        for job_id, node_id in list(self.store.approvals):
            if self.rng.random() < 0.3:
                self._issue(job_id, Decided(node_id, self.rng.random() < 0.7, self.actor_id, "because"))
                if self.rng.random() < 0.2:
                    self._issue(job_id, Decided(node_id, self.rng.random() < 0.5, self.actor_id, "or not"))
                else:
                    del self.store.approvals[job_id, node_id]

    def _interfere(self) -> None:
        if self.impatient is not None and self.is_crowd:
            # Once more, perhaps while the first time is being obeyed.
            self._issue(self.impatient, CancelJob(self.actor_id, "did you hear me?"))
        self.impatient = None
        jobs = list(self.store.jobs.values())
        running = [job for job in jobs if job.status not in JOB_TERMINAL]
        job = self.rng.choice(running if running and self.rng.random() < 0.6 else jobs)
        dice = self.rng.random()
        if dice < (0.35 if self.is_crowd else 0.04):
            self._issue(job.job_id, CancelJob(self.actor_id, "on a whim"))
            self.impatient = job.job_id
        elif dice < 0.3:
            self._retry_something(job)
        elif dice < 0.6 and self.reruns and job.status in JOB_TERMINAL and job.parent_job_id is None:
            self.reruns -= 1
            self._rerun(job)

    def _retry_something(self, job: JobRow) -> None:
        rows = self.store.nodes[job.job_id].values()
        failed = [row.node_id for row in rows if row.status is NodeStatus.FAILED or row.next_attempt_at is not None]
        if failed:
            self._issue(job.job_id, RetryNode(self.rng.choice(failed), self.actor_id))

    def _rerun(self, job: JobRow) -> None:
        """A new job that takes over what the old one finished, as the engine's plan for it says."""
        rows = self.store.nodes[job.job_id]
        plan = self.world.plans[job.workflow_id]
        statuses = {node_id: row.status for node_id, row in rows.items() if row.parent_node_id is None}
        if job.status is JobStatus.CANCELLED and not rows:
            statuses = {}
        params: dict[str, Any] = dict(job.input_params)
        if self.rng.random() < 0.3:
            params["k"] = self.rng.randrange(100)
        scope = plan_rerun(plan, statuses, old_params=job.input_params, new_params=params)
        reused = {}
        for node_id in scope.reused:
            row = rows[node_id]
            output = reads.stored_output(self.store, plan, row)
            reused[node_id] = ReusedNode(row.status, row.reused_task_id or row.task_id, output)
        children = {
            node_id: {
                row.fan_out_index or 0: row.reused_task_id or row.task_id or ""
                for row in reads.children_of(self.store, job.job_id, node_id)
                if row.status is NodeStatus.COMPLETED
            }
            for node_id in scope.keeps_children
        }
        again = JobRow(f"{job.job_id}r", job.workflow_id, params, f"rerun-{job.job_id}")
        again.rerun = Start(reused, children)
        self._send(again)
