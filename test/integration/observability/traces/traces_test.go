package traces

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"

	"github.com/meshpilot/meshpilot/internal/diagnostics/pushtrace"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/samples/bookinfo"
	"github.com/meshpilot/meshpilot/test/support/controlplane"
	"github.com/meshpilot/meshpilot/test/support/sidecar"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const cause = "VirtualService default/reviews"

// route routes reviews to a version.
func route(version string) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews, namespace: default}
spec:
  hosts: [reviews]
  http: [{timeout: 3s, headers: {request: {set: {version: %s}}}, route: [{destination: {host: reviews}}]}]
`, version)
}

// plane is a control plane that reads Bookinfo, with two sidecars.
type plane struct {
	*controlplane.Plane
	dir     string
	proxies []*sidecar.Proxy
}

// start starts a control plane that exports traces by a protocol and logs pushes of more than slow.
func start(t *testing.T, protocol string, slow time.Duration) *plane {
	t.Helper()
	p := &plane{dir: t.TempDir()}
	if err := os.CopyFS(p.dir, bookinfo.Platform()); err != nil {
		t.Fatal(err)
	}
	o := controlplane.Options(t)
	o.ConfigDir, o.PodName, o.Push.TraceProtocol, o.Push.Slow = p.dir, "istiod-1", protocol, slow
	p.Plane = controlplane.Start(t, o)
	for i, name := range []string{"client", "ratings-v1"} {
		x := sidecar.Connect(t, p.GRPC, sidecar.Node(name, "default", fmt.Sprintf("10.66.1.%d", 10+31*i), nil))
		p.proxies = append(p.proxies, x)
		p.Eventually(name+" has its routes", func() error {
			if x.VersionOf(api.RouteType, "9080") == "" {
				return errors.New("there are none")
			}
			return nil
		})
	}
	return p
}

// write changes the VirtualService.
func (p *plane) write(t *testing.T, version string) {
	t.Helper()
	next := filepath.Join(t.TempDir(), "next")
	if err := os.WriteFile(next, []byte(route(version)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(p.dir, "reviews-route.yaml")); err != nil {
		t.Fatal(err)
	}
}

// TestTraces: a change of a VirtualService arrives at the collector as one trace with all phases.
func TestTraces(t *testing.T) {
	for protocol, serve := range map[string]func(*testing.T) (*receiver, string){pushtrace.GRPC: serveGRPC, pushtrace.HTTP: serveHTTP} {
		t.Run(protocol, func(t *testing.T) {
			r, url := serve(t)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
			t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
			p := start(t, protocol, 0)
			p.write(t, "v1")
			p.Eventually("the trace arrives", func() error {
				spans := r.received(cause)
				if len(spans) < 4 {
					return fmt.Errorf("the spans are %v", spans)
				}
				return nil
			})
			spans := r.received(cause)
			push := spans["push"]
			for _, phase := range []string{"collect", "generate", "distribute"} {
				s := spans[phase]
				if s == nil || string(s.GetParentSpanId()) != string(push.GetSpanId()) ||
					s.GetStartTimeUnixNano() < push.GetStartTimeUnixNano() || s.GetEndTimeUnixNano() > push.GetEndTimeUnixNano() {
					t.Errorf("%s is %v, of the push %v", phase, s, push)
				}
			}
			for key, want := range map[string]int64{"proxies": 2, "acknowledged": 2, "rejected": 0, "pending": 0} {
				if got := number(push, "meshpilot.push."+key); got != want {
					t.Errorf("%s is %d, want %d", key, got, want)
				}
			}
			if n := number(spans["generate"], "meshpilot.push.resources.rds"); n < 1 {
				t.Errorf("%d routes were generated: %v", n, spans["generate"])
			}
			if e := spans["distribute"].GetEvents(); len(e) != 2 || e[0].GetName() != "first acknowledgement" || e[1].GetName() != "last acknowledgement" {
				t.Errorf("the distribution has the events %v", e)
			}
			if !r.services["meshpilot"] {
				t.Errorf("the services are %v", r.services)
			}
		})
	}
}

// number returns an attribute of a span, -1 if it has none of that name.
func number(s *tracev1.Span, key string) int64 {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == key {
			return a.GetValue().GetIntValue()
		}
	}
	return -1
}

// TestSlowPush: a proxy that does not answer has the push logged, with the cause and the proxy.
func TestSlowPush(t *testing.T) {
	p := start(t, "", 300*time.Millisecond)
	p.proxies[1].SetSilent(true)
	p.write(t, "v2")
	p.Eventually("the slow push is logged", func() error {
		for line := range strings.Lines(p.LogText()) {
			if strings.Contains(line, "slow push") && strings.Contains(line, cause) &&
				strings.Contains(line, "ratings-v1.default: RDS not acknowledged") && strings.Contains(line, "phase=distribute") {
				return nil
			}
		}
		return errors.New("there is no such line")
	})
}

// TestUnavailableCollector: an address at which nothing listens is logged, and costs nothing else.
func TestUnavailableCollector(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "200")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
	p := start(t, pushtrace.HTTP, 0)
	p.write(t, "v3")
	p.Eventually("the failure is logged", func() error {
		if !strings.Contains(p.LogText(), "traces cannot be exported") {
			return errors.New("it is not")
		}
		return nil
	})
	if err := p.Ready(); err != nil {
		t.Error(err)
	}
}
