package calltest

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
)

// The decisions of a Verdict.
const (
	Allow           = "allow"
	Deny            = "deny"            // 403, grpc-status 7, or a closed connection
	Unauthenticated = "unauthenticated" // 401
	Bad             = "bad"             // 400
	Closed          = "closed"          // no handshake, or no HTTP
)

// Verdict is the expected decision on a call.
type Verdict struct {
	Decision string
	// By is the deciding rule "NAMESPACE/POLICY[RULE]"; "none" if no rule allows the call; "" if it
	// is not checked.
	By string
	// Policy is the rule as Envoy names it.
	Policy string
	// Details are the whole details in the access log (RESPONSE_CODE_DETAILS); "" if they are not
	// checked.
	Details string
}

// ParseVerdict reads a decision with an optional rule or details in parentheses: "allow", "deny by
// shop/web[0]", "deny by none", "deny (ext_authz_denied)". "by NAMESPACE/NAME[RULE]" sets Policy
// and, for deny, the Details of that rule; "by none" sets the Details of no matching rule. It
// returns an error for an unknown decision.
func ParseVerdict(text string) (Verdict, error) {
	decision, details, _ := strings.Cut(text, " (")
	v := Verdict{Details: strings.TrimSuffix(details, ")")}
	v.Decision, v.By, _ = strings.Cut(decision, " by ")
	switch v.Decision {
	case Allow, Deny, Unauthenticated, Bad, Closed:
	default:
		return v, fmt.Errorf("verdict %q: want %s, %s, %s, %s or %s", text, Allow, Deny, Unauthenticated, Bad, Closed)
	}
	switch namespace, rest, ok := strings.Cut(v.By, "/"); {
	case ok:
		name, rule, _ := strings.Cut(strings.TrimSuffix(rest, "]"), "[")
		v.Policy = fmt.Sprintf("ns[%s]-policy[%s]-rule[%s]", namespace, name, rule)
		if v.Decision == Deny {
			v.Details = "rbac_access_denied_matched_policy[" + v.Policy + "]"
		}
	case v.By == "none":
		v.Details = "rbac_access_denied_matched_policy[none]"
	}
	return v, nil
}

// DecisionOf returns Allow for a forwarded call, and Closed for an ending without a response. For a
// response it returns Deny (403, or gRPC status 7), Unauthenticated (401), Bad (400), or else the
// status code as text.
func DecisionOf(e explain.Ending) string {
	grpcDenied := explain.Header{Name: "grpc-status", Value: "7"}
	switch {
	case e.Kind == explain.Forwarded:
		return Allow
	case e.Kind != explain.Answered:
		return Closed
	case len(e.Header) > 1 && e.Header[1] == grpcDenied, e.Status == http.StatusForbidden:
		return Deny
	case e.Status == http.StatusUnauthorized:
		return Unauthenticated
	case e.Status == http.StatusBadRequest:
		return Bad
	default:
		return fmt.Sprint(e.Status)
	}
}

// effectivePolicies returns the names of the rules that allowed a call, by the metadata of the HTTP
// and then the network RBAC filter. Without such metadata it returns nil.
func effectivePolicies(p *explain.Path) []string {
	var list []string
	for _, filter := range []string{"envoy.filters.http.rbac", "envoy.filters.network.rbac"} {
		if name, ok := p.Metadata[filter]["enforced_effective_policy_id"]; ok {
			list = append(list, fmt.Sprint(name))
		}
	}
	return list
}
