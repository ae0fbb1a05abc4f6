package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/discovery"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/faultproxy"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// TestFaults runs proxies through outages of an API server of every kind. During the outage they
// are sent nothing. Afterwards they are sent the current state of the objects that changed
// meanwhile, and nothing else.
func TestFaults(t *testing.T) {
	scorecard.Check(t, 23)
	longtest.Test(t)
	c := shared.Start(t)
	gone := `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too old resource version","reason":"Expired","code":410}}`
	refused := func(code int) func(*testing.T, *faultproxy.Front) {
		return func(_ *testing.T, f *faultproxy.Front) {
			f.Set(faultproxy.Refuse(code))
			f.CutConnections()
		}
	}
	for _, fault := range []struct {
		name  string
		begin func(t *testing.T, f *faultproxy.Front)
		// Short faults end before the control plane notices them: no age is reported.
		short bool
	}{
		{"no answer", func(_ *testing.T, f *faultproxy.Front) {
			f.Set(func(w http.ResponseWriter, _ *http.Request) bool { panic(http.ErrAbortHandler) })
			f.CutConnections()
		}, false},
		{"410", refused(410), false},
		{"500", refused(500), false},
		{"503", refused(503), false},
		{"401", refused(401), false},
		{"watches end with 410", func(_ *testing.T, f *faultproxy.Front) {
			for _, resource := range []string{"services", "endpointslices", "virtualservices", "pods"} {
				f.SendLine(resource, gone)
			}
		}, true},
		{"connections are cut", func(_ *testing.T, f *faultproxy.Front) { f.CutConnections() }, true},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			m := newMesh(t, c)
			m.service("stays", "10.1.0.1")
			m.service("scales", "10.1.0.2")
			m.service("goes", "10.1.0.3")
			m.must(m.rule("stays", "1s"))
			f := faultproxy.New(t, c.Config())
			p := launch(t, c, f.Config(), func(o *discovery.Options) { o.Kubernetes.AppNamespace = m.namespace })
			p.Eventually("ready", p.Ready)
			x := p.connect(m.namespace, "10.2.0.1")
			p.Eventually("endpoints", x.endpoints(m.outbound("stays"), "10.1.0.1"))
			p.Eventually("endpoints", x.endpoints(m.outbound("scales"), "10.1.0.2"))
			p.Eventually("endpoints", x.endpoints(m.outbound("goes"), "10.1.0.3"))
			p.Eventually("a route", x.has(api.RouteType, "80", true))
			x.RequireCluster(m.outbound("stays"))
			x.RequireCluster(m.outbound("scales"))
			x.SentResources()

			log := len(p.LogText())
			fault.begin(t, f)
			if !fault.short {
				p.says(log, "cannot be read")
			}
			m.scale("scales", "10.1.0.2", "10.1.0.20")
			m.remove("goes")
			if !fault.short {
				p.lasts(time.Second)
				if sent := x.SentResources(); sent != nil {
					t.Errorf("while it lasts the proxy is sent %v", sent)
				}
				f.Set(nil)
			}
			p.Eventually("the new endpoint", x.endpoints(m.outbound("scales"), "10.1.0.2", "10.1.0.20"))
			p.Eventually("the end of a service", x.has(api.ClusterType, m.outbound("goes"), false))
			p.Eventually("that it is whole again", func() error {
				age, err := p.age()
				if err == nil && age != 0 {
					err = fmt.Errorf("the age of the cached state is %v s", age)
				}
				return err
			})
			if !fault.short {
				p.says(log, "problem resolved: ")
			}
			want := []string{"CDS -" + m.outbound("goes"), "EDS " + m.outbound("scales"), "RDS 80"}
			sent := slices.DeleteFunc(x.SentResources(), func(s string) bool { return s == "EDS "+m.outbound("goes") }) // if its slice is deleted first
			if diff := cmp.Diff(want, sent); diff != "" {
				t.Errorf("sent in all (-want +got):\n%s", diff)
			}
		})
	}
}

// lasts keeps a fault active for a while, in which the control plane must be ready and report the
// age of its cached state.
func (p *controlPlane) lasts(d time.Duration) {
	p.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err := p.Ready(); err != nil {
			p.t.Errorf("while it lasts: %v", err)
		}
	}
	p.Eventually("an age", func() error {
		age, err := p.age()
		if err == nil && age == 0 {
			err = errors.New("the reported age of the cached state is 0")
		}
		return err
	})
}

