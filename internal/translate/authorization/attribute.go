package authorization

import (
	"strings"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
)

// attribute is a property of calls that policies match. Exactly one of permission and principal is
// set: it returns the matcher of a value.
type attribute struct {
	permission func(s scope, value string) *rbacv3.Permission
	principal  func(s scope, value string) *rbacv3.Principal
	// requests is set if only requests have the attribute, not raw connections.
	requests bool
}

// scope is the context in which a value is interpreted.
type scope struct {
	// namespace is the policy's namespace.
	namespace string
	// domains are the mesh's trust domains, its own first.
	domains []string
	// mergesSlashes reports whether meshConfig.pathNormalization merges the slashes of paths.
	mergesSlashes bool
	// name is the text in brackets after the attribute: "x" of request.headers[x].
	name string
	// admits is set if calls that match the value are admitted: for values of ALLOW rules, and for
	// values that rules of other actions exclude.
	admits bool
}

// attributeOf returns the attribute that the key of a "when" condition names, with the name in its
// brackets, or "" for keys without brackets. ok is false for an unknown key, and for brackets that
// are missing, empty or not allowed. Brackets are required after request.headers,
// request.auth.claims and experimental.envoy.filters.*, and refused after all other keys.
func attributeOf(key string) (a attribute, name string, ok bool) {
	base, rest, bracketed := strings.Cut(key, "[")
	if bracketed {
		if !strings.HasSuffix(rest, "]") {
			return attribute{}, "", false
		}
		name = strings.TrimSuffix(rest, "]")
	}
	switch {
	case base == "request.headers" && name != "":
		return attribute{permission: nil, principal: headerIs, requests: true}, name, true
	case base == "request.auth.claims" && name != "":
		return attribute{principal: claimIs, requests: true}, name, true
	case strings.HasPrefix(base, "experimental.envoy.filters.") && name != "":
		return attribute{permission: metadataIs(strings.TrimPrefix(base, "experimental."))}, name, true
	case bracketed:
		return attribute{}, "", false
	}
	a, ok = attributes()[key]
	return a, "", ok
}

// attributes returns the attributes of "when" conditions whose keys have no brackets, by key.
func attributes() map[string]attribute {
	return map[string]attribute{
		"source.ip":              {principal: directIP},
		"remote.ip":              {principal: remoteIP},
		"source.namespace":       {principal: namespaceIs},
		"source.principal":       {principal: principalIs},
		"source.serviceAccount":  {principal: serviceAccountIs},
		"source.trustDomain":     {principal: trustDomainIs},
		"request.auth.principal": {principal: requestPrincipalIs, requests: true},
		"request.auth.audiences": {principal: audienceIs, requests: true},
		"request.auth.presenter": {principal: presenterIs, requests: true},
		"destination.ip":         {permission: destinationIP},
		"destination.port":       {permission: destinationPort},
		"connection.sni":         {permission: serverName},
	}
}
