package debug

import (
	"fmt"
	"net/http"
)

// successors are debug pages that Istio had, and what answers the same questions now.
func successors() map[string]string {
	return map[string]string{
		"authenticationz": "/debug/configz?kind=PeerAuthentication and ?kind=RequestAuthentication have the policies, " +
			"/debug/explain?proxyID=&url= which of them apply to a call",
		"cdsz":      "/debug/config_dump?proxyID= has the clusters that a proxy was sent",
		"workloadz": "/debug/instancesz has what each connected proxy serves, /debug/endpointz all endpoints",
	}
}

// missing returns why there is no page of that name: it is unknown, or has been replaced.
func missing(name string) Refusal {
	if successor, retired := successors()[name]; retired {
		return Refusal{http.StatusGone, fmt.Sprintf("there is no debug page %q any more: %s", name, successor)}
	}
	return Refusal{http.StatusNotFound, fmt.Sprintf("there is no debug page %q", name)}
}

// handleRetired answers requests for retired pages with the address of the successor.
func (p *Pages) handleRetired() {
	for name := range successors() {
		p.mux.Handle("/debug/"+name, p.guard(operators, nil, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			r := missing(name)
			http.Error(w, r.Reason, r.Status)
		})))
	}
}