// TestAPIServerStops kills the API server and restarts it. Proxies are sent exactly the changes
// that were made meanwhile.
func TestAPIServerStops(t *testing.T) {
	scorecard.Check(t, 23)
	longtest.Test(t)
	c := shared.Start(t)
	m := newMesh(t, c)
	m.service("stays", "10.1.0.1")
	m.service("scales", "10.1.0.2")
	p := launch(t, c, c.Config(), func(o *discovery.Options) { o.Kubernetes.AppNamespace = m.namespace })
	p.Eventually("ready", p.Ready)
	x := p.connect(m.namespace, "10.2.0.1")
	p.Eventually("endpoints", x.endpoints(m.outbound("stays"), "10.1.0.1"))
	p.Eventually("endpoints", x.endpoints(m.outbound("scales"), "10.1.0.2"))
	p.Eventually("a route", x.has(api.RouteType, "80", true))
	x.RequireCluster(m.outbound("stays"))
	x.SentResources()
	log := len(p.LogText())
	c.StopAPIServer()
	p.says(log, "the API server cannot be read: ")
	p.lasts(2 * time.Second)
	late := p.connect(m.namespace, "10.2.0.2")
	p.Eventually("a proxy that connects meanwhile has its endpoints", late.endpoints(m.outbound("scales"), "10.1.0.2"))
	m.must(c.StartAPIServer(t.Context()))
	m.scale("scales", "10.1.0.2", "10.1.0.20")
	p.Eventually("the new endpoint", x.endpoints(m.outbound("scales"), "10.1.0.2", "10.1.0.20"))
	p.says(log, "problem resolved: kubernetes/Kubernetes: the API server cannot be read")
	if diff := cmp.Diff([]string{"EDS " + m.outbound("scales")}, x.SentResources()); diff != "" {
		t.Errorf("sent in all (-want +got):\n%s", diff)
	}
	if n := strings.Count(p.LogText()[log:], "cannot be read: "); n > 6 {
		t.Errorf("the outage is %d lines in the log", n)
	}
}

// TestStartWithoutAPIServer: a control plane that starts while the API server is unreachable
// answers probes, is not ready and names the reason. It serves proxies as soon as it has read the
// API server.
func TestStartWithoutAPIServer(t *testing.T) {
	scorecard.Check(t, 23)
	longtest.Test(t)
	c := shared.Start(t)
	m := newMesh(t, c)
	m.service("a", "10.1.0.1")
	f := faultproxy.New(t, c.Config())
	f.Set(faultproxy.Refuse(503))
	p := launch(t, c, f.Config(), nil)
	p.Eventually("an answer", func() error {
		if err := p.Ready(); err == nil || !strings.Contains(err.Error(), "503") {
			return fmt.Errorf("ready: %w", err)
		}
		return nil
	})
	f.Set(func(w http.ResponseWriter, r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, "/endpointslices") && faultproxy.Refuse(403)(w, r)
	})
	p.Eventually("why", func() error {
		if err := p.Ready(); err == nil || !strings.Contains(err.Error(), "EndpointSlice (the test says 403") {
			return fmt.Errorf("ready: %w", err)
		}
		return nil
	})
	f.Set(nil)
	p.Eventually("ready", p.Ready)
	x := p.connect(m.namespace, "10.2.0.1")
	p.Eventually("endpoints", x.endpoints(m.outbound("a"), "10.1.0.1"))
}

// TestRevokedReadPermissions withdraws the right to read Services, and that to read rules. The last
// state of both is kept, and other kinds are still read.
func TestRevokedReadPermissions(t *testing.T) {
	scorecard.Check(t, 23)
	longtest.Test(t)
	c := shared.Start(t)
	m := newMesh(t, c)
	m.service("stays", "10.1.0.1")
	m.must(m.rule("stays", "1s"))
	services := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get", "list", "watch"}}
	user := "control-plane-" + m.namespace
	c.Grant(t, cluster.User(user), reads()...)
	role := c.Grant(t, cluster.User(user), services)
	f := faultproxy.New(t, c.UserConfig(user))
	p := start(t, c, f.Config())
	x := p.connect(m.namespace, "10.2.0.1")
	p.Eventually("endpoints", x.endpoints(m.outbound("stays"), "10.1.0.1"))
	p.Eventually("a route", x.has(api.RouteType, "80", true))
	x.RequireCluster(m.outbound("stays"))
	log := len(p.LogText())

	set := func(rules ...rbacv1.PolicyRule) {
		t.Helper()
		r, err := m.kube.RbacV1().ClusterRoles().Get(t.Context(), role, metav1.GetOptions{})
		m.must(err)
		r.Rules = rules
		_, err = m.kube.RbacV1().ClusterRoles().Update(t.Context(), r, metav1.UpdateOptions{})
		m.must(err)
	}
	set()
	f.CutConnections()
	p.says(log, "Service cannot be read: services is forbidden")
	m.scale("stays", "10.1.0.1", "10.1.0.10")
	p.Eventually("endpoints go on", x.endpoints(m.outbound("stays"), "10.1.0.1", "10.1.0.10"))
	m.service("new", "10.1.0.2")
	p.lasts(time.Second)
	if err := x.has(api.ClusterType, m.outbound("new"), false)(); err != nil {
		t.Error(err)
	}
	set(services)
	p.Eventually("the new service", x.endpoints(m.outbound("new"), "10.1.0.2"))
	p.says(log, "problem resolved: kubernetes/Kubernetes: Service cannot be read")
}

