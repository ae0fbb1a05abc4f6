package status

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Reports are ConfigMaps of the control plane's namespace, with Istio's names for them.
const (
	// reportLabel marks them, reportSuffix is behind the name of the pod, reportField holds the text.
	reportLabel  = "internal.istio.io/distribution-report"
	reportSuffix = "-distribution"
	reportField  = "distribution-report"
)

// report is what a replica that does not lead says of its proxies.
type report struct {
	// Time is when it was made.
	Time time.Time `json:"time"`
	// Objects are those of which a generation came of late, or has not come everywhere yet, by "Kind/namespace/name".
	Objects map[string]reached `json:"objects"`
}

// reached is how far one generation of an object has come.
type reached struct {
	Generation   int64 `json:"generation"`
	Proxies      int   `json:"proxies"`
	Acknowledged int   `json:"acknowledged"`
	// Served says that all proxies are being served by it.
	Served bool `json:"served"`
}

func (r reached) done() bool { return r.Served && r.Acknowledged >= r.Proxies }

const (
	// heartbeat is how often a replica says that it is there.
	heartbeat = 2 * time.Minute
	// forgotten is how old a report may become before the leader takes it away.
	forgotten = 5 * heartbeat
)

// reports is what the other replicas say, for the leader.
type reports struct {
	own  string // the name of this replica's
	pace Pace

	mu   sync.Mutex
	list map[string]arrived // by name
}

// arrived is a report, and when it came by the clock of this replica.
type arrived struct {
	report
	at time.Time
}

func newReports(own string, pace Pace) *reports {
	return &reports{own: own, pace: pace, list: map[string]arrived{}}
}

// put takes up a report, nil if it is gone. One that cannot be read says nothing.
func (r *reports) put(name string, text []byte, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var x arrived
	if name == r.own || text == nil || json.Unmarshal(text, &x.report) != nil {
		delete(r.list, name)
		return
	}
	x.at = now
	if old, known := r.list[name]; known && old.Time.Equal(x.Time) { // told again by a new watch
		x.at = old.at
	}
	r.list[name] = x
}

// add adds what the others count to the own count of an object that has been waited for some time. complete is false if somebody
// has not said yet what it knows.
func (r *reports) add(k config.Key, generation int64, own Count, waited time.Duration, now time.Time) (sum Count, complete bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum, complete = own, true
	for _, x := range r.list {
		said, ok := x.Objects[k.String()]
		switch {
		case ok && said.Generation == generation && (said.done() || now.Sub(x.at) < r.pace.lost()):
			sum = sum.add(Count{said.Proxies, said.Acknowledged})
			complete = complete && said.Served
		case waited < r.pace.Patience && now.Sub(x.at) < heartbeat+r.pace.lost():
			complete = false
		}
	}
	return sum, complete
}

// old gives the reports of replicas that have not been heard of for long.
func (r *reports) old(now time.Time) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for name, x := range r.list {
		if now.Sub(x.at) > forgotten {
			names = append(names, name)
		}
	}
	return names
}
