"""A language model under a budget: calls wait their turn, and a provider's "too many" slows everybody."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.errors import Unavailable
from pipeline.fleet_ports import Governor
from pipeline.models import CatalogModel, ModelReply, ModelRequest, Price, Tier, TokenUsage
from pipeline.ports import Clock, LanguageModel

WAIT_MAX_S = 10.0
"""Longer waits are the driver's: it lets the unit rest, and its worker do something else."""
CHARS_PER_TOKEN = 4
"""For what a prompt will cost before the provider has counted."""


class GovernedModel:
    """Port `LanguageModel` around another one."""

    def __init__(self, inner: LanguageModel, governor: Governor, clock: Clock, prices: Mapping[str, Price]) -> None:
        """Calls of `inner`, each admitted by `governor`."""
        self._inner, self._governor, self._clock, self._prices = inner, governor, clock, prices

    @property
    def deterministic(self) -> bool:
        """As the inner one's."""
        return self._inner.deterministic

    def model(self, tier: Tier) -> str:
        """As the inner one's."""
        return self._inner.model(tier)

    def catalog(self) -> tuple[CatalogModel, ...]:
        """As the inner one's."""
        return self._inner.catalog()

    def answer(self, request: ModelRequest) -> ModelReply:
        """One call, once the budget allows it.

        Raises:
            Unavailable: code `over_rate`: it would have to wait for longer than is worth a worker's place.
        """
        expected = TokenUsage(
            prompt=(len(request.system) + len(request.prompt)) // CHARS_PER_TOKEN, completion=request.max_tokens // 2
        )
        costs = self._costs(expected, request.tier)
        self._wait(costs)
        try:
            reply = self._inner.answer(request)
        except Unavailable as error:
            if error.retry_after_ms is not None:
                self._governor.too_many(error.retry_after_ms / 1000)
            raise
        actual = self._costs(reply.usage, request.tier)
        self._governor.settle({name: actual[name] - costs[name] for name in costs if name != "requests"})
        return reply

    def close(self) -> None:
        """Release what both hold."""
        self._governor.close()
        close = getattr(self._inner, "close", None)
        if close is not None:
            close()

    def _wait(self, costs: Mapping[str, float]) -> None:
        waited = 0.0
        while (wait := self._governor.admit(costs)) > 0:
            if waited + wait > WAIT_MAX_S:
                raise Unavailable(
                    "over_rate",
                    f"the budget of the language model is used up for another {wait:.0f} s",
                    remedy="nothing to do: it goes on by itself; or raise the limits in the settings' section rates",
                    retry_after_ms=int(wait * 1000),
                )
            self._clock.sleep(wait)
            waited += wait

    def _costs(self, usage: TokenUsage, tier: Tier) -> dict[str, float]:
        price = self._prices.get(tier)
        money = price.cost(usage.prompt, usage.completion) if price else 0.0
        return {"requests": 1.0, "tokens": float(usage.prompt + usage.completion), "money": money}
