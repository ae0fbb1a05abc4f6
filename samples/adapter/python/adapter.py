"""Serves the services of a JSON file to control planes, as configuration over xDS.

docs/ADAPTERS.md explains adapters, and lists what this sample does not have.
"""

import argparse
import asyncio
import json
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import grpc
from envoy.service.discovery.v3 import ads_pb2_grpc
from envoy.service.discovery.v3.discovery_pb2 import DeltaDiscoveryResponse, DiscoveryResponse

from entries import Resources, convert

MAX_TYPES = 100  # types that one stream may subscribe to; control planes have about 20

log = logging.getLogger(__name__)


class State:
    """The resources, which all streams share."""

    def __init__(self) -> None:
        self.resources: Resources | None = None  # None until the file was read
        self.version = 0
        self.streams: set[asyncio.Event] = set()  # set at each change

    def replace(self, resources: Resources) -> None:
        """Replaces all resources and wakes the streams."""
        self.resources = resources
        self.version += 1
        for changed in self.streams:
            changed.set()


@dataclass
class Subscription:
    """What a client has of one type."""

    has: dict[str, str]  # versions by name; not used by the state-of-the-world variant
    due: bool = True  # an answer is owed, even if it is empty
    version: int = 0  # of the state that was sent last
    nonce: int = 0


Context = grpc.aio.ServicerContext
Respond = Callable[[str, Subscription], Any]


class Discovery(ads_pb2_grpc.AggregatedDiscoveryServiceServicer):
    """Serves a State in both variants of xDS.

    Clients receive all ServiceEntries, whatever names they subscribe to: control planes need all. Other
    types have no resources, but each first request is answered, because control planes wait for that.
    """

    def __init__(self, state: State) -> None:
        self.state = state

    async def DeltaAggregatedResources(self, request_iterator: AsyncIterator, context: Context) -> None:
        """Serves the incremental variant."""
        await self.serve(request_iterator, context, self.new_delta)

    async def StreamAggregatedResources(self, request_iterator: AsyncIterator, context: Context) -> None:
        """Serves the state-of-the-world variant."""
        await self.serve(request_iterator, context, self.new_full)

    async def serve(self, requests: AsyncIterator, context: Context, respond: Respond) -> None:
        """Sends what is due after each request and each change, until the client ends the stream.

        A client that does not read delays only this stream, and receives the newest state later.
        """
        subscribed: dict[str, Subscription] = {}
        changed = asyncio.Event()
        reader = asyncio.create_task(subscribe_all(requests, subscribed, changed))
        reader.add_done_callback(lambda _: changed.set())
        self.state.streams.add(changed)
        try:
            while not reader.done():
                changed.clear()
                for type_url, subscription in list(subscribed.items()):
                    response = respond(type_url, subscription)
                    if response is not None:
                        await context.write(response)
                await changed.wait()
            await reader  # raises its error
        finally:
            self.state.streams.discard(changed)
            reader.cancel()

    def new_delta(self, type_url: str, subscription: Subscription) -> DeltaDiscoveryResponse | None:
        """Returns the difference to what the client has, or None if there is none and no answer is owed."""
        response = DeltaDiscoveryResponse(type_url=type_url, system_version_info=str(self.state.version))
        if is_service_entry(type_url):
            resources = self.state.resources
            if resources is None:
                return None
            has = subscription.has
            response.resources.extend(r for name, r in resources.items() if has.get(name) != r.version)
            response.removed_resources.extend(name for name in has if name not in resources)
            subscription.has = {name: r.version for name, r in resources.items()}
        if not (subscription.due or response.resources or response.removed_resources):
            return None
        return self.mark_sent(response, subscription)

    def new_full(self, type_url: str, subscription: Subscription) -> DiscoveryResponse | None:
        """Returns all resources, or None if the client has the state and no answer is owed."""
        response = DiscoveryResponse(type_url=type_url, version_info=str(self.state.version))
        if is_service_entry(type_url):
            if self.state.resources is None or not subscription.due and subscription.version == self.state.version:
                return None
            response.resources.extend(r.resource for r in self.state.resources.values())
        elif not subscription.due:
            return None
        return self.mark_sent(response, subscription)

    def mark_sent(self, response: Any, subscription: Subscription) -> Any:
        """Sets the nonce of a response and records it in the subscription. Returns the response."""
        subscription.due, subscription.version = False, self.state.version
        subscription.nonce += 1
        response.nonce = str(subscription.nonce)
        return response


async def subscribe_all(requests: AsyncIterator, subscribed: dict[str, Subscription], changed: asyncio.Event) -> None:
    """Applies the requests of a stream to its subscriptions. Returns when the client ends the stream."""
    async for request in requests:
        subscription = subscribed.get(request.type_url)
        if request.HasField("error_detail"):
            log.warning("a control plane rejected a response of %s: %s", request.type_url, request.error_detail.message)
        if subscription is None and len(subscribed) < MAX_TYPES:
            versions = getattr(request, "initial_resource_versions", {})  # of the incremental variant only
            subscribed[request.type_url] = Subscription(has=dict(versions))
        # Another request of the type is an acknowledgment or a rejection: what was sent is not repeated.
        changed.set()


def is_service_entry(type_url: str) -> bool:
    """Reports whether a type is ServiceEntry, in any version of its API."""
    return type_url.startswith("networking.istio.io/") and type_url.endswith("/ServiceEntry")


async def follow(path: str, state: State) -> None:
    """Reads the file whenever it changes. While it is not valid, the last state stays."""
    seen, problem = None, ""
    while True:
        try:
            stat = os.stat(path)
            mark = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if mark != seen:
                with open(path, encoding="utf-8") as file:
                    text = file.read()
                seen = mark
                resources = convert(json.loads(text), state.resources or {})
                state.replace(resources)
                log.info("serving %d services", len(resources))
            problem = ""
        except (OSError, ValueError) as error:
            if str(error) != problem:
                problem = str(error)
                log.warning("%s cannot be read, the services stay as they were: %s", path, problem)
        await asyncio.sleep(1)


async def main() -> None:
    """Serves until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", default="services.json", help="the services of the platform")
    parser.add_argument("--port", type=int, default=15051, help="port of 127.0.0.1 where control planes read them")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO)

    state = State()
    server = grpc.aio.server(options=[
        ("grpc.so_reuseport", 0),
        ("grpc.keepalive_time_ms", 30_000),  # finds clients that are gone
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),  # pings of clients
    ])
    ads_pb2_grpc.add_AggregatedDiscoveryServiceServicer_to_server(Discovery(state), server)
    server.add_insecure_port(f"127.0.0.1:{arguments.port}")
    await server.start()
    follower = asyncio.create_task(follow(arguments.file, state))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, follower.cancel)
    try:
        await follower
    except asyncio.CancelledError:
        log.info("stopping")
    finally:
        await server.stop(grace=1)


if __name__ == "__main__":
    asyncio.run(main())
