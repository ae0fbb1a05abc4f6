"""Converts the services of the file to ServiceEntries.

The file is that of the Go sample, ../services.json. Fields that are not named here are ignored.
"""

import hashlib
import ipaddress
import logging
import re
from typing import Any

from envoy.service.discovery.v3 import discovery_pb2
from google.protobuf import json_format
from mcp.v1alpha1 import resource_pb2
from networking.v1alpha3 import service_entry_pb2

# Resources are the resources of a state by name, "namespace/name".
Resources = dict[str, discovery_pb2.Resource]

PLATFORM = "python"  # the beginning of the names of all ServiceEntries
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,48}[a-z0-9])?")
COPIED = ("ports", "labels", "weight", "locality", "network", "serviceAccount")  # fields of instances
HEALTH = ("healthy", "unhealthy", "draining")

log = logging.getLogger(__name__)


def convert(services: Any, last: Resources) -> Resources:
    """Returns the resources of all services.

    A service that is not valid keeps its resource in last, and the problem is logged. Raises ValueError
    if services is not a list, or if an element has no valid name and namespace: it may be any service.
    """
    if not isinstance(services, list):
        raise ValueError("the file has no list of services")
    resources: Resources = {}
    for index, service in enumerate(services):
        try:
            namespace = read(service, "namespace", str, "default")
            name = f"{namespace}/{PLATFORM}-{read(service, 'name', str)}"
        except ValueError as error:
            raise ValueError(f"services[{index}].{error}") from error
        if not all(LABEL.fullmatch(part) for part in name.split("/", 1)):
            raise ValueError(f"services[{index}]: {name} is not two DNS labels")
        if name in resources:
            raise ValueError(f"services[{index}]: {name} is listed twice")
        try:
            resources[name] = new_resource(name, service)
        except (ValueError, json_format.ParseError) as error:
            log.warning("service %s is not valid and stays as it was: %s", name, error)
            if name in last:
                resources[name] = last[name]
    return resources


def new_resource(name: str, service: dict) -> discovery_pb2.Resource:
    """Returns the resource of a service. Its version is a hash of its content."""
    wrapper = resource_pb2.Resource()
    wrapper.metadata.name = name
    wrapper.metadata.annotations["adapter.meshpilot.io/platform"] = PLATFORM
    wrapper.metadata.annotations["adapter.meshpilot.io/service"] = service["name"]
    wrapper.body.Pack(new_entry(service), deterministic=True)
    resource = discovery_pb2.Resource(name=name)
    resource.resource.Pack(wrapper, deterministic=True)
    resource.version = hashlib.sha256(resource.resource.value).hexdigest()[:16]
    return resource


def new_entry(service: dict) -> service_entry_pb2.ServiceEntry:
    """Returns the ServiceEntry of a service. Only healthy instances become endpoints."""
    hosts, ports = read(service, "hosts", list), read(service, "ports", list)
    if not hosts or not ports:
        raise ValueError("hosts and ports: at least one of each is needed")
    instances = [i for i in read(service, "instances", list) if is_healthy(i)]
    endpoints = [
        {"address": read(i, "address", str)} | {field: i[field] for field in COPIED if field in i}
        for i in sorted(instances, key=lambda i: read(i, "id", str))
    ]
    entry = {
        "hosts": hosts,
        "ports": ports,
        "addresses": read(service, "addresses", list, []),
        "location": "MESH_EXTERNAL" if read(service, "external", bool, False) else "MESH_INTERNAL",
        "resolution": "STATIC" if all(is_ip(e["address"]) for e in endpoints) else "DNS",
        "endpoints": endpoints,
        "subjectAltNames": read(service, "subjectAltNames", list, []),
    }
    return json_format.ParseDict(entry, service_entry_pb2.ServiceEntry())  # an error names the field


def is_healthy(instance: Any) -> bool:
    """Reports whether an instance may receive traffic. Raises ValueError if its state is unknown."""
    health = read(instance, "health", str, "healthy")
    if health not in HEALTH:
        raise ValueError(f"instance {instance.get('id')}: health: {health!r} is none of {', '.join(HEALTH)}")
    return health == "healthy"


def is_ip(address: str) -> bool:
    """Reports whether an address is an IP address, and not a DNS name."""
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return True


def read(item: Any, field: str, kind: type, default: Any = None) -> Any:
    """Returns a field. Raises ValueError if it is of another type, or is missing without a default."""
    value = item.get(field, default) if isinstance(item, dict) else None
    if not isinstance(value, kind):
        where = f"instance {item['id']}: " if isinstance(item, dict) and "id" in item else ""
        raise ValueError(f"{where}{field}: want a {kind.__name__}, have {value!r}")
    return value
