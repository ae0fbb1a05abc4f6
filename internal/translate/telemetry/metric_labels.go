package telemetry

import (
	"maps"
	"slices"
	"strings"

	statsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stats/v3"

	telemetry "istio.io/api/telemetry/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// standardTag is the tag that holds Istio's labels, as "name=value|name=value". Envoy's time goes into tags, for each of
// which it makes a name in each metric of each request: one with everything costs less than a third of twenty-five (ADR 13). pilot-agent makes
// labels of it, adds those that are the same for all that a proxy does, and takes apart what stands for several
// (internal/agent/status). So whoever reads the proxy's metrics from the agent finds what Istio's users know.
//
// Names are single letters, for the tag is in the configuration of each filter chain several times. No letter is ever given
// another meaning: the agent may be older or newer, and passes over what it does not know.
const standardTag = "standard"

// removed is the value of a label, or of a part, that is to be left out.
const removed = "!"

// pair is an entry of the standard tag.
type pair struct {
	name string
	// label is what it is for; "" for what is no label by itself.
	label string
	value string // a format
	// parts are the labels that each part of the value is for, which are divided by semicolons.
	parts [][]string
	// cel is the same value as CEL has it, for a value of which parts are taken out.
	cel string
}

// pairs are those of all requests, or connections. What a stranger may choose, the name in the peer's certificate, goes last:
// the last value reaches to the end, whatever is in it.
func pairs(s side, t tailored) []pair {
	reporter, own, ownSAN, peer, peerSAN := "s", "source", "%UPSTREAM_LOCAL_URI_SAN%", "destination", "%UPSTREAM_PEER_URI_SAN%"
	if s == server {
		reporter, own, ownSAN, peer, peerSAN = "d", "destination", "%DOWNSTREAM_LOCAL_URI_SAN%", "source", "%DOWNSTREAM_PEER_URI_SAN%"
	}
	list := []pair{{name: "r", value: reporter}} // always: it says what the others are about
	if t.kinds {
		list = append(list, pair{name: "k", value: "%ACCESS_LOG_TYPE%"})
	}
	if !t.tcp {
		list = append(list, pair{name: "c", label: "response_code", value: "%RESPONSE_CODE%"}, pair{name: "g", label: grpcStatus, value: "%GRPC_STATUS_NUMBER%"})
	}
	list = append(list, pair{name: "f", label: "response_flags", value: "%RESPONSE_FLAGS%"}, pair{
		name: "s", value: "%METADATA(CLUSTER:istio:service)%", cel: "xds.cluster_metadata.filter_metadata['istio']['service']",
		parts: [][]string{{"destination_service"}, {"destination_service_name"}, {"destination_service_namespace"}},
	})
	if s == client {
		list = append(list, pair{
			name: "p", value: "%METADATA(UPSTREAM_HOST:istio:workload)%", cel: "xds.upstream_host_metadata.filter_metadata['istio']['workload']",
			parts: [][]string{
				{"destination_workload"}, {"destination_workload_namespace"}, {"destination_canonical_service", "destination_app"},
				{"destination_canonical_revision", "destination_version"}, {"destination_cluster"},
			},
		})
	}
	return append(list, pair{name: "o", label: own + "_principal", value: ownSAN}, pair{name: "n", label: peer + "_principal", value: peerSAN})
}

const grpcStatus = "grpc_response_status"

// derived are the labels that the agent makes whether or not a pair is there.
func derived(s side) []string {
	own := "source"
	if s == server {
		own = "destination"
	}
	list := []string{"reporter", "request_protocol", "connection_security_policy"}
	for _, label := range []string{"workload", "workload_namespace", "canonical_service", "canonical_revision", "app", "version", "cluster"} {
		list = append(list, own+"_"+label)
	}
	return list
}

// tags are the tags of a metric: the standard one, and those that objects add or replace.
func tags(s side, t tailored) []*statsv3.Config_Tag {
	list := []*statsv3.Config_Tag{{Name: standardTag, ValueFormat: standardFormat(s, t)}}
	for _, name := range slices.Sorted(maps.Keys(t.tags)) {
		o := t.tags[name]
		if o.GetOperation() == telemetry.MetricsOverrides_TagOverride_REMOVE || name == standardTag {
			continue
		}
		if expression, fault := config.TagExpression(o.GetValue()); fault == "" {
			list = append(list, &statsv3.Config_Tag{Name: name, ValueFormat: valueFormat(expression)})
		}
	}
	return list
}

// valueFormat is a CEL expression as a format. The most common ones have a command of their own, which costs next to nothing.
func valueFormat(expression string) string {
	switch expression {
	case "request.host":
		return "%REQ(:AUTHORITY)%"
	case "request.method":
		return "%REQ(:METHOD)%"
	case "response.code":
		return "%RESPONSE_CODE%"
	case "destination.port":
		return "%DOWNSTREAM_LOCAL_PORT%"
	default:
		return "%CEL(" + expression + ")%"
	}
}

// standardFormat is the value of the standard tag, without what objects replace or remove.
func standardFormat(s side, t tailored) string {
	var all []string
	marked := map[string]bool{} // labels that are removed, and that nothing else says so of
	for name, o := range t.tags {
		if o.GetOperation() == telemetry.MetricsOverrides_TagOverride_REMOVE {
			marked[name] = true
		}
	}
	for _, p := range pairs(s, t) {
		switch _, touched := t.tags[p.label]; {
		case touched && p.label == grpcStatus:
			if _, too := t.tags["request_protocol"]; !too { // it says what the protocol was
				all = append(all, "q=%CEL("+protocolExpression+")%")
			}
		case touched:
		case p.parts != nil:
			if v := partly(p, t.tags); v != "" {
				all = append(all, p.name+"="+v)
			}
		default:
			all = append(all, p.name+"="+p.value)
		}
	}
	var marks []string
	for _, label := range withParts(s, t) {
		if marked[label] {
			marks = append(marks, label+"="+removed)
		}
	}
	return strings.Join(append(marks, all...), "|")
}

// protocolExpression says what the protocol of a request is.
const protocolExpression = `has(request.headers) && 'content-type' in request.headers && request.headers['content-type'].startsWith('application/grpc') ? 'grpc' : 'http'`

// withParts are the labels that the agent adds unless they are marked.
func withParts(s side, t tailored) []string {
	list := derived(s)
	for _, p := range pairs(s, t) {
		for _, labels := range p.parts {
			list = append(list, labels...)
		}
	}
	slices.Sort(list)
	return list
}

// partly gives the value of a pair without the parts all of whose labels are replaced or removed; "" if that is all of them.
// A part that is only hidden later would still make series of its own.
func partly(p pair, tags map[string]*telemetry.MetricsOverrides_TagOverride) string {
	gone := make([]bool, len(p.parts))
	left := 0
	for i, labels := range p.parts {
		gone[i] = !slices.ContainsFunc(labels, func(label string) bool { _, touched := tags[label]; return !touched })
		if !gone[i] {
			left++
		}
	}
	if left == len(p.parts) {
		return p.value
	}
	if left == 0 {
		return ""
	}
	var pattern, rewrite []string
	for i := range p.parts {
		pattern = append(pattern, "([^;]*)")
		if gone[i] {
			rewrite = append(rewrite, removed)
		} else {
			rewrite = append(rewrite, `\\`+string(rune('1'+i)))
		}
	}
	return "%CEL(re.extract(" + p.cel + ", '^" + strings.Join(pattern, ";") + "$', '" + strings.Join(rewrite, ";") + "'))%"
}
