package sidecar

import (
	"slices"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// conduct is the behaviour of a sidecar besides following the control plane. The zero conduct
// acknowledges everything.
type conduct struct {
	responses int               // that it was sent
	nonces    map[string]string // of the last response, by type URL
	refuses   string            // type URL
	silent    bool
	withheld  []*discoveryv3.DeltaDiscoveryRequest // answers of a silent one
	kept      []string                             // clusters
}

// answerTo returns the answer to a response, if one must be sent now.
func (c *conduct) answerTo(r *discoveryv3.DeltaDiscoveryResponse) []*discoveryv3.DeltaDiscoveryRequest {
	c.responses++
	if c.nonces == nil {
		c.nonces = map[string]string{}
	}
	c.nonces[r.TypeUrl] = r.Nonce
	a := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.TypeUrl, ResponseNonce: r.Nonce}
	if c.refuses == r.TypeUrl && len(r.Resources) > 0 {
		a.ErrorDetail = &status.Status{Code: int32(codes.InvalidArgument), Message: "no: " + r.Resources[0].Name}
	}
	if c.silent {
		c.withheld = append(c.withheld, a)
		return nil
	}
	return []*discoveryv3.DeltaDiscoveryRequest{a}
}

// Responses returns how many responses were sent to the sidecar.
func (p *Proxy) Responses() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.responses
}

// Nonce returns the nonce of the last response of a type, "" if there was none.
func (p *Proxy) Nonce(typeURL string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.nonces[typeURL]
}

// Refuse makes the sidecar refuse all resources of a type from now on.
func (p *Proxy) Refuse(typeURL string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = typeURL
}

// SetSilent makes the sidecar answer nothing, or, after it was silent, everything that it has not
// answered yet.
func (p *Proxy) SetSilent(silent bool) {
	p.mu.Lock()
	p.silent = silent
	var owed []*discoveryv3.DeltaDiscoveryRequest
	if !silent {
		owed, p.withheld = p.withheld, nil
	}
	p.mu.Unlock()
	for _, r := range owed {
		p.Send(r)
	}
}

// RequireCluster requires that a cluster exists and has endpoints from now on: the test fails as soon as it
// is sent anything else.
func (p *Proxy) RequireCluster(cluster string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept = append(p.kept, cluster)
}

// checkKept checks that an accepted response keeps the clusters passed to Keep. The proxy is
// locked.
func (p *Proxy) checkKept(r *discoveryv3.DeltaDiscoveryResponse) {
	for _, name := range r.RemovedResources {
		if slices.Contains(p.kept, name) {
			p.t.Errorf("%s %s was removed", api.ShortType(r.TypeUrl), name)
		}
	}
	if r.TypeUrl != api.EndpointType {
		return
	}
	for _, resource := range r.Resources {
		if slices.Contains(p.kept, resource.Name) && len(p.endpointsOf(resource.Name)) == 0 {
			p.t.Errorf("%s has lost its endpoints", resource.Name)
		}
	}
}
