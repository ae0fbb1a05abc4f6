package render

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// excludeInboundPort returns a comma-separated list of ports with a port added, without spaces and
// empty entries. It returns the list itself if the port, as text, is empty, 0 or already in it;
// entries with spaces around them are not recognized. The port is not checked: nil is added as
// "<nil>".
func excludeInboundPort(port any, excluded string) string {
	add := strings.TrimSpace(fmt.Sprint(port))
	if add == "" || add == "0" {
		return excluded
	}
	var list []string
	for p := range strings.SplitSeq(excluded, ",") {
		if p == add {
			return excluded
		}
		if p = strings.TrimSpace(p); p != "" {
			list = append(list, p)
		}
	}
	return strings.Join(append(list, add), ",")
}

// allPorts returns the TCP ports of all containers, separated by commas.
func allPorts(containers []corev1.Container) string {
	return listPorts(containers, func(corev1.Container) bool { return true })
}

// applicationPorts returns the TCP ports of all containers but istio-proxy, separated by commas.
func applicationPorts(containers []corev1.Container) string {
	return listPorts(containers, func(c corev1.Container) bool { return c.Name != "istio-proxy" })
}

// listPorts returns the ports of the containers for which of returns true, separated by commas. UDP
// and SCTP ports are left out. They are in the order of the containers, duplicates included.
func listPorts(containers []corev1.Container, of func(corev1.Container) bool) string {
	var list []string
	for _, c := range containers {
		if !of(c) {
			continue
		}
		for _, p := range c.Ports {
			if p.Protocol != corev1.ProtocolUDP && p.Protocol != corev1.ProtocolSCTP {
				list = append(list, strconv.Itoa(int(p.ContainerPort)))
			}
		}
	}
	return strings.Join(list, ",")
}

// appendMultusNetwork returns Multus' annotation with a network added, in either of its forms:
// comma-separated names, or a JSON list. It returns it unchanged if it has the network, or is
// invalid JSON, so that Multus reports it.
func appendMultusNetwork(existing, network string) string {
	if existing == "" {
		return network
	}
	if end := strings.LastIndex(existing, "]"); end >= 0 {
		return appendToJSON(existing, end, network)
	}
	for n := range strings.SplitSeq(existing, ",") {
		if strings.TrimSpace(n) == network {
			return existing
		}
	}
	return existing + ", " + network
}

// appendToJSON adds a network, as name or namespace/name, to a JSON list that ends at
// existing[end]. It returns the list unchanged if it has the network or is invalid.
func appendToJSON(existing string, end int, network string) string {
	var networks []map[string]any
	if json.Unmarshal([]byte(existing), &networks) != nil {
		return existing
	}
	namespace, name, qualified := strings.Cut(network, "/")
	if !qualified {
		namespace, name = "", network
	}
	if slices.ContainsFunc(networks, func(n map[string]any) bool {
		in, _ := n["namespace"].(string)
		return n["name"] == name && in == namespace
	}) {
		return existing
	}
	entry := fmt.Sprintf(`{"name": %q}`, name)
	if namespace != "" {
		entry = fmt.Sprintf(`{"name": %q, "namespace": %q}`, name, namespace)
	}
	if len(networks) > 0 {
		entry = ", " + entry
	}
	return existing[:end] + entry + existing[end:]
}
