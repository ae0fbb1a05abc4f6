package remote

import (
	"context"
	"sync"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Each runs f in a goroutine for each remote cluster, including those added later, until ctx ends.
// The context of f ends with ctx, when the cluster is removed, or when its client changes; then f
// runs again with the new client. A panic of f is recovered and f restarted. Each returns after all
// calls of f have returned.
func (c *Clusters) Each(ctx context.Context, f func(ctx context.Context, id mesh.ClusterID, client *kube.Client)) {
	type visit struct {
		client *kube.Client
		stop   context.CancelFunc
	}
	var running sync.WaitGroup
	defer running.Wait()
	visits := map[mesh.ClusterID]visit{}
	for {
		c.mu.Lock()
		changed := c.changed.Changed()
		for id, v := range visits {
			if c.clients[id] != v.client {
				v.stop()
				delete(visits, id)
			}
		}
		for id, client := range c.clients {
			if visits[id].client == nil {
				of, stop := context.WithCancel(ctx)
				visits[id] = visit{client, stop}
				running.Go(func() {
					defer stop()
					// f has no error
					_ = recovery.Loop(of, "look after cluster "+string(id), func(ctx context.Context) error {
						f(ctx, id, client)
						return nil
					})
				})
			}
		}
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			for _, v := range visits {
				v.stop()
			}
			return
		case <-changed:
		}
	}
}
