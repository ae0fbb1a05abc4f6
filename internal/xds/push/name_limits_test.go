package push_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/push/pushtest"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// TestDefaultNameLimits subscribes to the maximum number of names of maximum length that a stream
// may have by default (ADR 32). One name more ends the stream.
func TestDefaultNameLimits(t *testing.T) {
	short := make([]string, 50_000)
	for i := range short {
		short[i] = fmt.Sprintf("%05d", i)
	}
	long := make([]string, 8)
	for i := range long {
		long[i] = strings.Repeat(fmt.Sprint(i), 1<<20)
	}
	for name, allowed := range map[string][]string{"50,000 names": short, "8 MiB": long} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, push.Options{}, func(f *fixture) {
				c := f.p.Connect(pushtest.Proxy(0, "default"), stream.Delta, "test")
				now, cancel := context.WithCancel(context.Background())
				cancel()
				receive := func() error {
					_, err := c.Next(now)
					if errors.Is(err, context.Canceled) {
						return nil
					}
					return err
				}
				c.Request(stream.Request{TypeURL: api.EndpointType, Subscribe: allowed})
				if err := receive(); err != nil {
					t.Errorf("the stream ended: %v", err)
				}
				c.Request(stream.Request{TypeURL: api.EndpointType, Subscribe: []string{"x"}})
				var ended push.ProtocolError
				if err := receive(); !errors.As(err, &ended) || !ended.Limit {
					t.Errorf("with one name more the stream ended with %v, want a limit", err)
				}
				c.Close()
			})
		})
	}
}
