package config

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	"k8s.io/apimachinery/pkg/util/validation"
)

// claimsPrefix is the prefix of names in "headers" that match claims of a token (gateways only).
const claimsPrefix = "@request.auth.claims"

// maxParameter is the maximum length, in bytes, of the name of a query parameter to match (Envoy's
// QueryParameterMatcher).
const maxParameter = 1 << 10

// checkHTTPMatch adds Errors for invalid regular expressions, headers, query parameters, ports,
// labels, gateways and namespaces in a match of an HTTP route. Parts that match everything or are
// ignored, and an old form of a gateway's name, are Warnings.
func (r *report) checkHTTPMatch(at path, match *networking.HTTPMatchRequest) {
	for _, part := range []struct {
		name  string
		match *networking.StringMatch
	}{
		{"uri", match.GetUri()}, {"scheme", match.GetScheme()}, {"method", match.GetMethod()},
		{"authority", match.GetAuthority()},
	} {
		if part.match == nil {
			continue
		}
		if part.match.GetMatchType() == nil {
			r.warnf(at.Child(part.name), "has neither exact, prefix nor regex and matches everything")
		}
		r.checkStringMatch(at.Child(part.name), part.match, true)
	}
	r.checkHeaderMatches(at.Child("headers"), match.GetHeaders(), false)
	r.checkHeaderMatches(at.Child("withoutHeaders"), match.GetWithoutHeaders(), true)
	for _, name := range sortedKeys(match.GetQueryParams()) {
		if name == "" {
			r.errorf(at.Child("queryParams").Key(name), "a parameter name is required")
		}
		if len(name) > maxParameter {
			r.errorf(at.Child("queryParams"),
				"a parameter name has %d bytes, at most %d are allowed", len(name), maxParameter)
		}
		r.checkStringMatch(at.Child("queryParams").Key(name), match.GetQueryParams()[name], false)
	}
	r.checkOptionalPort(at.Child("port"), match.GetPort())
	r.checkLabels(at.Child("sourceLabels"), match.GetSourceLabels())
	r.checkGatewayNames(at.Child("gateways"), match.GetGateways())
	r.checkSourceNamespace(at.Child("sourceNamespace"), match.GetSourceNamespace())
}

// checkSourceNamespace adds an Error if namespace is neither empty nor a valid name.
func (r *report) checkSourceNamespace(at path, namespace string) {
	if namespace != "" && len(validation.IsDNS1123Label(namespace)) > 0 {
		r.errorf(at, "%q is not a namespace's name", namespace)
	}
}

// checkHeaderMatches adds Errors for malformed claims, header names and values, and Warnings for
// names that are fields of the match. without is set if matching requests are excluded
// (withoutHeaders); the regular expression "*" is then accepted.
func (r *report) checkHeaderMatches(at path, matches map[string]*networking.StringMatch, without bool) {
	for _, name := range sortedKeys(matches) {
		here := at.Key(name)
		switch {
		case strings.HasPrefix(name, claimsPrefix):
			if rest := name[len(claimsPrefix):]; len(rest) < 2 || !strings.ContainsAny(rest[:1], ".[") {
				r.errorf(here, "must name a claim: %s.NAME or %s[NAME]", claimsPrefix, claimsPrefix)
			}
		case slices.Contains([]string{"uri", "scheme", "method", "authority"}, name):
			r.warnf(here, "is ignored as the name of a header: use the field %q of the match", name)
		default:
			r.addFault(here, HeaderNameFault(name))
		}
		if matches[name].GetRegex() == "*" && without {
			continue // not RE2, but Istio has always accepted it as any value
		}
		r.checkStringMatch(here, matches[name], false) // without a kind of match the header must be present
	}
}

// checkStringMatch adds an Error for an invalid regular expression. An empty prefix matches
// everything, so it is an Error unless emptyPrefix is set, as for paths. An empty exact match is
// valid, as is a match without a kind.
func (r *report) checkStringMatch(at path, match *networking.StringMatch, emptyPrefix bool) {
	switch m := match.GetMatchType().(type) {
	case *networking.StringMatch_Prefix:
		if m.Prefix == "" && !emptyPrefix {
			r.errorf(at.Child("prefix"), "is empty")
		}
	case *networking.StringMatch_Regex:
		r.checkRegexp(at.Child("regex"), m.Regex)
	}
}
