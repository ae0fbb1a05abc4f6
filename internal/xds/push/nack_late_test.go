package push_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/push/pushtest"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// TestLateRefusalDoesNotStand refuses a response when its resource has been replaced already: it is
// reported, and does not count as standing, for the client is not to have that version any more.
func TestLateRefusalDoesNotStand(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		now, cancel := context.WithCancel(context.Background())
		cancel()
		f.mesh.EditRoutes()
		f.decide()
		s, err := x.c.Next(now)
		if err != nil {
			t.Fatal(err)
		}
		x.c.Sent(s, 1, 0)
		f.mesh.EditRoutes()
		f.decide()
		_, _ = x.c.Next(now) // takes the newer configuration in, which waits for the answer
		x.c.Request(stream.Request{TypeURL: s.TypeURL, Nonce: s.Nonce, Rejected: true, Message: "no route 80"})
		synctest.Wait()
		list := f.p.Nacks()
		if len(list) != 1 || list[0].Standing {
			t.Errorf("refusals %+v", list)
		}
	})
}
