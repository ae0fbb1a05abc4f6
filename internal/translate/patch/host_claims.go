package patch

import (
	"bytes"
	"fmt"
)

// claims are what a virtual host has that no other one of its RouteConfiguration may have: Envoy would refuse all of it.
type claims struct {
	name    string
	domains map[string]bool // in lower case, as Envoy compares them
	twice   string          // a domain that it has twice itself
}

// newClaims gives what an encoded VirtualHost claims that it did not before; before may be nil.
func newClaims(host, before []byte) claims {
	had := map[string]bool{}
	eachClaim(before, func(f field, _ []byte) { had[string(f.body)] = true })
	c := claims{domains: map[string]bool{}}
	eachClaim(host, func(f field, lower []byte) {
		switch {
		case f.number == virtualHostName && !had[string(f.body)]:
			c.name = string(f.body)
		case f.number == virtualHostDomains && c.domains[string(lower)]:
			c.twice = string(lower)
		case f.number == virtualHostDomains:
			c.domains[string(lower)] = !had[string(f.body)]
		}
	})
	for d, isNew := range c.domains {
		if !isNew {
			delete(c.domains, d)
		}
	}
	return c
}

// eachClaim walks over the names and domains of an encoded VirtualHost. lower is a domain in lower case.
func eachClaim(host []byte, visit func(f field, lower []byte)) {
	fields(host, func(f field) bool {
		switch f.number {
		case virtualHostName:
			visit(f, nil)
		case virtualHostDomains:
			visit(f, bytes.ToLower(f.body))
		}
		return f.number <= virtualHostDomains
	})
}

// conflict says which of the claims another virtual host has than the one at that place.
func (w *routesWork) conflict(c claims, except int) error {
	if c.twice != "" {
		return fmt.Errorf("the virtual host has the domain %q twice", c.twice)
	}
	if c.name == "" && len(c.domains) == 0 {
		return nil
	}
	var found error
	for at, h := range w.hosts {
		if at == except {
			continue
		}
		fields(h, func(f field) bool {
			switch {
			case f.number == virtualHostName && c.name != "" && string(f.body) == c.name:
				found = fmt.Errorf("there is another virtual host %q in the RouteConfiguration", c.name)
			case f.number == virtualHostDomains && (c.domains[string(f.body)] || c.domains[string(bytes.ToLower(f.body))]):
				found = fmt.Errorf("another virtual host of the RouteConfiguration has the domain %q", f.body)
			}
			return found == nil && f.number <= virtualHostDomains
		})
		if found != nil {
			return found
		}
	}
	return nil
}
