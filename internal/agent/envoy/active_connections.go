package envoy

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
)

// ActiveConnections returns the number of open client connections, except those to the admin
// interface and to listeners on the given ports (readiness and metrics), whose clients never
// disconnect. Listeners whose statistics Envoy does not keep are not included. It fails if there
// are none with statistics.
func (a *Admin) ActiveConnections(ctx context.Context, except ...uint32) (uint64, error) {
	// Not only updated statistics: there may not have been a connection yet.
	stats, err := a.queryStats(ctx, url.Values{"filter": {`^listener\..*\.downstream_cx_active$`}})
	if err != nil {
		return 0, err
	}
	count, counted := activeConnections(stats, except)
	if !counted {
		return 0, errors.New("envoy keeps no connection statistics of listeners")
	}
	return count, nil
}

// activeConnections returns the sum of the listeners' open connections, except of the admin
// interface and of listeners on the ports in except. counted is false if no other listener has the
// statistic. Statistics of single workers are left out.
func activeConnections(stats map[string]uint64, except []uint32) (sum uint64, counted bool) {
next:
	for name, value := range stats {
		listener := strings.TrimSuffix(strings.TrimPrefix(name, "listener."), ".downstream_cx_active")
		// "0.0.0.0_80.worker_1" is a part of "0.0.0.0_80".
		if listener == "admin" || strings.HasPrefix(listener, "admin.") || strings.Contains(listener, ".worker_") {
			continue
		}
		for _, port := range except {
			if strings.HasSuffix(listener, "_"+strconv.FormatUint(uint64(port), 10)) {
				continue next
			}
		}
		sum, counted = sum+value, true
	}
	return sum, counted
}