// TestDefinitionIsRemoved removes the definition of VirtualServices, and installs it again. An API
// server deletes the rules with it; endpoints are unaffected.
func TestDefinitionIsRemoved(t *testing.T) {
	scorecard.Check(t, 23)
	longtest.Test(t)
	own := cluster.Start(t, cluster.Options{IstioKinds: true})
	m := newMesh(t, own)
	m.service("stays", "10.1.0.1")
	m.must(m.rule("stays", "1s"))
	p := start(t, own, own.Config())
	x := p.connect(m.namespace, "10.2.0.1")
	ruled := func(want bool) func() error {
		return func() error {
			routes := new(routev3.RouteConfiguration)
			x.Read(api.RouteType, "80", routes)
			if got := strings.Contains(routes.String(), "rule-of-stays"); got != want {
				return fmt.Errorf("the rule is in force: %v", got)
			}
			return nil
		}
	}
	p.Eventually("the rule", ruled(true))
	p.Eventually("endpoints", x.endpoints(m.outbound("stays"), "10.1.0.1"))
	x.RequireCluster(m.outbound("stays"))
	const definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/virtualservices.networking.istio.io"
	m.must(m.kube.RESTClient().Delete().AbsPath(definition).Do(t.Context()).Error())
	p.Eventually("the end of the rule", ruled(false))
	p.Eventually("the end of the definition", func() error {
		if m.kube.RESTClient().Get().AbsPath(definition).Do(t.Context()).Error() == nil {
			return errors.New("it still exists")
		}
		return nil
	})
	m.must(p.Ready())
	m.must(own.InstallCRDs(t.Context(), istioCRDs(t)))
	p.Eventually("a new rule", func() error { return m.rule("stays", "2s") })
	p.Eventually("the new rule in force", ruled(true))
}

// TestMeshConfigMap changes the mesh configuration in the API server at run time, makes it invalid,
// and fixes it.
func TestMeshConfigMap(t *testing.T) {
	scorecard.Check(t, 23)
	longtest.Test(t)
	c := shared.Start(t)
	m := newMesh(t, c)
	m.service("a", "10.1.0.1")
	config := func(text string) {
		t.Helper()
		_, err := m.kube.CoreV1().ConfigMaps(m.namespace).Apply(t.Context(), meshConfigMap(m.namespace, text), metav1.ApplyOptions{FieldManager: "test", Force: true})
		m.must(err)
	}
	config("connectTimeout: 3s")
	p := launch(t, c, c.Config(), func(o *discovery.Options) { o.Namespace = m.namespace })
	p.Eventually("ready", p.Ready)
	x := p.connect(m.namespace, "10.2.0.1")
	timeout := func(want time.Duration) func() error {
		return func() error {
			page, err := p.GetPage("/debug/mesh")
			if err == nil && !strings.Contains(page, fmt.Sprintf(`"connectTimeout":"%gs"`, want.Seconds())) {
				err = errors.New(page)
			}
			return err
		}
	}
	p.Eventually("the cluster", x.has(api.ClusterType, m.outbound("a"), true))
	p.Eventually("the timeout", timeout(3*time.Second))
	x.SentResources()
	config("connectTimeout: 4s")
	p.Eventually("another timeout", timeout(4*time.Second))
	p.Eventually("the cluster again", func() error {
		if !slices.Contains(x.SentResources(), "CDS "+m.outbound("a")) {
			return errors.New("it was not sent")
		}
		return nil
	})
	log := len(p.LogText())
	config("connectTimeout: soon")
	p.says(log, "connectTimeout")
	m.must(timeout(4 * time.Second)())
	config("connectTimeout: 5s")
	p.says(log, "problem resolved: ConfigMap/"+m.namespace+"/istio, key mesh")
	p.Eventually("the timeout", timeout(5*time.Second))
}
