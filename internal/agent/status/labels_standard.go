package status

import (
	"cmp"
	"strings"

	"github.com/meshpilot/meshpilot/internal/agent/node"
)

// The labels of one side, source or destination.
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

// Istio's labels, in the order in which they are written.
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

func labelName(i int) string {
	return [labelCount]string{
		"reporter",
		"source_workload", "source_canonical_service", "source_canonical_revision", "source_workload_namespace", "source_principal",
		"source_app", "source_version", "source_cluster",
		"destination_workload", "destination_canonical_service", "destination_canonical_revision", "destination_workload_namespace",
		"destination_principal", "destination_app", "destination_version", "destination_cluster",
		"destination_service", "destination_service_name", "destination_service_namespace",
		"request_protocol", "response_code", "grpc_response_status", "response_flags", "connection_security_policy",
	}[i]
}

// labelIndex gives the place of a label, -1 for others.
func labelIndex(name string) int {
	for i := range labelCount {
		if labelName(i) == name {
			return i
		}
	}
	return -1
}

// ownLabels are those of the workload that the proxy is beside.
type ownLabels [sideLabels]string

func newOwnLabels(w node.Workload) ownLabels {
	own := ownLabels{
		workload: w.Name, canonicalService: w.CanonicalService, canonicalRevision: w.CanonicalRevision, workloadNamespace: w.Namespace,
		app: w.App, version: w.Version, cluster: w.Cluster,
	}
	for i, v := range own {
		own[i] = escaped(orUnknown(v))
	}
	return own
}

// values are those of Istio's labels. One that is not there was replaced by the user.
type values [labelCount]optional

// set makes the values of what Envoy has recorded.
func (v *values) set(r *record, own *ownLabels, connection bool) {
	*v = values{}
	mine, other, said := sourceSide, destinationSide, "source"
	if r.server {
		mine, other, said = destinationSide, sourceSide, "destination"
	}
	v[reporter] = optional{said, true}
	for i, text := range own {
		v[mine+i] = optional{text, true}
	}
	v.peer((*[sideLabels]optional)(v[other:]), r)
	v[mine+principal], v[other+principal] = named(r.ownPrincipal), named(r.peerPrincipal)
	v.parts(r.service, destinationService, serviceName, serviceNamespace)
	v[responseCode], v[grpcStatus], v[responseFlags] = r.code, r.grpc, r.flags
	v[requestProtocol] = optional{cmp.Or(r.protocol, protocol(r, connection)), true}
	v[securityPolicy] = optional{security(r), true}
	for i, gone := range r.gone {
		if gone {
			v[i] = optional{}
		}
	}
}

// peer sets the labels of the workload at the other end: what its endpoint says, or else its certificate.
func (v *values) peer(side *[sideLabels]optional, r *record) {
	var w values
	w.parts(r.peer, workload, workloadNamespace, canonicalService, canonicalRevision, cluster)
	copy(side[:], w[:sideLabels])
	// Endpoints say no more than this; Istio takes the canonical names from the same labels.
	side[app], side[version] = side[canonicalService], side[canonicalRevision]
	if side[canonicalService].text != unknown && side[canonicalRevision].text == unknown { // the endpoint leaves out what is usual
		side[canonicalRevision].text = "latest"
	}
	if side[workloadNamespace].text == unknown {
		side[workloadNamespace].text = namespaceOf(r.peerPrincipal.text)
	}
}

// parts sets labels to the parts of a text that semicolons divide, "unknown" where there is none.
func (v *values) parts(text string, labels ...int) {
	for n, i := range labels {
		part, rest, _ := strings.Cut(text, ";")
		if n == len(labels)-1 {
			part = text
		}
		v[i], text = optional{orUnknown(part), true}, rest
	}
}

func named(principal optional) optional {
	return optional{orUnknown(principal.text), principal.there}
}

// namespaceOf reads the namespace of a SPIFFE ID, "spiffe://DOMAIN/ns/NAMESPACE/sa/ACCOUNT".
func namespaceOf(principal string) string {
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

// protocol of a request is gRPC's where there is a status of gRPC: Envoy gives one to each gRPC request, and to no other.
func protocol(r *record, connection bool) string {
	switch {
	case connection:
		return "tcp"
	case r.grpc.text == "" || r.grpc.text == "-":
		return "http"
	default:
		return "grpc"
	}
}

// security says whether the peer has shown a certificate. A client does not say how servers see it.
func security(r *record) string {
	switch {
	case !r.server || !r.peerPrincipal.there:
		return unknown
	case orUnknown(r.peerPrincipal.text) == unknown:
		return "none"
	default:
		return "mutual_tls"
	}
}

// escaped writes a value as it stands between quotes.
func escaped(v string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(v)
}
