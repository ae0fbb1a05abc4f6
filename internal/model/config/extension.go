package config

import (
	"slices"
	"time"
)

// Extension is what a registry that converts objects of another API to Istio's kinds adds to an
// object, because the messages of istio.io/api cannot express it. It is immutable and part of the
// object's Hash, so all its fields are exported and encodable in JSON.
type Extension struct {
	// Source is the object that was converted.
	Source Key
	// Gateway belongs to a Gateway.
	Gateway *GatewayExtension `json:",omitempty"`
	// HTTP belongs to a VirtualService: one entry for each element of spec.http, in its order.
	HTTP []HTTPExtension `json:",omitempty"`
	// BackendTLS belongs to a DestinationRule.
	BackendTLS []BackendTLS `json:",omitempty"`
	// RetryBudget belongs to a DestinationRule, or is nil. It replaces the retry budget of users'
	// DestinationRules.
	RetryBudget *RetryBudget `json:",omitempty"`
	// Precedes is set for a VirtualService whose routes take precedence over VirtualServices
	// without an Extension.
	Precedes bool `json:",omitempty"`
}

// AppliesByAddress reports whether the HTTP routes of a VirtualService apply to all requests that
// are sent to the addresses of its hosts, whatever host a request names. That is the case if
// Precedes is set and HTTP is not empty. It returns false for nil.
func (x *Extension) AppliesByAddress() bool { return x != nil && x.Precedes && len(x.HTTP) > 0 }

// GatewayExtension extends a Gateway, which is one listener of the Gateway API.
type GatewayExtension struct {
	// OwnNamespace restricts the selector to proxies of the Gateway's namespace.
	OwnNamespace bool `json:",omitempty"`
	// Managed is set if proxies are deployed for the Gateway: none of its addresses names a Service
	// of proxies that run already.
	Managed bool `json:",omitempty"`
	// ServiceAccount is the only service account of the Gateway's namespace whose proxies may have
	// the private keys that the Gateway names; "" permits all.
	ServiceAccount string `json:",omitempty"`
	// RouteNamespaces are the namespaces whose VirtualServices may be bound to the listener, sorted;
	// "*" alone permits all. VirtualServices with an Extension need no permission here.
	RouteNamespaces []string `json:",omitempty"`
	// ClientCertificate is the name of the credential that the proxies may show to backends, or "".
	ClientCertificate string `json:",omitempty"`
}

// PermitsRoute reports whether the VirtualService c may be bound to the Gateway. It returns true
// for nil, which is no listener of the Gateway API.
func (x *GatewayExtension) PermitsRoute(c *Config) bool {
	return x == nil || c.Extension != nil || slices.Contains(x.RouteNamespaces, "*") ||
		slices.Contains(x.RouteNamespaces, c.Namespace)
}

// PermitsAccount reports whether proxies of a service account of the Gateway's namespace may have
// the private keys that the Gateway names. It returns true for "", a proxy without an authenticated
// account, and if the Extension is nil or limits no accounts.
func (x *Extension) PermitsAccount(account string) bool {
	limit := x.keyAccount()
	return limit == "" || account == "" || limit == account
}

// LimitsAccounts reports whether the private keys that a Gateway names are for one service account
// only. It returns false for nil.
func (x *Extension) LimitsAccounts() bool { return x.keyAccount() != "" }

// keyAccount returns GatewayExtension.ServiceAccount, or "" without one.
func (x *Extension) keyAccount() string {
	if x == nil || x.Gateway == nil {
		return ""
	}
	return x.Gateway.ServiceAccount
}

// BackendTLS is the TLS of connections to a host. It fills in the TLS settings that users'
// DestinationRules leave unset, and changes no others.
type BackendTLS struct {
	// Port is the only port of the host to which it applies, or 0 for all ports without an own entry.
	Port uint32 `json:",omitempty"`
	// CredentialName is the name of the CA certificates; "" for the operating system's.
	CredentialName string `json:",omitempty"`
	// ClientCredential is the name of the client certificate; "" for none.
	ClientCredential string `json:",omitempty"`
	// ServerName is the SNI of connections, and Names the accepted subject alternative names.
	ServerName string
	Names      []string
}

// RetryBudget limits the retries to a host.
type RetryBudget struct {
	// Percent is the share of active requests that may be retries, from 0 to 100, and Interval the
	// time in which requests are counted as active.
	Percent  float64
	Interval time.Duration
	// MinConcurrency is the number of concurrent retries that is always permitted.
	MinConcurrency uint32
}

