package push

import (
	"encoding/json"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

const (
	// drainMargin is added to a proxy's drain time. Draining begins when the proxy's workers have
	// the new listener, a moment after the ACK.
	drainMargin = 2 * time.Second
	// maxDrain bounds the drain time that a proxy may request. Its stream remembers removed
	// clusters for that time.
	maxDrain = 10 * time.Minute
)

// drainTicks returns how many Tick events after the ACK of a new listener connections may still use
// the clusters of the replaced one, rounded up. It is derived from drainDuration of the proxy's
// ProxyConfig, at most maxDrain, plus drainMargin. If drainDuration is missing, malformed or not
// positive, the default of ProxyConfig applies.
func drainTicks(proxy *mesh.Proxy) int {
	drain := mesh.DefaultProxyConfig().GetDrainDuration().AsDuration()
	var stated struct {
		DrainDuration string `json:"drainDuration"`
	}
	if err := json.Unmarshal(proxy.Metadata.ProxyConfig, &stated); err == nil {
		if d, err := time.ParseDuration(stated.DrainDuration); err == nil && d > 0 {
			drain = min(d, maxDrain)
		}
	}
	return int((drain + drainMargin + overduePeriod - 1) / overduePeriod)
}
