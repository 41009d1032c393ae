"""What ``/metrics`` shows, in Prometheus' format."""

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headway.server.link import ModelProcess

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    def __init__(self, process: ModelProcess):
        self.registry = CollectorRegistry()
        own: Any = {"registry": self.registry, "namespace": "headway"}
        self.requests = Counter("requests", "Requests answered.", ("route", "status"), **own)
        self.seconds = Histogram("request_seconds", "Until an answer was complete.", ("route",), buckets=SECONDS, **own)
        self.first = Histogram("first_token_seconds", "Until the first token was there.", buckets=SECONDS, **own)
        self.tokens = Counter("tokens", "Tokens read and written.", ("kind",), **own)
        self.registry.register(OfTheModelProcess(process))

    def render(self) -> bytes:
        return generate_latest(self.registry)


class OfTheModelProcess(Collector):
    def __init__(self, process: ModelProcess):
        self.process = process

    def collect(self) -> Iterator[Metric]:
        process, counts = self.process, self.process.counts
        yield GaugeMetricFamily("headway_up", "Whether the model process answers.", process.ready)
        yield CounterMetricFamily("headway_restarts", "How often it was started again.", process.restarts)
        yield GaugeMetricFamily("headway_open_requests", "Requests without a complete answer.", len(process.tickets))
        yield GaugeMetricFamily("headway_writing", "Texts being written.", counts["writing"])
        yield GaugeMetricFamily("headway_waiting", "Texts and requests that wait.", counts["waiting"])
        yield GaugeMetricFamily(
            "headway_shared_tokens", "Tokens of prompts that were not read again.", counts["shared_tokens"]
        )
