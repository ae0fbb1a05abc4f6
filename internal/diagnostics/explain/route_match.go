package explain

import (
	"fmt"
	"net/http"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
)

// matchesRoute reports whether a route matches the request, with the results of matchRoute.
// Conditions on dynamic metadata must hold, too, and are added to why. It stops at the first
// condition that does not hold. If only such a condition fails, matched is still set.
func (x *exchange) matchesRoute(m *routev3.RouteMatch) (ok bool, matched, why string, err error) {
	ok, matched, why, err = matchRoute(m, x.request)
	for _, d := range m.GetDynamicMetadata() {
		if err != nil || !ok {
			break
		}
		var f finding
		f, err = rbacCall{x.walk, x.request}.evalMetadata(d)
		ok, why = f.ok, why+", "+f.why
	}
	return ok, matched, why, err
}

// matchRoute reports whether a RouteMatch accepts a request. matched is the part of the path that
// rewrites replace; it is empty without a match. why describes the conditions, or without a match
// the first one that failed. Unsupported conditions are errors (client certificate, filter state
// and cookies only if all else matches); dynamic metadata and fractions are ignored.
func matchRoute(m *routev3.RouteMatch, r *Request) (ok bool, matched, why string, err error) {
	path, _ := r.splitPath()
	ok, matched, why, err = pathMatches(m, r, path)
	if err != nil || !ok {
		return false, "", why, err
	}
	reasons := []string{why}
	if m.GetGrpc() != nil && !r.isGRPC() {
		return false, "", "request is gRPC", nil
	}
	for _, h := range m.GetHeaders() {
		if ok, err := headerMatches(h, r); err != nil || !ok {
			return false, "", headerText(h), err
		}
		reasons = append(reasons, headerText(h))
	}
	for _, q := range m.GetQueryParameters() {
		if ok, err := queryMatches(q, r); err != nil || !ok {
			return false, "", queryText(q), err
		}
		reasons = append(reasons, queryText(q))
	}
	switch {
	case m.GetTlsContext() != nil:
		return false, "", "", fmt.Errorf("route matching on the client certificate is not supported")
	case len(m.GetFilterState()) > 0:
		return false, "", "", fmt.Errorf("route matching on filter state is not supported")
	case len(m.GetCookies()) > 0:
		return false, "", "", fmt.Errorf("route matching on cookies is not supported")
	}
	return true, matched, strings.Join(reasons, ", "), nil
}

// pathOnly reports whether a RouteMatch accepts the path of the request, regardless of its other
// conditions. An unsupported path matcher accepts none.
func (x *exchange) pathOnly(m *routev3.RouteMatch) bool {
	path, _ := x.request.splitPath()
	ok, _, _, err := pathMatches(m, x.request, path)
	return err == nil && ok
}

// pathMatches reports whether the path, which is passed without its query, fulfils the path
// condition of m. It ignores case if m is not case-sensitive, except for regular expressions.
// matched is the part of the path that was compared and why describes the condition; both are set
// on a mismatch too. An unsupported condition is an error.
func pathMatches(m *routev3.RouteMatch, r *Request, path string) (ok bool, matched, why string, err error) {
	fold := m.GetCaseSensitive() != nil && !m.GetCaseSensitive().GetValue()
	same := func(s string) string {
		if fold {
			return strings.ToLower(s)
		}
		return s
	}
	manner := ""
	if fold {
		manner = " in any case"
	}
	switch p := m.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Prefix:
		ok = strings.HasPrefix(same(path), same(p.Prefix))
		return ok, path[:min(len(p.Prefix), len(path))], "path begins with " + p.Prefix + manner, nil
	case *routev3.RouteMatch_Path:
		return same(path) == same(p.Path), path, "path is " + p.Path + manner, nil
	case *routev3.RouteMatch_PathSeparatedPrefix:
		rest, has := strings.CutPrefix(same(path), same(p.PathSeparatedPrefix))
		return has &&
				(rest == "" || rest[0] == '/'), path[:min(len(p.PathSeparatedPrefix), len(path))], "path is " +
				p.PathSeparatedPrefix + ", or below it" + manner, nil
	case *routev3.RouteMatch_SafeRegex:
		ok, err = matchesWhole(p.SafeRegex.GetRegex(), path)
		return ok, path, "path matches " + p.SafeRegex.GetRegex(), err
	case *routev3.RouteMatch_ConnectMatcher_:
		return r.Method == http.MethodConnect, "", "method is CONNECT", nil
	default:
		return false, "", "", fmt.Errorf("the path matcher %T is not supported", p)
	}
}

// routeFraction returns the share of requests that a RouteMatch accepts at most: the default value
// of its runtime_fraction, or 1 if it has none.
func routeFraction(m *routev3.RouteMatch) float64 {
	if m.GetRuntimeFraction() == nil {
		return 1
	}
	return fractionOf(m.GetRuntimeFraction().GetDefaultValue())
}

// fractionOf converts a FractionalPercent to a number between 0 and 1. It is at most 1.
func fractionOf(p *typev3.FractionalPercent) float64 {
	of := 100.0
	switch p.GetDenominator() {
	case typev3.FractionalPercent_TEN_THOUSAND:
		of = 10_000
	case typev3.FractionalPercent_MILLION:
		of = 1_000_000
	}
	return min(1, float64(p.GetNumerator())/of)
}
