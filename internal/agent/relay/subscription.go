package relay

import (
	"sync"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// Subscription is a resource type to which the agent itself subscribes. Envoy does not see its
// responses.
type Subscription struct {
	TypeURL string
	// Apply applies the encoded resource. If it returns an error, the response is rejected (NACK).
	Apply func(body []byte) error

	mu sync.Mutex
	// applied is the version of the applied resource by name. The control plane does not send it
	// again after a reconnect.
	applied map[string]string
}

// knownVersions returns the version of the applied resource by its name, or nil if none was applied
// or it has no name or version. The map must not be modified.
func (o *Subscription) knownVersions() map[string]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.applied
}

// apply applies a resource by o.Apply, and returns its error. On success it records the resource's
// version for the next stream. Any earlier one is forgotten, because each of these types has only
// one resource. Without a name or version, none is recorded.
func (o *Subscription) apply(r *discoveryv3.Resource) error {
	if err := o.Apply(r.GetResource().GetValue()); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.applied = nil
	if r.GetName() != "" && r.GetVersion() != "" {
		o.applied = map[string]string{r.GetName(): r.GetVersion()}
	}
	return nil
}
