package status

import (
	"cmp"
	"strings"

	"github.com/meshpilot/meshpilot/internal/agent/node"
)

// Offsets of the labels of one side, source or destination.
const (
	workload = iota
	canonicalService
	canonicalRevision
	workloadNamespace
	principal
	app
	version
	cluster
	sideLabels
)

// Indexes of Istio's labels, in output order.
const (
	reporter           = 0
	sourceSide         = 1
	destinationSide    = sourceSide + sideLabels
	destinationService = destinationSide + sideLabels
	serviceName        = destinationService + 1
	serviceNamespace   = destinationService + 2
	requestProtocol    = destinationService + 3
	responseCode       = destinationService + 4
	grpcStatus         = destinationService + 5
	responseFlags      = destinationService + 6
	securityPolicy     = destinationService + 7
	labelCount         = destinationService + 8
)

// labelName returns the name of the label with an index.
func labelName(i int) string {
	return [labelCount]string{
		"reporter",
		"source_workload", "source_canonical_service", "source_canonical_revision", "source_workload_namespace",
		"source_principal", "source_app", "source_version", "source_cluster",
		"destination_workload", "destination_canonical_service", "destination_canonical_revision",
		"destination_workload_namespace", "destination_principal", "destination_app", "destination_version",
		"destination_cluster",
		"destination_service", "destination_service_name", "destination_service_namespace",
		"request_protocol", "response_code", "grpc_response_status", "response_flags",
		"connection_security_policy",
	}[i]
}

// labelIndex returns the index of a label, or -1 if it is not one of Istio's.
func labelIndex(name string) int {
	for i := range labelCount {
		if labelName(i) == name {
			return i
		}
	}
	return -1
}

// ownLabels are the labels of the proxy's own workload.
type ownLabels [sideLabels]string

// newOwnLabels returns the escaped label values of the agent's own workload. Missing ones are
// "unknown".
func newOwnLabels(w node.Workload) ownLabels {
	own := ownLabels{
		workload: w.Name, workloadNamespace: w.Namespace,
		canonicalService: w.CanonicalService, canonicalRevision: w.CanonicalRevision,
		app: w.App, version: w.Version, cluster: w.Cluster,
	}
	for i, v := range own {
		own[i] = escapeLabel(orUnknown(v))
	}
	return own
}

// labelValues are the values of Istio's labels by index. Labels that the user has removed are not
// set.
type labelValues [labelCount]optional

// setAll sets all values from a record of Envoy and the proxy's own labels, and unsets the labels
// that the record removes. A response code, gRPC status or flags that the record lacks are unset
// too. connection is true for the metrics of TCP connections.
func (v *labelValues) setAll(r *record, own *ownLabels, connection bool) {
	*v = labelValues{}
	mine, other, name := sourceSide, destinationSide, "source"
	if r.server {
		mine, other, name = destinationSide, sourceSide, "destination"
	}
	v[reporter] = optional{name, true}
	for i, text := range own {
		v[mine+i] = optional{text, true}
	}
	v.setPeer((*[sideLabels]optional)(v[other:]), r)
	v[mine+principal], v[other+principal] = principalOrUnknown(r.ownPrincipal), principalOrUnknown(r.peerPrincipal)
	v.setParts(r.service, destinationService, serviceName, serviceNamespace)
	v[responseCode], v[grpcStatus], v[responseFlags] = r.code, r.grpc, r.flags
	v[requestProtocol] = optional{cmp.Or(r.protocol, requestProtocolOf(r, connection)), true}
	v[securityPolicy] = optional{securityPolicyOf(r), true}
	for i, removed := range r.removed {
		if removed {
			v[i] = optional{}
		}
	}
}

// setPeer sets the labels of the peer's workload, from its endpoint's metadata. Without a namespace
// there, the namespace in its certificate is used. Its app and version are the canonical service
// and revision; a known service without a revision gets the canonical revision "latest".
func (v *labelValues) setPeer(side *[sideLabels]optional, r *record) {
	var w labelValues
	w.setParts(r.peer, workload, workloadNamespace, canonicalService, canonicalRevision, cluster)
	copy(side[:], w[:sideLabels])
	// Endpoints have no more metadata; Istio derives the canonical names from the same labels.
	side[app], side[version] = side[canonicalService], side[canonicalRevision]
	// Endpoints leave out the default revision.
	if side[canonicalService].text != unknown && side[canonicalRevision].text == unknown {
		side[canonicalRevision].text = "latest"
	}
	if side[workloadNamespace].text == unknown {
		side[workloadNamespace].text = orUnknown(cmp.Or(r.peerNamespace, spiffeNamespace(r.peerPrincipal.text)))
	}
}

// setParts sets labels to the parts of a text separated by semicolons, the last one to all that is
// left. A missing or empty part is "unknown".
func (v *labelValues) setParts(text string, labels ...int) {
	for n, i := range labels {
		part, rest, _ := strings.Cut(text, ";")
		if n == len(labels)-1 {
			part = text
		}
		v[i], text = optional{orUnknown(part), true}, rest
	}
}

// principalOrUnknown returns the principal with orUnknown applied to its text. An unset one stays
// unset.
func principalOrUnknown(principal optional) optional {
	return optional{orUnknown(principal.text), principal.set}
}

// spiffeNamespace returns the namespace in a SPIFFE ID, "spiffe://DOMAIN/ns/NAMESPACE/sa/ACCOUNT",
// "unknown" for any other text.
func spiffeNamespace(principal string) string {
	path, ok := strings.CutPrefix(principal, "spiffe://")
	_, path, _ = strings.Cut(path, "/")
	path, namespaced := strings.CutPrefix(path, "ns/")
	namespace, account, _ := strings.Cut(path, "/")
	account, accounted := strings.CutPrefix(account, "sa/")
	if !ok || !namespaced || !accounted || strings.Contains(account, "/") {
		return unknown
	}
	return orUnknown(namespace)
}

// requestProtocolOf returns "tcp" for a connection, "grpc" for a request with a gRPC status, which
// Envoy records for gRPC only, and otherwise "http".
func requestProtocolOf(r *record, connection bool) string {
	switch {
	case connection:
		return "tcp"
	case r.grpc.text == "" || r.grpc.text == "-":
		return "http"
	default:
		return "grpc"
	}
}

// securityPolicyOf returns "mutual_tls" or "none" by whether the client presented a certificate.
// For records of clients, or without the fields n and i, it returns "unknown".
func securityPolicyOf(r *record) string {
	known := r.peerPrincipal.set || r.peerCertified.set
	switch {
	case !r.server || !known:
		return unknown
	case r.peerCertified.text == "true" || orUnknown(r.peerPrincipal.text) != unknown:
		return "mutual_tls"
	default:
		return "none"
	}
}

// escapeLabel escapes a label value for Prometheus's text format.
func escapeLabel(v string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(v)
}