// HTTPExtension extends an HTTPRoute of a VirtualService, which has at most one match.
type HTTPExtension struct {
	// Order is the position of the route among all routes of a virtual host that have an
	// HTTPExtension, whatever VirtualService they are in: routes are matched in the order of these
	// texts.
	Order string
	// PathElements is set if match.uri.prefix consists of whole path elements: "/a" matches "/a" and
	// "/a/b", but not "/ab".
	PathElements bool `json:",omitempty"`
	// RedirectPattern is a regular expression for the path of a redirect, and RedirectTo what its
	// match is replaced with; RedirectPattern is "" if the redirect keeps or replaces the path.
	RedirectPattern string `json:",omitempty"`
	RedirectTo      string `json:",omitempty"`
	// InvalidWeight is the weight of destinations that cannot be used. This share of the requests is
	// answered with InvalidStatus.
	InvalidWeight uint32 `json:",omitempty"`
	// InvalidStatus is the status of these answers.
	InvalidStatus uint32 `json:",omitempty"`
	// CORS is the CORS policy of the Gateway API, or nil.
	CORS *CORSPolicy `json:",omitempty"`
	// Session is how clients return to the same endpoint, or nil. It replaces the session of the
	// destination's service.
	Session *SessionPersistence `json:",omitempty"`
	// Authorizer decides which requests are forwarded, or nil.
	Authorizer *Authorizer `json:",omitempty"`
	// Backends are the filters of each destination of the rule, in its order; nil if none has any.
	Backends []BackendFilters `json:",omitempty"`
}

// BackendFilters are filters for the requests to one of several destinations. They take precedence
// over the filters of the rule.
type BackendFilters struct {
	CORS       *CORSPolicy `json:",omitempty"`
	Authorizer *Authorizer `json:",omitempty"`
	// Picker chooses the endpoint of each request; nil if the load balancer does.
	Picker *EndpointPicker `json:",omitempty"`
}

// Authorizers returns the rule's own authorizer, if it has one, followed by the authorizers of its
// backends. Duplicates are kept.
func (x *HTTPExtension) Authorizers() []*Authorizer {
	var list []*Authorizer
	if x.Authorizer != nil {
		list = append(list, x.Authorizer)
	}
	for _, b := range x.Backends {
		if b.Authorizer != nil {
			list = append(list, b.Authorizer)
		}
	}
	return list
}

// Pickers returns the endpoint pickers of the rule's backends. Backends without one are skipped;
// duplicates are kept.
func (x *HTTPExtension) Pickers() []*EndpointPicker {
	var list []*EndpointPicker
	for _, b := range x.Backends {
		if b.Picker != nil {
			list = append(list, b.Picker)
		}
	}
	return list
}

// EndpointPicker is an external service that chooses the endpoint of each request to an
// InferencePool, by the protocol of the Gateway API Inference Extension.
type EndpointPicker struct {
	// Host and Port are the destination of Envoy's external processing (ext_proc).
	Host string
	Port uint32
	// FailOpen forwards requests to any endpoint of the pool if the picker fails. Otherwise such
	// requests are answered with an error.
	FailOpen bool `json:",omitempty"`
}

// Authorizer is an external service that checks requests. Requests are refused if it does not answer.
type Authorizer struct {
	// Host and Port are the destination of checks.
	Host string
	Port uint32
	// GRPC uses Envoy's protocol ext_authz; otherwise checks are HTTP requests, and the answer 200
	// allows the request.
	GRPC bool `json:",omitempty"`
	// PathPrefix precedes the paths of HTTP checks.
	PathPrefix string `json:",omitempty"`
	// RequestHeaders are the headers of the request that a check has. An HTTP check always has some more.
	// If empty, a gRPC check has all headers.
	RequestHeaders []string `json:",omitempty"`
	// ResponseHeaders are the headers of the answer to an HTTP check that are added to the request. If
	// empty, all are.
	ResponseHeaders []string `json:",omitempty"`
	// MaxBody is the maximum size of a request's body in bytes; checks contain the body. If 0, checks
	// have no body.
	MaxBody uint32 `json:",omitempty"`
}

// SessionPersistence is a persistent session, identified by a cookie or a header that proxies set.
// Exactly one of Cookie and Header is set.
type SessionPersistence struct {
	Cookie, Header string `json:",omitempty"`
	// Path is the path of the cookie.
	Path string `json:",omitempty"`
	// Lifetime is how long, in seconds, the session and its cookie last; if 0, the cookie lasts until
	// the client deletes it.
	Lifetime int64 `json:",omitempty"`
}

// CORSPolicy is the CORS filter of an HTTPRoute. "*" in a list permits all values.
type CORSPolicy struct {
	AllowOrigins, AllowMethods, AllowHeaders, ExposeHeaders []string `json:",omitempty"`
	AllowCredentials                                        bool     `json:",omitempty"`
	// MaxAge is how long, in seconds, browsers may cache the answer to a preflight request.
	MaxAge int32
}
