package cluster

import (
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// encodeAccounts returns the accounts that may answer for a service, its own and its endpoints', as
// text so that a comparable input can contain them: sorted, one per line.
func encodeAccounts(svc *mesh.Service, endpoints *snapshot.EndpointSet) string {
	all := slices.Concat(svc.Accounts, endpoints.Accounts())
	slices.Sort(all)
	return strings.Join(slices.Compact(all), "\n")
}

// inDomains returns accounts with one SPIFFE ID for each of domains, sorted, because workloads
// migrate between domains one by one. Accounts of foreign domains are unchanged. With one domain it
// returns accounts itself.
func inDomains(accounts, domains []string) []string {
	if len(domains) == 1 {
		return accounts
	}
	var all []string
	for _, a := range accounts {
		rest, isID := strings.CutPrefix(a, "spiffe://")
		domain, path, _ := strings.Cut(rest, "/")
		if !isID || !slices.Contains(domains, domain) {
			all = append(all, a)
			continue
		}
		for _, d := range domains {
			all = append(all, "spiffe://"+d+"/"+path)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func decodeAccounts(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
