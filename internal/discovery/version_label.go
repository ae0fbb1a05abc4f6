package discovery

import (
	"regexp"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// unknownVersion is the label of versions that have none of their own.
	unknownVersion = "unknown"
	// maxVersions bounds the versions that have a label at the same time. During a roll-out a mesh
	// has a few.
	maxVersions = 32
)

// versionForm is what a version looks like: numbers, perhaps with the name of a build behind them.
var versionForm = regexp.MustCompile(`^[0-9]{1,5}(\.[0-9]{1,5}){1,3}([-+][0-9A-Za-z.+-]{1,40})?$`)

// versionLabels bounds the values of the label "version": a proxy may say any text. A version has a
// label of its own as long as proxies of it are connected, if it looks like one and there are not
// too many others.
type versionLabels struct {
	gauge *prometheus.GaugeVec

	mu      sync.Mutex
	proxies map[string]int // by version, of those that have a label
}

// count notes that proxies of a version came or went.
func (v *versionLabels) count(version string, delta int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	n, known := v.proxies[version]
	if !known && (delta < 0 || len(v.proxies) >= maxVersions || !versionForm.MatchString(version)) {
		v.gauge.WithLabelValues(unknownVersion).Add(float64(delta))
		return
	}
	if n += delta; n == 0 {
		delete(v.proxies, version)
		v.gauge.DeleteLabelValues(version)
		return
	}
	v.proxies[version] = n
	v.gauge.WithLabelValues(version).Set(float64(n))
}
