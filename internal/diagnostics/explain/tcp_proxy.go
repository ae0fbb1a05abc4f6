package explain

import (
	"fmt"
	"strings"

	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
)

// onDemandNote describes what a proxy does that fetches clusters on demand (ADR 52).
const onDemandNote = "fetches the cluster from the control plane if the proxy does not have it yet"

// tcpProxy forwards the connection to the cluster or weighted clusters of a TCP proxy, and returns
// their endings with their shares. It adds steps, also for hashing, maximum duration and tunnels.
// If the workload requires mutual TLS (onlyMutual), the connection is Closed. Weights whose sum is 0
// return an Unknown ending.
func (w *walk) tcpProxy(p *tcpv3.TcpProxy) []Ending {
	if len(p.GetHashPolicy()) > 0 {
		w.addNote(StagePolicy, "tcp_proxy", "connections of one client stay together (hashed by source address)")
	}
	if d := p.GetMaxDownstreamConnectionDuration(); d != nil {
		w.addNote(StagePolicy, "tcp_proxy", "connections are closed at the age of %s", d.AsDuration())
	}
	if p.GetTunnelingConfig() != nil {
		w.addNote(StageAction, "tcp_proxy", "tunnels through HTTP CONNECT to %s", p.GetTunnelingConfig().GetHostname())
	}
	if p.GetOnDemand() != nil {
		w.addNote(StageFilter, "tcp_proxy", onDemandNote)
	}
	if end := w.onlyMutual(p.GetCluster()); end != nil {
		return end
	}
	weighted := p.GetWeightedClusters()
	if weighted == nil {
		w.addNote(StageAction, "tcp_proxy", "forwards bytes to %s", p.GetCluster())
		return w.bytesTo(p.GetCluster())
	}
	total := 0.0
	for _, c := range weighted.GetClusters() {
		total += float64(c.GetWeight())
	}
	if total == 0 {
		return w.endUnsupported("tcp_proxy", "%v", errNoWeight)
	}
	var parts []string
	for _, c := range weighted.GetClusters() {
		parts = append(parts, fmt.Sprintf("%s %s", formatPercent(float64(c.GetWeight())/total), c.GetName()))
	}
	w.addNote(StageAction, "tcp_proxy", "forwards bytes, by connection: %s", strings.Join(parts, ", "))
	var out []Ending
	for _, c := range weighted.GetClusters() {
		out = append(out, scaleShares(w.bytesTo(c.GetName()), float64(c.GetWeight())/total)...)
	}
	return out
}

// bytesTo returns the endings of a connection in the cluster name, and adds the steps of
// resolveCluster. They are Forwarded, or Closed if the cluster is missing or has no usable
// endpoint. For an unsupported cluster it returns the endings of resolveCluster.
func (w *walk) bytesTo(name string) []Ending {
	t, end := w.resolveCluster(name)
	switch {
	case end != nil:
		return end
	case t == nil:
		return []Ending{{Share: 1, Kind: Closed, Reason: "no cluster " + name, Flags: flagNoCluster}}
	case len(t.endpoints) == 0:
		e := Ending{Share: 1, Kind: Closed, Cluster: name, Reason: "the cluster has no usable endpoint"}
		return []Ending{e.withFlags(flagNoHealthyHost)}
	}
	return []Ending{{Share: 1, Kind: Forwarded, Cluster: name, Endpoints: t.endpoints, Transport: t.transport}}
}
