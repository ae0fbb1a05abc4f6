package envoy

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
)

// ActiveConnections counts the connections that clients have open to listeners other than Envoy's own for
// administration: the admin interface, and the given ports (readiness and metrics), whose clients never go away. Only
// listeners whose connections Envoy counts at all can be told; an error if it counts those of none.
func (a *Admin) ActiveConnections(ctx context.Context, except ...uint32) (uint64, error) {
	// Not only what was ever set: nobody may have connected yet.
	stats, err := a.stats(ctx, url.Values{"filter": {`^listener\..*\.downstream_cx_active$`}})
	if err != nil {
		return 0, err
	}
	count, counted := activeConnections(stats, except)
	if !counted {
		return 0, errors.New("envoy was not set up to count connections")
	}
	return count, nil
}

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
