package config

import (
	networking "istio.io/api/networking/v1alpha3"
)

// checkWorkloadEntry adds Errors for an invalid address, invalid ports and other fields of a
// WorkloadEntry. The address is an IP address, a host name or a Unix domain socket. It may be
// missing if a network is set, with a Warning.
func (r *report) checkWorkloadEntry(at path, entry *networking.WorkloadEntry) {
	r.checkEndpointDetails(at, entry)
	if address := entry.GetAddress(); address != "" && !IsSocket(address) {
		r.addFault(at.Child("address"), hostOrIPFault(address))
	}
	r.checkEndpointPorts(at.Child("ports"), entry, nil)
}

// checkEndpointDetails adds Errors for the fields that WorkloadEntry and the endpoints of a
// ServiceEntry share: a socket with an invalid path or with ports, invalid labels, and texts that
// are too long. The caller checks IP addresses and host names. No address is an Error without a
// network, otherwise a Warning.
func (r *report) checkEndpointDetails(at path, entry *networking.WorkloadEntry) {
	address := entry.GetAddress()
	switch {
	case address == "" && entry.GetNetwork() == "":
		r.errorf(at.Child("address"), "is required (or network, for workloads behind a network's gateway)")
	case address == "":
		r.warnf(at.Child("address"),
			"is not set: the workload is reached only through the gateway of network %q",
			entry.GetNetwork())
	case IsSocket(address):
		r.addFault(at.Child("address"), unixFault(address))
		if len(entry.GetPorts()) > 0 {
			r.errorf(at.Child("ports"), "must not be set for a Unix domain socket")
		}
	}
	r.checkLabels(at.Child("labels"), entry.GetLabels())
	for _, text := range []struct {
		name, value string
		limit       int
	}{
		{"address", address, 256}, {"network", entry.GetNetwork(), 2048}, {"locality", entry.GetLocality(), 2048},
		{"serviceAccount", entry.GetServiceAccount(), 253},
	} {
		if len(text.value) > text.limit {
			r.errorf(at.Child(text.name), "has %d bytes, at most %d are allowed", len(text.value), text.limit)
		}
	}
}

// checkEndpointPorts adds Errors for invalid names and numbers in the map of ports, and for more
// than 128 ports. known contains the port names of the service, and other names are Errors. If it
// is nil, any valid port name is allowed.
func (r *report) checkEndpointPorts(at path, entry *networking.WorkloadEntry, known map[string]bool) {
	r.checkMaxItems(at, len(entry.GetPorts()), 128)
	for _, name := range sortedKeys(entry.GetPorts()) {
		if !isHostLabel(name) {
			r.errorf(at.Key(name), "%q is not a port name", name)
		} else if known != nil && !known[name] {
			r.errorf(at.Key(name), "%q is not the name of a port in spec.ports", name)
		}
		r.checkPortNumber(at.Key(name), entry.GetPorts()[name])
	}
}
