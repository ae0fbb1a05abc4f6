package push

import (
	"encoding/json"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

const (
	// drainMargin is added to a proxy's drain time: it begins when its workers have the new
	// listener, a moment after the ACK.
	drainMargin = 2 * time.Second
	// maxDrain bounds the drain time that a proxy states, for which its stream remembers removed
	// clusters.
	maxDrain = 10 * time.Minute
)

// drainEvents returns for how many Overdue events after a listener was acknowledged its older connections may
// use the clusters that it led to. It is the drainDuration of the proxy's ProxyConfig. If that is
// missing or malformed, it is the default of ProxyConfig.
func drainEvents(proxy *mesh.Proxy) int {
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
