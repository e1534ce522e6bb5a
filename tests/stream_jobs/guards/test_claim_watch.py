import math

import pytest
from confluent_kafka import KafkaError, KafkaException

from shared.errors import LeaseEndedError
from stream_jobs.guards.claim import Claim
from stream_jobs.guards.claim_watch import ClaimWatch

LEASE_S = 15.0


class Group:
    """What Kafka says of the job's claim."""

    def __init__(self) -> None:
        self.claim: Claim | None = Claim(1, "mine")
        self.is_away = False
        self.asked = 0

    def __call__(self) -> Claim | None:
        self.asked += 1
        if self.is_away:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return self.claim

    def beats(self) -> None:
        assert self.claim is not None
        self.claim = self.claim._replace(beat=self.claim.beat + 1)


def test_a_worker_works_as_long_as_its_driver_renews_the_claim() -> None:
    group = Group()
    watch = ClaimWatch("fold", "mine", group)
    for second in range(100):
        group.beats()
        watch.check(float(second), LEASE_S)
    assert group.asked == 50  # it asks every two seconds, however often it is asked itself


@pytest.mark.parametrize("why", ["its driver stands still", "Kafka is away", "no claim is there"])
def test_a_worker_stops_when_a_lease_has_passed_without_a_beat(why: str) -> None:
    group = Group()
    watch = ClaimWatch("fold", "mine", group)
    watch.check(0.0, LEASE_S)
    group.is_away = why == "Kafka is away"
    if why == "no claim is there":
        group.claim = None
    watch.check(14.0, LEASE_S)
    with pytest.raises(LeaseEndedError):
        watch.check(15.1, LEASE_S)
    group.is_away, group.claim = False, Claim(1, "mine", beat=5)
    watch.check(17.2, LEASE_S)  # it was the only one all the time


def test_a_worker_stops_at_its_next_look_when_another_driver_has_the_claim() -> None:
    group = Group()
    watch = ClaimWatch("fold", "mine", group)
    watch.check(0.0, LEASE_S)
    group.claim = Claim(2, "another")
    with pytest.raises(LeaseEndedError, match="another process"):
        watch.check(2.0, LEASE_S)
    for second in (2.1, 3.0, 60.0, math.inf):
        with pytest.raises(LeaseEndedError):
            watch.check(second, LEASE_S)


def test_a_worker_stops_when_its_driver_has_given_the_claim_back() -> None:
    group = Group()
    watch = ClaimWatch("fold", "mine", group)
    watch.check(0.0, LEASE_S)
    group.claim = Claim(1, "mine", released=True, beat=9)
    with pytest.raises(LeaseEndedError, match="has ended"):
        watch.check(2.0, LEASE_S)
