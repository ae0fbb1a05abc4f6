package cluster

import (
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// encodeAccounts writes the accounts that may answer for a service as text, so that they can be part of a comparable input:
// one a line, sorted, those that the service names and those of its endpoints.
func encodeAccounts(svc *mesh.Service, endpoints *snapshot.EndpointSet) string {
	all := slices.Concat(svc.Accounts, endpoints.Accounts())
	slices.Sort(all)
	return strings.Join(slices.Compact(all), "\n")
}

func decodeAccounts(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
