package credential

import (
	"context"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// TestClientChanges: watches are restarted with the newest client, no matter how many changes of
// the client precede the next update of the watches, and whether there was no client in between.
func TestClientChanges(t *testing.T) {
	t.Parallel()
	newClient := func(host string) *kube.Client {
		c, err := kube.NewClient(&rest.Config{Host: host})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	a, b := newClient("https://127.0.0.1:1"), newClient("https://127.0.0.1:2")
	for _, c := range []struct {
		name    string
		changes []*kube.Client
		restart bool
	}{
		{"the same client", []*kube.Client{a}, false},
		{"another client", []*kube.Client{b}, true},
		{"another client, twice", []*kube.Client{b, b}, true},
		{"no client, then another", []*kube.Client{nil, b}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var running sync.WaitGroup
			ctx, cancel := context.WithCancel(t.Context())
			t.Cleanup(func() { cancel(); running.Wait() })
			s := New(Options{Client: a, Linger: time.Hour})
			key := config.Key{Kind: api.Secret, Namespace: "default", Name: "cert"}
			s.SetWant("gateway", Want{Objects: []config.Key{key}})
			s.updateWatches(ctx, &running)
			before := s.watches[s.scopeOf(key)]
			for _, client := range c.changes {
				s.SetClient(client)
			}
			s.updateWatches(ctx, &running)
			if restarted := s.watches[s.scopeOf(key)] != before; restarted != c.restart {
				t.Errorf("the watch was restarted: %v, want %v", restarted, c.restart)
			}
		})
	}
}
