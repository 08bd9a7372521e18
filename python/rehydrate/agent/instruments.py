"""Instruments: the metrics of turns, with the names and buckets of OpenTelemetry's conventions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from rehydrate.cost.prices import Usage

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter, Histogram, MeterProvider
    from opentelemetry.util.types import AttributeValue


Attributes = Mapping[str, "AttributeValue"]

_CALL_SECONDS = tuple(0.01 * 2**power for power in range(14))
_TURN_SECONDS = tuple(0.1 * 2**power for power in range(13))
_TOKENS = tuple(4**power for power in range(14))


class Instruments(NamedTuple):
    """The histograms and counters of one `Telemetry`."""

    tokens: Histogram
    durations: Mapping[str, Histogram]
    """In seconds, by the operation: chat, invoke_agent, execute_tool."""
    late_bound: Counter
    compactions: Counter
    prefix_breaks: Counter

    @classmethod
    def of(cls, provider: MeterProvider | None, version: str, schema_url: str) -> Instruments:
        """Make them; without a provider, use the program's global one."""
        from opentelemetry.metrics import get_meter

        meter = get_meter("rehydrate", version, provider, schema_url)

        def histogram(name: str, unit: str, about: str, buckets: tuple[float, ...]) -> Histogram:
            return meter.create_histogram(
                name, unit, about, explicit_bucket_boundaries_advisory=buckets
            )

        calls, turns, tokens = _CALL_SECONDS, _TURN_SECONDS, _TOKENS
        return cls(
            histogram("gen_ai.client.token.usage", "{token}", "Tokens used.", tokens),
            {
                "chat": histogram(
                    "gen_ai.client.operation.duration", "s", "A model's reply.", calls
                ),
                "invoke_agent": histogram("gen_ai.invoke_agent.duration", "s", "A turn.", turns),
                "execute_tool": histogram(
                    "gen_ai.execute_tool.duration", "s", "A tool call.", calls
                ),
            },
            meter.create_counter(
                "rehydrate.late_bound.tokens", "{token}", "Context that models asked for."
            ),
            meter.create_counter(
                "rehydrate.compactions", "{compaction}", "Histories that were made shorter."
            ),
            meter.create_counter(
                "rehydrate.prefix.breaks", "{prompt}", "Prompts that lost what was cached."
            ),
        )

    def count_tokens(self, usage: Usage, attributes: Attributes) -> None:
        """Record the tokens that a reply is billed for."""
        self.tokens.record(usage.input, {**attributes, "gen_ai.token.type": "input"})
        self.tokens.record(usage.output, {**attributes, "gen_ai.token.type": "output"})
