package config

import "time"

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
	// Precedes is set for a VirtualService whose routes take precedence over those of
	// VirtualServices without an Extension.
	Precedes bool `json:",omitempty"`
}

// GatewayExtension extends a Gateway, which is one listener of the Gateway API.
type GatewayExtension struct {
	// OwnNamespace restricts the selector to proxies of the Gateway's namespace.
	OwnNamespace bool `json:",omitempty"`
	// OptionalClientCertificate requests client certificates, but also accepts clients without one
	// or with one that cannot be verified (AllowInsecureFallback).
	OptionalClientCertificate bool `json:",omitempty"`
	// UDP is set if the port is a UDP port.
	UDP bool `json:",omitempty"`
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
	// Session is the session persistence, or nil.
	Session *SessionPersistence `json:",omitempty"`
	// CORS is the CORS policy of the Gateway API, or nil.
	CORS *CORSPolicy `json:",omitempty"`
	// ExternalAuth is the authorization server that decides about requests of the route, or nil.
	ExternalAuth *ExternalAuth `json:",omitempty"`
}

// SessionPersistence makes requests of a session return to the same endpoint.
type SessionPersistence struct {
	// Cookie or Header is the name of the cookie or header that carries the session.
	Cookie string `json:",omitempty"`
	Header string `json:",omitempty"`
	// Lifetime is the lifetime of the cookie; 0 ends it with the browser's session.
	Lifetime time.Duration `json:",omitempty"`
	Path     string        `json:",omitempty"`
}

// CORSPolicy is the CORS filter of an HTTPRoute. "*" in a list permits all values.
type CORSPolicy struct {
	AllowOrigins, AllowMethods, AllowHeaders, ExposeHeaders []string `json:",omitempty"`
	AllowCredentials                                        bool     `json:",omitempty"`
	// MaxAge is how long, in seconds, browsers may cache the answer to a preflight request.
	MaxAge int32
}

// ExternalAuth is the external authorization filter of an HTTPRoute.
type ExternalAuth struct {
	// Host and Port are the authorization server, a service of the mesh.
	Host string
	Port uint32
	GRPC bool `json:",omitempty"`
	// Path is a prefix of the path of checks over HTTP.
	Path string `json:",omitempty"`
	// RequestHeaders are the headers of the request that are sent to the server, besides Envoy's
	// own; ResponseHeaders the headers of its response that are added to the request. Empty lists
	// allow the defaults of the specification.
	RequestHeaders, ResponseHeaders []string `json:",omitempty"`
	// MaxBody is how many bytes of the body are sent; 0 sends none.
	MaxBody uint32 `json:",omitempty"`
}
