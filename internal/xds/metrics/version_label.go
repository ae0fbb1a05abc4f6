package metrics

import (
	"regexp"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// unknownVersion is the label of all versions without a label of their own.
	unknownVersion = "unknown"
	// maxVersions limits the versions that have a label at the same time. During a rollout a mesh
	// has a few.
	maxVersions = 32
)

// versionForm matches a version: numbers, optionally followed by the name of a build.
var versionForm = regexp.MustCompile(`^[0-9]{1,5}(\.[0-9]{1,5}){1,3}([-+][0-9A-Za-z.+-]{1,40})?$`)

// versionLabels limits the values of the label "version", because a proxy may send any text. A
// version has its own label while proxies of it are connected, if it matches versionForm and fewer
// than maxVersions others have one. All other versions share the label unknownVersion.
type versionLabels struct {
	gauge *prometheus.GaugeVec

	mu      sync.Mutex
	proxies map[string]int // number by version, only versions with a label
}

// count adds delta to the number of connected proxies that report version, and deletes the label
// when the number is 0. A new version gets no label if it is malformed, maxVersions have one, or
// delta is negative: then delta is added to the label unknownVersion.
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
