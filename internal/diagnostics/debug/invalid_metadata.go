package debug

import (
	"fmt"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// maxInvalidMetadata bounds the Problems of invalidMetadata, because clients choose the values.
const maxInvalidMetadata = 20

// invalidMetadata returns a Warning for each invalid value in the metadata of the connected
// proxies, one for all proxies of a namespace with the same value. Its Origin is the first of these
// proxies by name, because there is no object. They are sorted by key and Origin. Beyond
// maxInvalidMetadata the rest is left out.
func invalidMetadata(list []push.StreamState) []config.Problem {
	type class struct {
		namespace string
		invalid   snapshot.InvalidMetadata
	}
	proxies := map[class][]string{}
	for _, c := range list {
		for _, v := range c.InvalidMetadata {
			k := class{c.Proxy.Namespace, v}
			proxies[k] = append(proxies[k], DisplayName(c.Proxy))
		}
	}
	var found []config.Problem
	for k, names := range proxies {
		others := ""
		if len(names) > 1 {
			others = " and of other proxies of the namespace"
		}
		v := k.invalid
		found = append(found, config.Problem{
			Code: code.InvalidProxyMetadata, Severity: config.Warning, Origin: "proxy " + slices.Min(names),
			Field: "metadata." + v.Key,
			Reason: fmt.Sprintf("%.40q of this proxy%s is not %s, so %s; correct ISTIO_META_%s in its environment or in proxyMetadata",
				v.Value, others, v.Want, v.Instead, v.Key),
		})
	}
	slices.SortFunc(found, config.Problem.Compare)
	return found[:min(len(found), maxInvalidMetadata)]
}
