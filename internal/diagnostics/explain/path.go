package explain

import (
	"encoding/json"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Path is the result of Explain: the decisions in order, and the possible endings.
type Path struct {
	Call  Call   `json:"call"`
	Steps []Step `json:"steps"`
	// Notes are hints that no resource of the proxy contains, such as a service without the port.
	Notes []string `json:"notes,omitempty"`
	// Endings are the possible endings. Their shares add up to 1.
	Endings []Ending `json:"endings"`
	// Callee is the path of the call through the destination workload's proxy, if requested.
	Callee *Path `json:"callee,omitempty"`
	// Metadata is the dynamic metadata by filter (DYNAMIC_METADATA of access logs). It contains the
	// results of shadow rules and the claims of tokens.
	Metadata map[string]map[string]any `json:"metadata,omitempty"`
}

// Stage is the part of a proxy that made a decision.
type Stage string

// The stages of a call.
const (
	StageListener    Stage = "listener"
	StageInspector   Stage = "inspector" // listener filters
	StageFilterChain Stage = "filter chain"
	StageFilter      Stage = "filter" // network and HTTP filters
	StageRoutes      Stage = "routes" // a RouteConfiguration
	StageAccess      Stage = "access" // access control
	StageVirtualHost Stage = "virtual host"
	StageRoute       Stage = "route"
	StageAction      Stage = "action"
	StageRewrite     Stage = "rewrite"
	StageHeaders     Stage = "headers"
	StagePolicy      Stage = "policy" // timeouts, retries, hashing
	StageMirror      Stage = "mirror"
	StageCluster     Stage = "cluster"
	StageEndpoints   Stage = "endpoints"
	// StageUnsupported marks a feature of Envoy that this package does not implement.
	StageUnsupported Stage = "unsupported"
)

// Step is one decision of the proxy.
type Step struct {
	Stage Stage `json:"stage"`
	// Resource is the name of the Envoy resource that decided: a listener, a filter chain, a
	// virtual host, a cluster.
	Resource string `json:"resource,omitempty"`
	// Matched describes the properties of the call that matched.
	Matched string `json:"matched,omitempty"`
	// Decided describes the decision.
	Decided string `json:"decided"`
	// By are the source objects of the resource.
	By []Object `json:"by,omitempty"`
	// Missed are the rules that the call nearly matches, with the reasons for the mismatch.
	Missed []string `json:"missed,omitempty"`
}

// Object is a user's config object, and the relevant part of it.
type Object struct {
	config.Key
	// Rule is the path of that part: "spec.http[2].match[0]". It is empty if the part is unknown or
	// the whole object applies.
	Rule string
}

// objectJSON is the JSON form of an Object.
type objectJSON struct {
	Kind      api.Kind `json:"kind"`
	Namespace string   `json:"namespace,omitempty"`
	Name      string   `json:"name"`
	Rule      string   `json:"rule,omitempty"`
}

// MarshalJSON writes the Object with the keys kind, namespace, name and rule.
func (o Object) MarshalJSON() ([]byte, error) {
	return json.Marshal(objectJSON{o.Kind, o.Namespace, o.Name, o.Rule})
}

// UnmarshalJSON reads the form that MarshalJSON writes.
func (o *Object) UnmarshalJSON(text []byte) error {
	var x objectJSON
	if err := json.Unmarshal(text, &x); err != nil {
		return err
	}
	*o = Object{config.Key{Kind: x.Kind, Namespace: x.Namespace, Name: x.Name}, x.Rule}
	return nil
}

// Kind is the kind of an ending.
type Kind string

// The kinds of endings.
const (
	// Forwarded is a call that reaches an endpoint of a cluster.
	Forwarded Kind = "forwarded"
	// Answered is a call that the proxy answers itself.
	Answered Kind = "answered"
	// Closed is a connection that is closed or reset without an answer.
	Closed Kind = "closed"
	// Refused is a connection to an address without an active listener.
	Refused Kind = "refused"
	// Waiting is a connection on which the proxy waits for the client's first bytes, without a
	// timeout.
	Waiting Kind = "waiting"
	// Unknown is a call that this package cannot follow. The last step has the reason.
	Unknown Kind = "unknown"
)

// Response flags of access logs. A proxy sets further ones for calls that it forwards.
const (
	flagNoRoute         = "NR"
	flagNoCluster       = "NC"
	flagNoHealthyHost   = "UH"
	flagDelayInjected   = "DI"
	flagFaultInjected   = "FI"
	flagExtAuthzRefused = "UAEX"
	flagProtocolError   = "DPE"
)

// Ending is one possible ending of a call.
type Ending struct {
	// Share is the fraction of all such calls, between 0 and 1.
	Share float64 `json:"share"`
	Kind  Kind    `json:"kind"`
	// Delay is the time that the proxy waits deliberately before it continues.
	Delay time.Duration `json:"delay,omitempty"`
	// Reason explains an ending that is not Forwarded.
	Reason string `json:"reason,omitempty"`
	// Details are the details in access logs if access is denied (RESPONSE_CODE_DETAILS of
	// requests, CONNECTION_TERMINATION_DETAILS):
	// "rbac_access_denied_matched_policy[ns[shop]-policy[web]-rule[0]]".
	Details string `json:"details,omitempty"`
	// Flags are the response flags in access logs (RESPONSE_FLAGS) of a call that the proxy answers
	// or closes, separated by commas. They are empty for a call that is forwarded: then they depend
	// on the endpoint.
	Flags string `json:"flags,omitempty"`

	// Cluster is the upstream cluster. Route is the route name in access logs.
	Cluster string `json:"cluster,omitempty"`
	Route   string `json:"route,omitempty"`
	// Endpoints are the possible endpoints, with their shares of this ending.
	Endpoints []Endpoint `json:"endpoints,omitempty"`
	// Upstream is the request that the endpoint receives; nil if the call carries no HTTP.
	Upstream *Request `json:"upstream,omitempty"`
	// Transport is the transport to the endpoint: "plain text", "TLS, server name x".
	Transport string `json:"transport,omitempty"`
	// Protocol is the HTTP version to the endpoint: "HTTP/1.1", "HTTP/2".
	Protocol string `json:"protocol,omitempty"`
	// Mirrors are the clusters that receive copies of the request.
	Mirrors []Mirror `json:"mirrors,omitempty"`
	// Timeout limits the whole request, and 0 means no limit. PerTry limits each try. Retries is
	// nil if failed requests are not retried.
	Timeout time.Duration `json:"timeout,omitempty"`
	PerTry  time.Duration `json:"perTry,omitempty"`
	Retries *Retries      `json:"retries,omitempty"`

	// Status, Body and Header are the proxy's own response.
	Status int      `json:"status,omitempty"`
	Body   string   `json:"body,omitempty"`
	Header []Header `json:"header,omitempty"`
	// Response are the header changes of the response, in order, from an endpoint or from the
	// proxy.
	Response []HeaderChange `json:"response,omitempty"`
}

// Retries is the number of retries and their condition.
type Retries struct {
	Attempts uint32 `json:"attempts"` // in addition to the first try
	On       string `json:"on"`
}

// Endpoint is a possible destination of a call.
type Endpoint struct {
	// Address is "10.0.0.1:80", a name with a port, a socket's path, or "internal" and a listener
	// name.
	Address  string `json:"address"`
	Locality string `json:"locality,omitempty"` // "region/zone/subzone"
	Priority uint32 `json:"priority,omitempty"`
	// Share is the fraction of the ending's calls, between 0 and 1. If the load balancer is sticky,
	// it is the fraction of all clients.
	Share float64 `json:"share"`
	// Transport is the transport to this endpoint if the endpoints of the cluster differ. Otherwise
	// it is empty, and the ending's Transport applies.
	Transport string `json:"transport,omitempty"`
	// Received is the call as a sidecar at the address receives it, if that was requested.
	Received *Call `json:"received,omitempty"`

	// peer is set if the endpoint accepts mutual TLS of proxies.
	peer bool
}

// Mirror is a cluster that receives copies of a share of the requests. Its responses are dropped.
type Mirror struct {
	Cluster string  `json:"cluster"`
	Share   float64 `json:"share"` // of the ending's requests
	// Endpoints are the endpoints that may receive the copy.
	Endpoints []Endpoint `json:"endpoints,omitempty"`
}

// Header is one header line.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// HeaderChange is one change to the headers of a request or response.
type HeaderChange struct {
	// Do is "set" (replace), "add" (append a line), "default" (only if the header is missing),
	// "replace" (only if it exists) or "remove".
	Do    string `json:"do"`
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

// ClearReceived sets Received to nil for all endpoints.
func (p *Path) ClearReceived() {
	for _, e := range p.Endings {
		for i := range e.Endpoints {
			e.Endpoints[i].Received = nil
		}
	}
}

// Supported reports whether no step has the stage StageUnsupported. A path without steps is
// supported.
func (p *Path) Supported() bool {
	for _, s := range p.Steps {
		if s.Stage == StageUnsupported {
			return false
		}
	}
	return true
}
