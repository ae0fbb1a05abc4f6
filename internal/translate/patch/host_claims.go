package patch

import (
	"bytes"
	"fmt"
)

// claims are the name and domains that a virtual host must not share with another one: Envoy would
// refuse the RouteConfiguration.
type claims struct {
	name    string
	domains map[string]bool // in lower case, as Envoy compares them
	twice   string          // a domain that the virtual host itself has twice
}

// newClaims returns the name and domains of the encoded VirtualHost host that the encoded
// VirtualHost before does not have; before may be nil. twice is a domain that host has twice,
// ignoring case, or "".
func newClaims(host, before []byte) claims {
	oldName, oldDomains := "", map[string]bool{}
	forEachClaim(before, func(f field, _ []byte) {
		if f.number == virtualHostName {
			oldName = string(f.body)
		} else {
			oldDomains[string(f.body)] = true
		}
	})
	c := claims{domains: map[string]bool{}}
	seen := map[string]bool{}
	forEachClaim(host, func(f field, lower []byte) {
		switch {
		case f.number == virtualHostName:
			if name := string(f.body); name != oldName {
				c.name = name
			}
		case seen[string(lower)]:
			c.twice = string(lower)
		default:
			seen[string(lower)] = true
			if !oldDomains[string(f.body)] {
				c.domains[string(lower)] = true
			}
		}
	})
	return c
}

// forEachClaim calls visit for the name and each domain of an encoded VirtualHost. lower is the
// domain in lower case, nil for the name.
func forEachClaim(host []byte, visit func(f field, lower []byte)) {
	forEachField(host, func(f field) bool {
		switch f.number {
		case virtualHostName:
			visit(f, nil)
		case virtualHostDomains:
			visit(f, bytes.ToLower(f.body))
		}
		return f.number <= virtualHostDomains
	})
}

// conflictOf returns an error if c has a domain twice. It also returns one if a virtual host, other
// than the one at index except, has the name or, ignoring case, a domain of c. It returns nil
// otherwise.
func (w *routesWork) conflictOf(c claims, except int) error {
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
		forEachField(h, func(f field) bool {
			switch {
			case f.number == virtualHostName && c.name != "" && string(f.body) == c.name:
				found = fmt.Errorf("there is another virtual host %q in the RouteConfiguration", c.name)
			case f.number == virtualHostDomains &&
				(c.domains[string(f.body)] || c.domains[string(bytes.ToLower(f.body))]):
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
