package discovery

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/serving"
	"github.com/meshpilot/meshpilot/test/support/sidecar"
)

// TestNackTextsAreBounded refuses listeners 20 times with multi-line error messages of 900 KiB, on
// streams that stay open. The log, the pages and the heap retain at most 4 KiB of each, and no line
// of the log is written by the client.
func TestNackTextsAreBounded(t *testing.T) {
	c := start(t, map[string]string{"services.yaml": services(2)})
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const n, forged = 20, "2026-11-22T00:00:00.000000Z\tinfo\tca\tforged line"
	proxies := make([]*sidecar.Proxy, n)
	for i := range proxies {
		p := c.connect(fmt.Sprintf("hostile-%d", i), fmt.Sprintf("10.9.0.%d", i+1))
		c.eventually("listeners", func() error {
			if len(p.ResourceNames(api.ListenerType)) == 0 {
				return fmt.Errorf("none")
			}
			return nil
		})
		proxies[i] = p
	}
	before, logged := heap(), len(c.log.String())
	for i, p := range proxies {
		text := strings.Repeat("x\n"+forged+"\n", (900<<10)/(len(forged)+3))
		p.Send(&discoveryv3.DeltaDiscoveryRequest{
			TypeUrl: api.ListenerType, ResponseNonce: p.Nonce(api.ListenerType), ErrorDetail: &status.Status{Message: fmt.Sprintf("%d %s", i, text)},
		})
	}
	c.eventually("all refusals are recorded", func() error {
		if got := strings.Count(c.log.String(), "ACK ERROR"); got < n {
			return fmt.Errorf("%d of %d refusals recorded", got, n)
		}
		return nil
	})
	log := c.log.String()
	grown, held := len(log)-logged, int64(0)
	serving.Eventually(t, patience, "the heap is as before", func() error {
		if held = heap() - before; held > 8<<20 {
			return fmt.Errorf("the heap has %d MiB more", held>>20)
		}
		return nil
	})
	t.Logf("%d refusals of 900 KiB: log +%d KiB, heap %+d KiB", n, grown>>10, held>>10)
	if grown > n*(32<<10) {
		t.Errorf("the log has grown by %d KiB", grown>>10)
	}
	for line := range strings.Lines(log) {
		if strings.HasPrefix(line, forged) {
			t.Fatalf("the log has a line of the client: %.200q", line)
		}
	}
	for _, page := range []string{"/debug/nackz", "/debug/syncz", "/debug/push_status"} {
		if body, err := c.get(page); err != nil || len(body) > n*(32<<10) {
			t.Errorf("%s has %d bytes (%v)", page, len(body), err)
		}
	}
}

// TestForgedNodesAreRefused: a node ID that is too long or not printable is refused, with a
// one-line error in the response and in the log.
func TestForgedNodesAreRefused(t *testing.T) {
	c := start(t, map[string]string{"services.yaml": services(1)})
	for name, id := range map[string]string{
		"line feed": "web\n2026-11-22T00:00:00.000000Z\tinfo\tca\tforged", "escape": "web\x1b[2K", "separator": "web\u2028x",
		"long": strings.Repeat("x", 5000),
	} {
		err := sidecar.ConnectRejected(t, c.grpc, sidecar.Node(id, "default", "10.2.0.9", nil))
		if err == nil || !strings.Contains(err.Error(), "node id") || strings.ContainsAny(err.Error(), "\n\x1b\u2028") || len(err.Error()) > 1000 {
			t.Errorf("%s: %.400q", name, fmt.Sprint(err))
		}
	}
	for line := range strings.Lines(c.log.String()) {
		if strings.ContainsAny(strings.TrimSuffix(line, "\n"), "\x1b\u2028\r") || strings.HasSuffix(line, "forged\n") || len(line) > 4<<10 {
			t.Errorf("log line %.300q", line)
		}
	}
}
