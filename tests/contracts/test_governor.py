"""The contract of port `Governor`, for every adapter; what a fleet shares, and what a governed model does with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fleet_processes import Broker

from pipeline.adapters.governor_local import LocalGovernor
from pipeline.adapters.governor_redis import RedisGovernor
from pipeline.adapters.memory import VirtualClock
from pipeline.adapters.model_extractive import ExtractiveModel
from pipeline.adapters.model_governed import GovernedModel
from pipeline.artifacts.tasks import request
from pipeline.errors import Unavailable
from pipeline.models import DocumentTask, ModelReply, ModelRequest, Price, TokenUsage, TypeSpec
from pipeline.rates import Budget

BUDGET = Budget({"requests": 60.0})
ASKED = request(DocumentTask("T", "Some text.", TypeSpec("summary", "summary")), "lite", 100)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    made = Broker()
    yield made
    made.close()


def used_up(governor: Any) -> int:
    """Calls admitted at one moment."""
    for n in range(1000):
        if governor.admit({"requests": 1.0}) > 0:
            return n
    raise AssertionError


class GovernorContract:
    def make(self, clock: VirtualClock, broker: Broker) -> Any:
        raise NotImplementedError

    @pytest.fixture
    def clock(self) -> VirtualClock:
        return VirtualClock()

    @pytest.fixture
    def governor(self, clock: VirtualClock, broker: Broker) -> Iterator[Any]:
        broker.flush()
        made = self.make(clock, broker)
        yield made
        made.close()
        made.close()

    def test_the_limit_holds_and_comes_back(self, governor: Any, clock: VirtualClock) -> None:
        assert used_up(governor) == 10
        wait = governor.admit({"requests": 1.0})
        assert wait == pytest.approx(1.0)
        clock.advance(wait)
        assert governor.admit({"requests": 1.0}) == 0

    def test_what_was_not_needed_is_given_back(self, governor: Any) -> None:
        assert used_up(governor) == 10
        governor.settle({"requests": -3.0})
        assert used_up(governor) == 3

    def test_everybody_waits_as_the_provider_asks(self, governor: Any, clock: VirtualClock) -> None:
        governor.too_many(30.0)
        assert governor.admit({"requests": 1.0}) == pytest.approx(30.0)
        clock.advance(30.5)
        assert governor.admit({"requests": 1.0}) == 0


class TestLocalGovernor(GovernorContract):
    def make(self, clock: VirtualClock, broker: Broker) -> Any:
        del broker
        return LocalGovernor(BUDGET, clock)


class TestRedisGovernor(GovernorContract):
    def make(self, clock: VirtualClock, broker: Broker) -> Any:
        return RedisGovernor(broker.url, "model:x", BUDGET, clock, processes=5)

    def test_a_fleet_shares_one_budget(self, governor: Any, clock: VirtualClock, broker: Broker) -> None:
        other = self.make(clock, broker)
        assert used_up(governor) + used_up(other) == 10
        other.too_many(20.0)
        assert governor.admit({"requests": 1.0}) == pytest.approx(20.0)
        other.close()

    def test_another_key_has_another_budget(self, governor: Any, clock: VirtualClock, broker: Broker) -> None:
        other = RedisGovernor(broker.url, "model:y", BUDGET, clock, processes=5)
        assert used_up(governor) == used_up(other) == 10
        other.close()

    def test_without_redis_each_process_takes_a_small_share(self, clock: VirtualClock) -> None:
        """Stricter, not looser: five processes together stay within the limit."""
        away = RedisGovernor("redis://127.0.0.1:9/0", "model:x", BUDGET, clock, processes=5)
        assert used_up(away) == 2
        away.close()

    def test_a_flush_forgets_no_more_than_one_bucket(self, governor: Any, broker: Broker) -> None:
        assert used_up(governor) == 10
        broker.flush()
        assert used_up(governor) == 10


class Provider(ExtractiveModel):
    """Answers, or asks to wait."""

    def __init__(self) -> None:
        self.refuse: float | None = None
        self.calls = 0

    def answer(self, request: ModelRequest) -> ModelReply:
        assert request is ASKED
        self.calls += 1
        if self.refuse is not None:
            raise Unavailable("rate", "too many", retry_after_ms=int(self.refuse * 1000))
        return ModelReply('{"title": "T", "body": "B"}', "stop", TokenUsage(10, 5), "provider")


class TestGovernedModel:
    def make(self, **limits: float) -> tuple[GovernedModel, Provider, VirtualClock]:
        clock, provider = VirtualClock(), Provider()
        governor = LocalGovernor(Budget(limits), clock)
        return GovernedModel(provider, governor, clock, {"lite": Price(1_000_000.0, 1_000_000.0)}), provider, clock

    def test_calls_wait_their_turn(self) -> None:
        model, provider, clock = self.make(requests=60.0)
        began = clock.now()
        for _ in range(15):
            model.answer(ASKED)
        assert provider.calls == 15
        assert clock.now() - began == pytest.approx(5.0), "ten at once, then one a second"

    def test_a_long_wait_is_the_drivers(self) -> None:
        """It would hold a worker's place: the call isn't made, and says when it may be."""
        model, provider, _ = self.make(requests=1.0)
        model.answer(ASKED)
        with pytest.raises(Unavailable) as caught:
            model.answer(ASKED)
        assert (caught.value.code, provider.calls) == ("over_rate", 1)
        assert caught.value.retry_after_ms is not None
        assert caught.value.retry_after_ms > 10_000

    def test_a_refusal_slows_everybody(self) -> None:
        model, provider, clock = self.make(requests=6000.0)
        provider.refuse = 8.0
        with pytest.raises(Unavailable):
            model.answer(ASKED)
        provider.refuse = None
        began = clock.now()
        model.answer(ASKED)
        assert clock.now() - began == pytest.approx(8.0)

    def test_money_counts_as_it_is_billed(self) -> None:
        """Fifteen tokens at one each: what the estimate took too much is given back."""
        model, provider, clock = self.make(money=6000.0)
        began = clock.now()
        for _ in range(60):
            model.answer(ASKED)
        assert provider.calls == 60
        assert clock.now() - began < 60 * 15 / 100 + 5
