package hostileclients

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// subscriber is an honest proxy that stays connected, and stores the newest route configuration
// that it was sent.
type subscriber struct {
	mu      sync.Mutex
	newest  string
	changed chan struct{}
	// reconnects counts the streams that the server ended.
	reconnects int
}

// applyTime is the delay before the proxy acknowledges a response, which is the time that Envoy
// takes to apply one.
const applyTime = 30 * time.Millisecond

// subscribe runs the proxy until the test ends. It reconnects when its stream ends, as a proxy
// does.
func (s *scene) subscribe(t *testing.T) *subscriber {
	x := &subscriber{changed: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			x.follow(ctx, s)
			x.mu.Lock()
			x.reconnects++
			x.mu.Unlock()
			pause(ctx, 100*time.Millisecond)
		}
	}()
	return x
}

func (x *subscriber) follow(ctx context.Context, s *scene) {
	p, err := s.openProxy(ctx, "15012", "subscriber")
	if err != nil {
		return
	}
	defer p.close()
	if p.request(api.ClusterType, p.node) != nil || p.request(api.ListenerType, nil) != nil ||
		p.request(api.RouteType, nil, honestRoute) != nil {
		return
	}
	for {
		response, err := p.next(applyTime)
		if err != nil {
			return
		}
		if response.TypeUrl != api.RouteType {
			continue
		}
		text := ""
		for _, r := range response.Resources {
			text += string(r.Value)
		}
		x.mu.Lock()
		x.newest = text
		close(x.changed)
		x.changed = make(chan struct{})
		x.mu.Unlock()
	}
}

// await waits until the newest route configuration has a text.
func (x *subscriber) await(ctx context.Context, text string) error {
	for {
		x.mu.Lock()
		newest, changed := x.newest, x.changed
		x.mu.Unlock()
		if strings.Contains(newest, text) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (x *subscriber) streams() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.reconnects
}
