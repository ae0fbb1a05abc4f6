package explain

import (
	"net/http"
	"strconv"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
)

// redirectEnding answers the request with a redirect and adds a step, and one for changes of the
// response's headers.
func (x *exchange) redirectEnding(d *routev3.RedirectAction) []Ending {
	e := Ending{
		Share:  1,
		Kind:   Answered,
		Status: redirectStatus(d.GetResponseCode()),
		Reason: "redirect",
		Route:  x.routed.route.GetName(),
		Header: []Header{{"location", x.redirectLocation(d)}},
	}
	x.addStep(Step{Stage: StageAction, Decided: "answers " + e.describe(), By: x.routeObjects(x.routed.route)})
	e.Response = x.responseChanges(nil)
	return []Ending{e}
}

// redirectStatus returns the HTTP status of a redirect. For MOVED_PERMANENTLY, the default, and for
// unknown codes it is 301.
func redirectStatus(c routev3.RedirectAction_RedirectResponseCode) int {
	switch c {
	case routev3.RedirectAction_FOUND:
		return http.StatusFound
	case routev3.RedirectAction_SEE_OTHER:
		return http.StatusSeeOther
	case routev3.RedirectAction_TEMPORARY_REDIRECT:
		return http.StatusTemporaryRedirect
	case routev3.RedirectAction_PERMANENT_REDIRECT:
		return http.StatusPermanentRedirect
	default:
		return http.StatusMovedPermanently
	}
}

// redirectLocation returns the URL of a redirect, with the path of redirectPath. Parts that the
// redirect does not set are taken from the request; httpsRedirect precedes a scheme. The request's
// port is dropped if the redirect sets a host or port. It is also dropped if it is the default port
// of a scheme that changes.
func (x *exchange) redirectLocation(d *routev3.RedirectAction) string {
	scheme := x.request.Scheme
	switch {
	case d.GetHttpsRedirect():
		scheme = "https"
	case d.GetSchemeRedirect() != "":
		scheme = d.GetSchemeRedirect()
	}
	port := ""
	if d.GetPortRedirect() != 0 {
		port = ":" + strconv.FormatUint(uint64(d.GetPortRedirect()), 10)
	}
	host := d.GetHostRedirect()
	if host == "" {
		host = x.request.Authority
		bare := withoutPort(host)
		given := strings.TrimPrefix(host, bare)
		// The port of the request remains, unless the redirect sets one or it was the default port
		// of a changed scheme.
		if port != "" ||
			scheme != x.request.Scheme &&
				(x.request.Scheme == "http" && given == ":80" || x.request.Scheme == "https" && given == ":443") {
			host = bare
		}
	}
	return scheme + "://" + host + port + x.redirectPath(d)
}

// redirectPath returns the path of a redirect: the redirect's own path, or the request's path with
// the matched part replaced by the redirect's prefix, or substituted by its regular expression, or
// else unchanged. The request's query is appended unless it is stripped or the redirect's own path
// has a query.
func (x *exchange) redirectPath(d *routev3.RedirectAction) string {
	path, query := x.request.splitPath()
	switch p := d.GetPathRewriteSpecifier().(type) {
	case *routev3.RedirectAction_PathRedirect:
		if strings.Contains(p.PathRedirect, "?") {
			return p.PathRedirect
		}
		path = p.PathRedirect
	case *routev3.RedirectAction_PrefixRewrite:
		path = p.PrefixRewrite + strings.TrimPrefix(path, x.routed.matched)
	case *routev3.RedirectAction_RegexRewrite:
		path = substituteRegex(p.RegexRewrite, path)
	}
	if query == "" || d.GetStripQuery() {
		return path
	}
	return path + "?" + query
}
