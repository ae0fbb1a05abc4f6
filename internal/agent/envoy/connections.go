package envoy

import (
	"context"
	"strconv"
	"strings"
)

// ActiveConnections counts the connections that clients have open to listeners other than Envoy's own for
// administration: the admin interface, and the given ports (readiness and metrics), whose clients never go away.
func (a *Admin) ActiveConnections(ctx context.Context, except ...uint32) (uint64, error) {
	stats, err := a.Stats(ctx, `^listener\..*\.downstream_cx_active$`)
	if err != nil {
		return 0, err
	}
	return activeConnections(stats, except), nil
}

func activeConnections(stats map[string]uint64, except []uint32) uint64 {
	var sum uint64
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
		sum += value
	}
	return sum
}
