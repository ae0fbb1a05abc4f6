package routetest

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Request is a request as Envoy's router sees it.
type Request struct {
	Method string
	Scheme string
	// Authority is the Host header, with its port if it has one.
	Authority string
	// Path is without the query.
	Path  string
	Query url.Values
	// Header has the names in canonical form, as http.Header does.
	Header http.Header
}

// Parse reads a request as people write it: "GET http://reviews:9080/path?q=1 end-user=jason". Headers follow the URL;
// the header "host" goes before the URL's host.
func Parse(text string) (Request, error) {
	words := strings.Fields(text)
	if len(words) < 2 {
		return Request{}, fmt.Errorf("parse request %q: want METHOD URL [HEADER=VALUE]", text)
	}
	u, err := url.Parse(words[1])
	if err != nil {
		return Request{}, fmt.Errorf("parse request %q: %w", text, err)
	}
	if u.Path == "" {
		u.Path = "/"
	}
	r := Request{Method: words[0], Scheme: u.Scheme, Authority: u.Host, Path: u.EscapedPath(), Query: u.Query(), Header: http.Header{}}
	for _, w := range words[2:] {
		name, value, ok := strings.Cut(w, "=")
		if !ok {
			return Request{}, fmt.Errorf("parse request %q: header %q has no value", text, w)
		}
		if strings.EqualFold(name, "host") {
			r.Authority = value
			continue
		}
		r.Header.Add(name, value)
	}
	return r, nil
}
