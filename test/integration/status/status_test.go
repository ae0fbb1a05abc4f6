package status

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

const service = `
apiVersion: v1
kind: Service
metadata: {name: reviews}
spec: {ports: [{name: http, port: 80}], selector: {app: reviews}}
`

func virtualService(subset, timeout string) string {
	return `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews}
spec:
  hosts: [reviews]
  http:
  - timeout: ` + timeout + `
    route: [{destination: {host: reviews` + subset + `}}]
`
}

func TestConditionCountsProxies(t *testing.T) {
	l := newLab(t)
	l.apply(service)
	root := pki.Authority("mesh")
	a, b := l.replica("pilot-a", l.authenticated(root)), l.replica("pilot-b", nil)
	p1, p2, p3 := a.connectAs(root, "one", "10.1.0.1"), a.connectAs(root, "two", "10.1.0.2"), b.connect("three", "10.1.0.3", nil)
	l.eventually("proxies are served", func() error { return served([]string{api.ClusterType, api.ListenerType, api.RouteType}, p1, p2, p3) })
	l.eventually("the other replica is registered", func() error {
		_, err := l.client.Kubernetes.CoreV1().ConfigMaps(l.system).Get(t.Context(), "pilot-b-distribution", metav1.GetOptions{})
		return err
	})
	vs := l.apply(virtualService("", "1s"))
	if said := l.waitFor(vs, "True"); said != "UpToDate: 3/3 proxies up to date." {
		t.Errorf("condition = %q", said)
	}

	t.Log("One of the replica that does not lead does not answer.")
	p3.SetSilent(true)
	p1.SetSilent(true)
	vs = l.apply(virtualService("", "2s"))
	if said := l.waitFor(vs, "Unknown"); said != "Distributing: 1/3 proxies up to date." {
		t.Errorf("condition = %q", said)
	}
	p1.SetSilent(false)
	p3.SetSilent(false)
	if said := l.waitFor(vs, "True"); said != "UpToDate: 3/3 proxies up to date." {
		t.Errorf("condition = %q", said)
	}

	t.Log("A status causes no push.")
	before, pushes := p1.Responses(), a.metric("pilot_xds_pushes")
	wrong := l.apply(virtualService(", subset: v9", "2s")) // no such subset
	said := l.waitFor(wrong, "True")
	if !strings.Contains(said, "spec.http[0].route[0].destination.subset") {
		t.Errorf("condition = %q, which names no field", said)
	}
	after := p1.Responses()
	time.Sleep(500 * time.Millisecond) // time in which nothing may be written
	if now := p1.Responses(); now != after || now == before {
		t.Errorf("%d responses before the edit, %d after, %d after its status", before, after, now)
	}
	if now := a.metric("pilot_xds_pushes"); now == pushes {
		t.Error("the edit was not pushed")
	}

	t.Log("Invalid, although the API server's schema accepts it.")
	bad := l.apply(strings.Replace(virtualService("", "2s"), "hosts: [reviews]", "hosts: [a..b]", 1))
	if said := l.waitFor(bad, "False"); !strings.HasPrefix(said, "Invalid: spec.hosts[0]") {
		t.Errorf("condition = %q", said)
	}

	t.Log("Rejected by two proxies with different proven identities, accepted by none.")
	p1.Refuse(api.RouteType)
	p2.Refuse(api.RouteType)
	vs = l.apply(virtualService("", "4s"))
	said = l.waitFor(vs, "False")
	if !strings.HasPrefix(said, "RefusedByProxies: ") {
		t.Errorf("condition = %q", said)
	}
}
