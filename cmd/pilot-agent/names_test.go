package main

import (
	"fmt"
	"net"
	"testing"

	"github.com/miekg/dns"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// TestNames tests that with DNS capture the proxy is ready once it has the name table, and resolves
// its names as they change. Probes of the kubelet reach the application through the agent.
func TestNames(t *testing.T) {
	t.Parallel()
	app := newService(t)
	at := fmt.Sprintf("127.0.0.1:%d", serving.FreePort(t))
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", serving.FreePort(t)))
	if err != nil {
		t.Fatal(err)
	}
	plane := newControlPlane(t, l)
	a := startAgent(t, settings{
		config: map[string]any{"discoveryAddress": l.Addr().String()},
		env: []string{
			"ISTIO_META_DNS_CAPTURE=true",
			"DNS_PROXY_ADDR=" + at,
			fmt.Sprintf(`ISTIO_KUBE_APP_PROBERS={"/app-health/app/readyz":{"httpGet":{"path":"/","port":%d}}}`,
				app.port),
		},
	})
	a.awaitLog(t, "the proxy is not ready: DNS proxy has not received a name table from the control plane")
	for _, ip := range []string{"10.96.0.1", "10.96.0.2"} {
		plane.setNames(
			mesh.NameTable{
				"web.ns.svc.cluster.local": {
					IPs:       []string{ip},
					Registry:  mesh.Kubernetes,
					ShortName: "web",
					Namespace: "ns",
				},
			},
		)
		serving.Eventually(t, patience, "the name", func() error {
			reply, err := dns.Exchange(new(dns.Msg).SetQuestion("web.", dns.TypeA), at)
			if err != nil {
				return err
			}
			if len(reply.Answer) != 1 ||
				reply.Answer[0].(*dns.A).A.String() != ip { //nolint:forcetypeassert // type A requested
				return fmt.Errorf("answer %v", reply)
			}
			return nil
		})
	}
	a.awaitReady(t)
	check(
		t,
		want(
			get(a.status, "/debug/ndsz"),
			200,
			`"web.ns.svc.cluster.local":{"ips":["10.96.0.2"],"registry":"Kubernetes","shortname":"web","namespace":"ns"}`,
		),
	)
	check(t, want(get(a.status, "/app-health/app/readyz"), 200, "hello"))
	check(t, want(get(a.status, "/stats/prometheus"), 200, "istio_agent_dns_requests_total"))
	if len(plane.connected()) != 1 {
		t.Errorf("streams of %v", plane.connected())
	}
}
