package debug

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// maxVersions is the maximum number of versions that a Problem lists.
const maxVersions = 5

// unmatchedVersions returns a Warning for each EnvoyFilter patch whose proxyVersion matches no
// connected proxy. It returns nil if no proxy is connected. It is evaluated against the distinct
// versions, and only when Problems are requested. A change of configuration or a new connection
// therefore causes no work.
func (p *Pages) unmatchedVersions(list []push.StreamState) []config.Problem {
	if len(list) == 0 {
		return nil
	}
	distinct, last := map[string]bool{}, ""
	for _, c := range list {
		// A proxy without a version matches no proxyVersion.
		if v := c.Proxy.Metadata.IstioVersion; v != last && v != "" {
			distinct[v], last = true, v
		}
	}
	versions := sortedKeys(distinct)
	var found []config.Problem
	for _, patch := range p.Snapshot().PatchesOfNoVersion(versions) {
		found = append(found, config.Problem{
			Code:     code.PatchFailed,
			Key:      patch.Filter.Key,
			Origin:   patch.Filter.Origin,
			Severity: config.Warning,
			Field:    fmt.Sprintf("spec.configPatches[%d].match.proxy.proxyVersion", patch.Index),
			Reason: "matches no proxy that is connected to this control plane, so the patch has no effect; their ISTIO_VERSION is " + shownVersions(
				versions,
			),
		})
	}
	return found
}

// shownVersions returns at most maxVersions versions as quoted text, each cut after 40 characters,
// and "…" if there are more. It returns "not set" if there are none.
func shownVersions(versions []string) string {
	shown := slices.Clone(versions[:min(len(versions), maxVersions)])
	for i, v := range shown {
		shown[i] = fmt.Sprintf("%.40q", v)
	}
	if len(shown) == 0 {
		return "not set"
	}
	text := strings.Join(shown, ", ")
	if len(versions) > maxVersions {
		text += ", …"
	}
	return text
}
