"""How the jobs are, and orders for them: records of a topic, which each job obeys by itself."""

from typing import Any

from clients.kafka.connect import answering
from clients.kafka.follow import whole_log
from clients.kafka.records import Outgoing
from clients.kafka.write import write_now
from desk.letters.audit import Audit, OpenBook
from desk.letters.selection import Selection
from desk.parts import GATEWAY, parts
from desk.words import statuses, told
from gateway.monitor.job_status import JobStatus
from shared.consumer_groups import DESK
from shared.flow import load_flow
from shared.published.job_orders import WHY_MAX, JobOrder, Wanted, can_be_rebuilt
from shared.settings import Settings
from shared.timestamps import now_ms, to_rfc3339
from shared.topic_names import JOB_ORDER_TOPIC

_READ_S = 30.0
_SAID = ("lag_records", "lag_s", "rows_per_s")


class NoJobError(Exception):
    """There is no job of this name."""


class BadOrderError(Exception):
    """Why it cannot be, in a sentence."""


class JobDesk:
    """KafkaAwayError where Kafka does not answer. `by`: for the audit, and for who wonders why a
    job does nothing."""

    def __init__(self, settings: Settings, open_book: OpenBook) -> None:
        self._kafka = settings.kafka
        flow = load_flow(settings.flow)
        self._jobs = [job.name for job in flow.jobs()]
        # the relay, which takes no orders, among them
        self._does = {part.name: part.does for part in parts(flow) if part.name != GATEWAY}
        self._audit = Audit(open_book)

    def all(self) -> list[dict[str, Any]]:
        words = statuses(self._kafka, self._does)
        orders = self._orders()
        return [
            {
                **_shown(job, does, words.get(job), orders.get(job)),
                "takes_orders": job in self._jobs,
            }
            for job, does in self._does.items()
        ]

    def show(self, job: str) -> dict[str, Any]:
        self._check_name(job)
        return next(one for one in self.all() if one["job"] == job)

    def pause(self, job: str, why: str, *, by: str) -> None:
        """Within a second or two it ends its query. What comes for it waits in Kafka."""
        self._check_takes_orders(job)
        stands = self._orders().get(job)
        is_rebuild = stands is not None and stands.order is Wanted.REBUILD
        self._order(job, Wanted.PAUSE, why, by, stands if is_rebuild else stands and stands.then)

    def rebuild(self, job: str, why: str, *, by: str) -> None:
        """It works, also where it was paused."""
        self._check_takes_orders(job)
        if not can_be_rebuilt(job):
            kept = ", ".join(filter(can_be_rebuilt, self._jobs))
            raise BadOrderError(
                f"{job} keeps no state that is made of topics: of this flow {kept or 'no job'} does"
            )
        self._order(job, Wanted.REBUILD, why, by)

    def resume(self, job: str, *, by: str) -> None:
        """Where it left off. One that has failed tries again."""
        self._check_takes_orders(job)
        stands = self._orders().get(job)
        then = stands.then.to_record() if stands and stands.then else None
        write_now(self._kafka, Outgoing(JOB_ORDER_TOPIC, job.encode(), then, []))
        self._note(by, "resume", job, "")

    def _order(
        self, job: str, wanted: Wanted, why: str, by: str, then: JobOrder | None = None
    ) -> None:
        if len(why) > WHY_MAX:
            raise BadOrderError(f"why: at most {WHY_MAX} characters")
        order = JobOrder(order=wanted, by=by, at_ms=now_ms(), why=why, then=then)
        write_now(self._kafka, Outgoing(JOB_ORDER_TOPIC, job.encode(), order.to_record(), []))
        self._note(by, wanted.value, job, why)

    def _note(self, by: str, what: str, job: str, why: str) -> None:
        self._audit.note(by, f"{what} job", Selection(), reason=f"{job}: {why}" if why else job)

    def _check_takes_orders(self, job: str) -> None:
        self._check_name(job)
        if job not in self._jobs:
            raise BadOrderError(f"{job} takes no orders: {', '.join(self._jobs)} do")

    def _check_name(self, job: str) -> None:
        if job not in self._does:
            raise NoJobError(f"this flow has no job {job}: {', '.join(self._does)}")

    def _orders(self) -> dict[str, JobOrder | None]:
        """None: one that no job can read, either."""
        found: dict[str, JobOrder | None] = {}
        with answering(self._kafka):
            for message in whole_log(self._kafka, DESK, [JOB_ORDER_TOPIC], _READ_S):
                job, raw = (message.key() or b"").decode(errors="replace"), message.value()
                try:
                    found[job] = None if raw is None else JobOrder.from_record(raw)
                except ValueError:
                    found[job] = None
        return found


def _shown(job: str, does: str, word: JobStatus | None, order: JobOrder | None) -> dict[str, Any]:
    return {
        "job": job,
        **told(word),
        **{name: word and word.number(name) for name in _SAID},
        "does": does,
        "can_be_rebuilt": can_be_rebuilt(job),
        "order": order
        and {**order.model_dump(exclude={"at_ms", "then"}), "at": to_rfc3339(order.at_ms)},
    }
