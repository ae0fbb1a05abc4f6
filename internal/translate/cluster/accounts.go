package cluster

import (
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// encodeAccounts writes the accounts that may answer for a service as text, so that they can be part of a comparable input:
// one a line, sorted, those that the service names and those of its endpoints.
func encodeAccounts(svc *mesh.Service, endpoints *snapshot.EndpointSet) string {
	all := slices.Concat(svc.Accounts, endpoints.Accounts())
	slices.Sort(all)
	return strings.Join(slices.Compact(all), "\n")
}

// inDomains gives accounts as they are called in each of the mesh's trust domains, sorted: workloads move from one to another one by
// one. Accounts of other domains are as they are.
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
