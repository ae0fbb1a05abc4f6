package push_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/push/pushtest"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// TestLateRefusalDoesNotStand: the refusal of a resource that has been replaced already is
// reported, and is not a standing refusal, because the client will not be sent that version again.
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
		_, _ = x.c.Next(now) // reads the newer configuration, which is sent after the answer
		x.c.Request(stream.Request{TypeURL: s.TypeURL, Nonce: s.Nonce, Rejected: true, Message: "no route 80"})
		synctest.Wait()
		list := f.p.Reports().Nacks()
		if len(list) != 1 || list[0].Standing {
			t.Errorf("refusals = %+v", list)
		}
	})
}
