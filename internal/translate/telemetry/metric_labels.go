package telemetry

import (
	"maps"
	"slices"
	"strings"

	statsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stats/v3"

	telemetry "istio.io/api/telemetry/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// standardTag is the tag that contains Istio's labels, as "name=value|name=value". Envoy spends its
// time on tags: it creates a name for each tag in each metric of each request. One tag with all
// labels costs less than a third of twenty-five (ADR 13). pilot-agent splits it into labels, adds
// the labels that are equal for the whole proxy, and splits values with several parts
// (internal/agent/status). So metrics scraped from the agent have the labels that Istio's users
// expect.
//
// Names are single letters, because each filter chain contains the tag several times. A letter
// never changes its meaning: the agent may be older or newer, and ignores unknown letters.
const standardTag = "standard"

// removed is the value of a label, or of a part, that has been removed.
const removed = "!"

// pair is an entry of the standard tag.
type pair struct {
	name string
	// label is the label that it becomes; "" if it is not a label itself.
	label string
	value string // a format
	// parts are the labels of each part of the value. Parts are separated by semicolons.
	parts [][]string
	// cel is the value as a CEL expression, used if some parts are removed.
	cel string
}

// standardEntries returns the entries of standardTag for a metric on one side, in their order. It
// ignores overrides (t.tags). The entry k is only present if t.kinds is set, the entries c and g
// only unless t.tcp is set, and p only on the client side. The entry with the principal in the
// peer's certificate is last, because the peer chooses it: the agent takes all text after it as its
// value.
func standardEntries(s side, t tailored) []pair {
	reporter := "s"
	own, ownSAN := "source", "%UPSTREAM_LOCAL_URI_SAN%"
	peer, peerSAN := "destination", "%UPSTREAM_PEER_URI_SAN%"
	if s == server {
		reporter = "d"
		own, ownSAN = "destination", "%DOWNSTREAM_LOCAL_URI_SAN%"
		peer, peerSAN = "source", "%DOWNSTREAM_PEER_URI_SAN%"
	}
	// always present: it determines the meaning of the others
	list := []pair{{name: "r", value: reporter}}
	if t.kinds {
		list = append(list, pair{name: "k", value: "%ACCESS_LOG_TYPE%"})
	}
	if !t.tcp {
		list = append(
			list,
			pair{name: "c", label: "response_code", value: "%RESPONSE_CODE%"},
			pair{name: "g", label: grpcStatus, value: "%GRPC_STATUS_NUMBER%"},
		)
	}
	list = append(list, pair{name: "f", label: "response_flags", value: "%RESPONSE_FLAGS%"}, pair{
		name:  "s",
		value: "%METADATA(CLUSTER:istio:service)%",
		cel:   "xds.cluster_metadata.filter_metadata['istio']['service']",
		parts: [][]string{{"destination_service"}, {"destination_service_name"}, {"destination_service_namespace"}},
	})
	if s == client {
		list = append(list, pair{
			name:  "p",
			value: "%METADATA(UPSTREAM_HOST:istio:workload)%",
			cel:   "xds.upstream_host_metadata.filter_metadata['istio']['workload']",
			parts: [][]string{
				{"destination_workload"}, {"destination_workload_namespace"}, {
					"destination_canonical_service", "destination_app",
				},
				{"destination_canonical_revision", "destination_version"}, {"destination_cluster"},
			},
		})
	}
	return append(
		list,
		pair{name: "o", label: own + "_principal", value: ownSAN},
		pair{name: "n", label: peer + "_principal", value: peerSAN},
	)
}

const grpcStatus = "grpc_response_status"

// derivedLabels returns the labels that the agent adds to metrics of a side even without an entry
// of the standard tag. These are reporter, request_protocol, connection_security_policy and the
// labels of the proxy's workload. For servers they include the labels of the peer, mostly with the
// value "unknown".
func derivedLabels(s side) []string {
	sides := []string{"source"}
	if s == server {
		sides = []string{"destination", "source"}
	}
	list := []string{"reporter", "request_protocol", "connection_security_policy"}
	for _, of := range sides {
		for _, label := range []string{
			"workload", "workload_namespace", "canonical_service", "canonical_revision", "app",
			"version", "cluster",
		} {
			list = append(list, of+"_"+label)
		}
	}
	return list
}

// metricTags returns the tags of a metric: the standard one first, then the tags that objects add
// or replace, sorted by name. Removals, changes of the standard tag and tags with an invalid
// expression are left out.
func metricTags(s side, t tailored) []*statsv3.Config_Tag {
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

// valueFormat returns a CEL expression as a format, "%CEL(…)%". For request.host, request.method,
// response.code and destination.port it returns a command of their own, which is much cheaper.
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

// standardFormat returns the format of standardTag: the entries of standardEntries, joined by "|",
// without the labels and parts that t.tags replaces or removes. For each removed label that the
// agent would add otherwise (impliedLabels), it prepends the entry "label=!". If t.tags replaces or
// removes the gRPC status, but not request_protocol, the entry q contains the protocol instead. For
// the peer's principal see peerEntries.
func standardFormat(s side, t tailored) string {
	var all []string
	marked := map[string]bool{} // removed labels without an entry
	for name, o := range t.tags {
		if o.GetOperation() == telemetry.MetricsOverrides_TagOverride_REMOVE {
			marked[name] = true
		}
	}
	for _, p := range standardEntries(s, t) {
		switch _, touched := t.tags[p.label]; {
		case touched && p.name == "n":
			all = append(all, peerEntries(s, t)...)
		case touched && p.label == grpcStatus:
			// The gRPC status would reveal the protocol.
			if _, too := t.tags["request_protocol"]; !too {
				all = append(all, "q=%CEL("+protocolExpression+")%")
			}
		case touched:
		case p.parts != nil:
			if v := remainingParts(p, t.tags); v != "" {
				all = append(all, p.name+"="+v)
			}
		default:
			all = append(all, p.name+"="+p.value)
		}
	}
	var marks []string
	for _, label := range impliedLabels(s, t) {
		if marked[label] {
			marks = append(marks, label+"="+removed)
		}
	}
	return strings.Join(append(marks, all...), "|")
}

// peerEntries returns the entries that replace the entry n if t.tags replaces or removes the peer's
// principal, because the agent derives other labels from it: m with the namespace in the peer's
// SPIFFE ID, and for servers i, whether the client presented a certificate. Entries whose label
// t.tags replaces or removes too are left out.
func peerEntries(s side, t tailored) []string {
	isTouched := func(label string) bool { _, touched := t.tags[label]; return touched }
	peer, name := "destination", "upstream.uri_san_peer_certificate"
	var list []string
	if s == server {
		peer, name = "source", "connection.uri_san_peer_certificate"
		if !isTouched("connection_security_policy") {
			list = append(list, "i=%CEL(connection.mtls)%")
		}
	}
	if !isTouched(peer + "_workload_namespace") {
		list = append(list, "m=%CEL(re.extract("+name+`, '^spiffe://[^/]*/ns/([^/|]*)/sa/[^/]*$', '\\1'))%`)
	}
	return list
}

// protocolExpression returns the protocol of a request.
const protocolExpression = `has(request.headers) && 'content-type' in request.headers && request.headers['content-type'].startsWith('application/grpc') ? 'grpc' : 'http'`

// impliedLabels returns the labels, sorted, that the agent adds unless standardFormat marks them as
// removed: derivedLabels, and the labels of the entries that have several parts.
func impliedLabels(s side, t tailored) []string {
	list := derivedLabels(s)
	for _, p := range standardEntries(s, t) {
		for _, labels := range p.parts {
			list = append(list, labels...)
		}
	}
	slices.Sort(list)
	return list
}

// remainingParts returns the value of an entry. The constant removed takes the place of parts whose
// labels are all replaced or removed by tags; without such parts it returns p.value. It returns ""
// if no part remains. The agent hides other labels; a part that is only hidden later would still
// create series.
func remainingParts(p pair, tags map[string]*telemetry.MetricsOverrides_TagOverride) string {
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
	return "%CEL(re.extract(" + p.cel + ", '^" + strings.Join(pattern, ";") + "$', '" + strings.Join(rewrite, ";") +
		"'))%"
}
