package status

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Reports are ConfigMaps in the control plane's namespace, with Istio's names.
const (
	// reportLabel selects them, reportSuffix is appended to the pod's name, and reportField is the
	// data key.
	reportLabel  = "internal.istio.io/distribution-report"
	reportSuffix = "-distribution"
	reportField  = "distribution-report"
)

// report contains the counts of a replica that does not lead.
type report struct {
	// Time is the time of creation.
	Time time.Time `json:"time"`
	// Objects are the objects whose generation is recent or not yet fully distributed, by
	// "Kind/namespace/name".
	Objects map[string]progress `json:"objects"`
}

// progress is the distribution of one generation of an object.
type progress struct {
	Generation   int64 `json:"generation"`
	Proxies      int   `json:"proxies"`
	Acknowledged int   `json:"acknowledged"`
	// Served is true if all proxies are served from a snapshot that contains the generation.
	Served bool `json:"served"`
	// completeSince is the time at which a complete object became complete, by the clock of the
	// replica that reports it. It is not written.
	completeSince time.Time
}

// isComplete reports whether all proxies concerned have acknowledged the object, also if there are
// none, and its snapshot is served.
func (r progress) isComplete() bool { return r.Served && r.Acknowledged >= r.Proxies }

const (
	// heartbeat is the maximum time between two reports of a replica.
	heartbeat = 2 * time.Minute
	// reportMaxAge is the age at which the leader deletes a report.
	reportMaxAge = 5 * heartbeat
)

// reportCollector holds the reports of other replicas, for the leader.
type reportCollector struct {
	ownName string // name of this replica's own report
	timing  Timing

	mu      sync.Mutex
	reports map[string]receivedReport // by ConfigMap name
}

// receivedReport is a report with the time of its arrival by this replica's clock.
type receivedReport struct {
	report
	at time.Time
}

// newReportCollector returns a collector without reports that ignores the one named own.
func newReportCollector(own string, timing Timing) *reportCollector {
	return &reportCollector{ownName: own, timing: timing, reports: map[string]receivedReport{}}
}

// setReport stores a report, or removes it if text is nil or invalid. The report of this replica is
// ignored. A report that is repeated keeps its time of arrival. An invalid one is not logged.
func (r *reportCollector) setReport(name string, text []byte, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var x receivedReport
	if name == r.ownName || text == nil || json.Unmarshal(text, &x.report) != nil {
		delete(r.reports, name)
		return
	}
	x.at = now
	// repeated by a restarted watch
	if old, known := r.reports[name]; known && old.Time.Equal(x.Time) {
		x.at = old.at
	}
	r.reports[name] = x
}

// addCounts returns own plus the counts that other replicas report for this generation of an
// object. Incomplete reports older than reportExpiry do not count. complete is false if a counted
// replica does not serve the generation to all its proxies. Until waited, the time since its
// distribution began, reaches ReportTimeout, complete is also false if a replica whose last report
// is recent has not reported it.
func (r *reportCollector) addCounts(
	k config.Key,
	generation int64,
	own Count,
	waited time.Duration,
	now time.Time,
) (sum Count, complete bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum, complete = own, true
	for _, x := range r.reports {
		progress, ok := x.Objects[k.String()]
		switch {
		case ok && progress.Generation == generation &&
			(progress.isComplete() || now.Sub(x.at) < r.timing.reportExpiry()):
			sum = sum.add(Count{progress.Proxies, progress.Acknowledged})
			complete = complete && progress.Served
		case waited < r.timing.ReportTimeout && now.Sub(x.at) < heartbeat+r.timing.reportExpiry():
			complete = false
		}
	}
	return sum, complete
}

// expiredReports returns the names of reports that arrived more than reportMaxAge ago, or nil. They
// are not removed.
func (r *reportCollector) expiredReports(now time.Time) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for name, x := range r.reports {
		if now.Sub(x.at) > reportMaxAge {
			names = append(names, name)
		}
	}
	return names
}
