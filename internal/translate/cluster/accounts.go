package cluster

import (
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// encodeAccounts returns the accounts that may answer for a service (its own and its endpoints'),
// sorted, without duplicates, one per line. It is text so that a comparable input can contain it,
// and "" without accounts.
func encodeAccounts(svc *mesh.Service, endpoints *snapshot.EndpointSet) string {
	all := slices.Concat(svc.Accounts, endpoints.Accounts())
	slices.Sort(all)
	return strings.Join(slices.Compact(all), "\n")
}

// inDomains returns accounts sorted and without duplicates, with each SPIFFE ID of one of domains
// replaced by one ID for each of domains: workloads migrate between trust domains one by one. Other
// accounts are unchanged. With one domain it returns accounts itself.
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

// decodeAccounts returns the accounts of a text of encodeAccounts, nil for "".
func decodeAccounts(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
