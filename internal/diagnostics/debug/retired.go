package debug

import (
	"fmt"
	"net/http"
)

// retiredPages returns the names of the debug pages that Istio had, with a text on the pages that
// replace them.
func retiredPages() map[string]string {
	return map[string]string{
		"authenticationz": "/debug/configz?kind=PeerAuthentication and ?kind=RequestAuthentication have the policies, " +
			"/debug/explain?proxyID=&url= which of them apply to a call",
		"cdsz":      "/debug/config_dump?proxyID= has the clusters that a proxy was sent",
		"workloadz": "/debug/instancesz has what each connected proxy serves, /debug/endpointz all endpoints",
	}
}

// missingPage returns the Refusal for a page name that does not exist: 410 Gone with the successor
// if the page is retired, otherwise 404 Not Found.
func missingPage(name string) Refusal {
	if successor, retired := retiredPages()[name]; retired {
		return Refusal{http.StatusGone, fmt.Sprintf("debug page %q was removed: %s", name, successor)}
	}
	return Refusal{http.StatusNotFound, fmt.Sprintf("there is no debug page %q", name)}
}

// handleRetired registers handlers that answer requests of operators for retired pages with 410
// Gone and what replaces them (missingPage).
func (p *Pages) handleRetired() {
	for name := range retiredPages() {
		p.mux.Handle(
			"/debug/"+name,
			p.guardPage(operators, nil, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				r := missingPage(name)
				http.Error(w, r.Reason, r.Status)
			})),
		)
	}
}
