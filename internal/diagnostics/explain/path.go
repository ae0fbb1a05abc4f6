package explain

import (
	"time"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Path is the way of a call: what was decided on it, in order, and how it may end.
type Path struct {
	Call  Call   `json:"call"`
	Steps []Step `json:"steps"`
	// Endings are the ways that the call may end. Their shares add up to 1.
	Endings []Ending `json:"endings"`
	// Callee is the way of the call at the proxy of the workload that it goes to, where that was asked for.
	Callee *Path `json:"callee,omitempty"`
	// Metadata is what filters have said of the call, by their names (DYNAMIC_METADATA of access logs): what rules of access find
	// that are only tried, and what is in a token.
	Metadata map[string]map[string]any `json:"metadata,omitempty"`
}

// Stage is the part of a proxy that a step is about.
type Stage string

// The stages, in the order in which a call passes them.
const (
	StageListener    Stage = "listener"
	StageInspector   Stage = "inspector" // listener filters
	StageFilterChain Stage = "filter chain"
	StageFilter      Stage = "filter" // network and HTTP filters
	StageRoutes      Stage = "routes" // a RouteConfiguration
	StageAccess      Stage = "access" // who may call
	StageVirtualHost Stage = "virtual host"
	StageRoute       Stage = "route"
	StageAction      Stage = "action"
	StageRewrite     Stage = "rewrite"
	StageHeaders     Stage = "headers"
	StagePolicy      Stage = "policy" // timeouts, retries, hashing
	StageMirror      Stage = "mirror"
	StageCluster     Stage = "cluster"
	StageEndpoints   Stage = "endpoints"
	// StageUnsupported is what this package cannot follow.
	StageUnsupported Stage = "unsupported"
)

// Step is one decision.
type Step struct {
	Stage Stage `json:"stage"`
	// Resource is the name of what decided, as Envoy calls it: a listener, a filter chain, a virtual host, a cluster.
	Resource string `json:"resource,omitempty"`
	// Matched says what of the call was looked at and fitted.
	Matched string `json:"matched,omitempty"`
	// Decided says what follows.
	Decided string `json:"decided"`
	// By are the objects that made it so.
	By []Object `json:"by,omitempty"`
	// Missed are rules that the call nearly fits, and what of it they do not take.
	Missed []string `json:"missed,omitempty"`
}

// Object is an object that a user wrote, and the part of it that counted.
type Object struct {
	config.Key
	// Rule is the path of the part: "spec.http[2].match[0]". "" where it is not known, or the whole object counted.
	Rule string `json:"rule,omitempty"`
}

// Kind says how a call ends.
type Kind string

// The kinds of endings.
const (
	// Forwarded: to an endpoint of a cluster.
	Forwarded Kind = "forwarded"
	// Answered: by the proxy itself.
	Answered Kind = "answered"
	// Closed: the connection is closed or reset without an answer.
	Closed Kind = "closed"
	// Refused: nothing listens there.
	Refused Kind = "refused"
	// Waiting: the proxy waits for the client's first bytes, for ever.
	Waiting Kind = "waiting"
	// Unknown: this package cannot follow the call; the last step says why.
	Unknown Kind = "unknown"
)

// Ending is one way that a call may end.
type Ending struct {
	// Share of all calls like this one, between 0 and 1.
	Share float64 `json:"share"`
	Kind  Kind    `json:"kind"`
	// Delay is how long the proxy waits on purpose before it goes on.
	Delay time.Duration `json:"delay,omitempty"`
	// Reason says why, where the call is not forwarded.
	Reason string `json:"reason,omitempty"`
	// Details are what access logs say where access is refused (RESPONSE_CODE_DETAILS of requests, CONNECTION_TERMINATION_DETAILS):
	// "rbac_access_denied_matched_policy[ns[shop]-policy[web]-rule[0]]".
	Details string `json:"details,omitempty"`

	// Cluster is where it is forwarded to; Route the name of the route, as access logs have it.
	Cluster string `json:"cluster,omitempty"`
	Route   string `json:"route,omitempty"`
	// Endpoints are those that may get it, with their shares of this ending.
	Endpoints []Endpoint `json:"endpoints,omitempty"`
	// Upstream is the request as the endpoint sees it; nil where the call carries no HTTP.
	Upstream *Request `json:"upstream,omitempty"`
	// Transport says how the endpoint is spoken to: "plain text", "TLS, server name x".
	Transport string `json:"transport,omitempty"`
	// Protocol is the HTTP that it is spoken to: "HTTP/1.1", "HTTP/2".
	Protocol string `json:"protocol,omitempty"`
	// Mirrors get copies.
	Mirrors []Mirror `json:"mirrors,omitempty"`
	// Timeout bounds the whole request; 0: nothing does. PerTry bounds each attempt; Retries says how many more there may be.
	Timeout time.Duration `json:"timeout,omitempty"`
	PerTry  time.Duration `json:"perTry,omitempty"`
	Retries *Retries      `json:"retries,omitempty"`

	// Status, Body and Header are the proxy's own answer.
	Status int      `json:"status,omitempty"`
	Body   string   `json:"body,omitempty"`
	Header []Header `json:"header,omitempty"`
	// Response is what is done to the headers of the answer, in order, whoever gives it.
	Response []HeaderChange `json:"response,omitempty"`
}

// Retries is how often a request is sent again, and after what.
type Retries struct {
	Attempts uint32 `json:"attempts"` // besides the first
	On       string `json:"on"`
}

// Endpoint is where a call may end up.
type Endpoint struct {
	// Address is "10.0.0.1:80", a name with a port, a socket's path, or "original destination".
	Address  string `json:"address"`
	Locality string `json:"locality,omitempty"` // "region/zone/subzone"
	Priority uint32 `json:"priority,omitempty"`
	// Share is that of the ending's calls, between 0 and 1; where the balancer is sticky, of all callers.
	Share float64 `json:"share"`
	// Transport says how it is spoken to where not all endpoints of the cluster are spoken to alike; else the ending's says it.
	Transport string `json:"transport,omitempty"`

	// peer says that it takes mutual TLS of proxies.
	peer bool
}

// Mirror is a cluster that gets a copy of a share of the requests, and drops what it answers.
type Mirror struct {
	Cluster string  `json:"cluster"`
	Share   float64 `json:"share"` // of the ending's requests
	// Endpoints are those that may get it.
	Endpoints []Endpoint `json:"endpoints,omitempty"`
}

// Header is one header line.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// HeaderChange is one change to headers.
type HeaderChange struct {
	// Do is "set" (replace), "add" (append a line), "default" (only where there is none), "replace" (only where there is one) or
	// "remove".
	Do    string `json:"do"`
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

// Supported says whether the whole way could be followed.
func (p *Path) Supported() bool {
	for _, s := range p.Steps {
		if s.Stage == StageUnsupported {
			return false
		}
	}
	return true
}
