package relay

import (
	"sync"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// Own is a type of resource that the agent asks the control plane for itself, and that Envoy does not see.
type Own struct {
	TypeURL string
	// Use takes the resource, encoded. An error refuses it.
	Use func(body []byte) error

	mu sync.Mutex
	// have are the versions of what was used, for the control plane not to send it again after a reconnect.
	have map[string]string
}

func (o *Own) versions() map[string]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.have
}

// use takes the first resource of a response: there is one of each of these types.
func (o *Own) use(r *discoveryv3.Resource) error {
	if err := o.Use(r.GetResource().GetValue()); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.have = nil
	if r.GetName() != "" && r.GetVersion() != "" {
		o.have = map[string]string{r.GetName(): r.GetVersion()}
	}
	return nil
}
