package readapi

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/meshpilot/meshpilot/internal/diagnostics/connectivity"
	"github.com/meshpilot/meshpilot/internal/diagnostics/traffic"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Traffic is the rates of calls between the nodes of the topology.
type Traffic struct {
	// Configured is set if the control plane knows a Prometheus.
	Configured    bool          `json:"configured" doc:"False if the control plane was given no Prometheus: then no rates are known."`
	WindowSeconds int           `json:"windowSeconds,omitempty" doc:"The rates are averages of this time."`
	Calls         []TrafficCall `json:"calls" doc:"Calls that proxies have sent, of the namespaces that the caller may read: those with the most requests first, then those with the most bytes, then by name."`
	Omitted       int           `json:"omitted,omitempty" doc:"Further calls: their ends are not in the topology, or there are too many."`
	Error         string        `json:"error,omitempty" doc:"Why there are no rates now."`
}

// TrafficCall is the traffic from a node of the topology to a service.
type TrafficCall struct {
	From              TopologyEnd `json:"from"`
	To                TopologyEnd `json:"to"`
	RequestsPerSecond float64     `json:"requestsPerSecond"`
	ErrorsPerSecond   float64     `json:"errorsPerSecond" doc:"Those of the requests with a status of 500 or above."`
	BytesPerSecond    float64     `json:"bytesPerSecond,omitempty" doc:"Of TCP connections, in both directions."`
}

// registerTraffic adds the operation that returns rates.
func (a *API) registerTraffic() {
	huma.Register(a.api, huma.Operation{
		OperationID: "get-traffic", Method: http.MethodGet, Path: Prefix + "/topology/traffic",
		Summary: "The rates of calls between services, from a Prometheus that the control plane was given",
		Errors:  []int{http.StatusUnauthorized, http.StatusForbidden},
	}, a.traffic)
}

// traffic serves the rates of the calls whose ends are nodes of the topology that the caller may
// read. It leaves out the others, such as calls of unknown hosts, and counts them if the caller
// could read them. Of more than maxCalls it leaves out the calls with the lowest rates. An error of
// the metrics is in Error; without a source of metrics, Configured is false.
func (a *API) traffic(ctx context.Context, _ *struct{}) (*struct{ Body Traffic }, error) {
	x := Traffic{Calls: []TrafficCall{}}
	if a.Traffic == nil {
		return &struct{ Body Traffic }{x}, nil
	}
	x.Configured, x.WindowSeconds = true, int(traffic.Window.Seconds())
	caller := callerOf(ctx)
	rates, err := a.Traffic()
	if err != nil {
		x.Error = err.Error()
	}
	_, all := a.connectivity.topology(a.Clock, a.Snapshot())
	services := map[mesh.Hostname]connectivity.End{}
	for _, n := range all.Nodes {
		if n.Service != "" {
			services[n.Service] = n.End
		}
	}
	sums := map[[2]connectivity.End]traffic.Rate{}
	for pair, rate := range rates {
		from, fromKnown := all.Callers[connectivity.WorkloadName{Namespace: pair.Namespace, Name: pair.Workload}]
		to, toKnown := services[pair.Service]
		switch {
		case !caller.CanRead(pair.Namespace) || toKnown && !caller.CanRead(to.Namespace):
		case !fromKnown || !toKnown:
			x.Omitted++
		default:
			sums[[2]connectivity.End{from, to}] = sums[[2]connectivity.End{from, to}].Plus(rate)
		}
	}
	for ends, rate := range sums {
		x.Calls = append(x.Calls, TrafficCall{
			From: newTopologyEnd(ends[0]), To: newTopologyEnd(ends[1]),
			RequestsPerSecond: rate.Requests, ErrorsPerSecond: rate.Errors, BytesPerSecond: rate.Bytes,
		})
	}
	x.Calls = largestCalls(x.Calls, maxCalls)
	x.Omitted += len(sums) - len(x.Calls)
	return &struct{ Body Traffic }{x}, nil
}

// largestCalls returns at most limit of the calls, those with the most requests first, then those with
// the most bytes, then by name. It sorts calls.
func largestCalls(calls []TrafficCall, limit int) []TrafficCall {
	slices.SortFunc(calls, func(p, q TrafficCall) int {
		return cmp.Or(
			cmp.Compare(q.RequestsPerSecond, p.RequestsPerSecond), cmp.Compare(q.BytesPerSecond, p.BytesPerSecond),
			cmp.Compare(p.From.String(), q.From.String()), cmp.Compare(p.To.String(), q.To.String()),
		)
	})
	return calls[:min(limit, len(calls))]
}
