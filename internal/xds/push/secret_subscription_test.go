package push_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/push/pushtest"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// TestSecretSubscriptionsAreReported: Options.Secrets is called when the set of secrets that a
// stream subscribes to changes and when the stream ends, not for an ACK.
func TestSecretSubscriptionsAreReported(t *testing.T) {
	var mu sync.Mutex
	var reported []string
	inBubble(t, 1, push.Options{Secrets: func(s push.Subscription) {
		mu.Lock()
		defer mu.Unlock()
		text := strings.Join(s.Names, " ")
		if s.Ended {
			text = "end"
		}
		reported = append(reported, text)
	}}, func(f *fixture) {
		c := f.p.Connect(pushtest.Proxy(0, "default"), stream.Delta, "test")
		c.Request(stream.Request{TypeURL: api.ClusterType})
		c.Request(stream.Request{TypeURL: api.SecretType, Subscribe: []string{"b", "a"}})
		c.Request(stream.Request{TypeURL: api.SecretType, Nonce: "unknown"})
		c.Request(stream.Request{TypeURL: api.SecretType, Subscribe: []string{"a"}})
		c.Request(stream.Request{TypeURL: api.SecretType, Unsubscribe: []string{"b"}})
		c.Close()
		c.Request(stream.Request{TypeURL: api.SecretType, Subscribe: []string{"c"}})
		quiet := f.p.Connect(pushtest.Proxy(1, "default"), stream.Delta, "test")
		quiet.Request(stream.Request{TypeURL: api.ClusterType})
		quiet.Close()
	})
	if got, want := strings.Join(reported, ";"), ";a b;a;end;;end"; got != want {
		t.Errorf("reported subscriptions = %q, want %q", got, want)
	}
}
