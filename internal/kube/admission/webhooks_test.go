package admission

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/kube/inject"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// certificate is a serving certificate whose roots are set later.
type certificate struct {
	mu      sync.Mutex
	roots   []byte
	changed chan struct{}
}

func (*certificate) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return nil, errors.New("no certificate")
}

func (c *certificate) CABundle() ([]byte, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.roots, c.changed
}

func (c *certificate) set(roots string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.changed)
	c.roots, c.changed = []byte(roots), make(chan struct{})
}

// newWebhooks returns Webhooks of an API server that does not exist, unless o has a client.
func newWebhooks(t *testing.T, o Options) *Webhooks {
	t.Helper()
	if o.Client == nil {
		client, err := kube.NewClient(&rest.Config{Host: "http://127.0.0.1:1"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.HTTP.CloseIdleConnections)
		o.Client = client
	}
	logs, err := obs.NewLogs(obs.LogOptions{Out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	o.Logs, o.Metrics = logs, obs.NewMetrics().Webhooks
	if o.Certificate == nil {
		o.Certificate = &certificate{changed: make(chan struct{})}
	}
	return New(o)
}

func TestReadiness(t *testing.T) {
	for _, inject := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			serving := &certificate{changed: make(chan struct{})}
			ready := 0
			w := newWebhooks(t, Options{Settings: Settings{Inject: inject}, Certificate: serving, OnReady: func() { ready++ }})
			go w.awaitReady(t.Context())
			expect := func(when string, want int) {
				t.Helper()
				if synctest.Wait(); ready != want {
					t.Errorf("inject %v, %s: OnReady was called %d times, want %d", inject, when, ready, want)
				}
			}
			expect("without a certificate", 0)
			serving.set("")
			expect("with an empty certificate", 0)
			if inject {
				serving.set("roots")
				expect("without templates", 0)
				w.configMap.OnSynced()
			} else {
				serving.set("roots")
			}
			expect("with all", 1)
		})
	}
}

func TestReadinessEndsWithTheContext(t *testing.T) {
	for _, roots := range []string{"", "roots"} { // waits for the certificate, and for the templates
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w := newWebhooks(t, Options{
			Settings:    Settings{Inject: true},
			Certificate: &certificate{roots: []byte(roots), changed: make(chan struct{})},
			OnReady:     func() { t.Error("OnReady is called after the end") },
		})
		w.awaitReady(ctx)
	}
}

func TestInjection(t *testing.T) {
	if w := newWebhooks(t, Options{Settings: Settings{OpenShift: true}}); w.Injector() != nil || w.configMap != nil || w.local != nil {
		t.Error("there is an injector although nothing is injected")
	}
	for revision, want := range map[string]string{
		"": "istio-sidecar-injector", "default": "istio-sidecar-injector", "canary": "istio-sidecar-injector-canary",
	} {
		w := newWebhooks(t, Options{Settings: Settings{Inject: true}, Namespace: "mesh-system", Revision: revision})
		if w.configMap.Name != want || w.configMap.Namespace != "mesh-system" {
			t.Errorf("revision %q reads %s/%s", revision, w.configMap.Namespace, w.configMap.Name)
		}
		if w.Injector().Revision != revision {
			t.Errorf("the injector has the revision %q, want %q", w.Injector().Revision, revision)
		}
	}
	for _, value := range []string{"true", "false"} {
		w := newWebhooks(t, Options{Settings: Settings{Inject: true, NativeSidecars: value}})
		if w.local.nodes != nil || w.Injector().HasNativeSidecars("", "node") != (value == "true") {
			t.Errorf("NativeSidecars %s differs from the injector", value)
		}
	}
	for _, value := range []string{"", "auto"} {
		if w := newWebhooks(t, Options{Settings: Settings{Inject: true, NativeSidecars: value}}); w.local.nodes == nil {
			t.Errorf("NativeSidecars %q: the nodes are not read", value)
		}
	}
	for _, openShift := range []bool{true, false} {
		w := newWebhooks(t, Options{Settings: Settings{Inject: true, OpenShift: openShift}})
		if (w.local.namespaces != nil) != openShift || (w.Injector().ProxyUsers != nil) != openShift {
			t.Errorf("OpenShift %v: the users of namespaces are read: %v", openShift, w.local.namespaces != nil)
		}
	}
}

func TestConfigurations(t *testing.T) {
	for _, test := range []struct {
		settings                            Settings
		some, injection, validation, remote bool
	}{
		{settings: Settings{Inject: true}},
		{settings: Settings{Inject: true, InjectionConfigs: true}, some: true, injection: true, remote: true},
		{settings: Settings{InjectionConfigs: true}, some: true},
		{settings: Settings{ValidationConfigs: true}, some: true, validation: true},
		{settings: Settings{Inject: true, InjectionConfigs: true, ValidationConfigs: true}, some: true, injection: true, validation: true, remote: true},
	} {
		w := newWebhooks(t, Options{Settings: test.settings})
		c := w.configurations()
		if (c != nil) != test.some {
			t.Errorf("%+v: configurations are maintained: %v", test.settings, c != nil)
		} else if c != nil && (c.Injection != test.injection || c.Validation != test.validation || c.Revision != "default") {
			t.Errorf("%+v: injection %v, validation %v, revision %q", test.settings, c.Injection, c.Validation, c.Revision)
		}
		if w.KeepsRemoteConfigurations() != test.remote {
			t.Errorf("%+v: those of remote clusters are maintained: %v", test.settings, w.KeepsRemoteConfigurations())
		}
	}
	if c := newWebhooks(t, Options{Revision: "canary", Settings: Settings{ValidationConfigs: true}}).configurations(); c.Revision != "canary" {
		t.Errorf("the revision is %q", c.Revision)
	}
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w := newWebhooks(t, Options{Address: l.Addr().String()})
	if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "--httpsAddr") {
		t.Errorf("a port in use: %v", err)
	}
}

// TestRemoteClusters reviews pods of the own cluster and of a remote one, whose node and namespace
// differ.
func TestRemoteClusters(t *testing.T) {
	// list returns an API server with one node and one namespace.
	list := func(kubelet, users string) *kube.Client {
		api := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			switch {
			case r.URL.Query().Has("sendInitialEvents"):
				rw.WriteHeader(http.StatusUnprocessableEntity)
				fmt.Fprint(rw, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid", "code": 422}`)
			case r.URL.Query().Has("watch"):
				rw.WriteHeader(http.StatusOK)
				_ = http.NewResponseController(rw).Flush()
				<-r.Context().Done()
			case strings.HasSuffix(r.URL.Path, "/nodes"):
				fmt.Fprintf(rw, `{"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [
					{"metadata": {"name": "n"}, "status": {"nodeInfo": {"kubeletVersion": %q}}}]}`, kubelet)
			default:
				fmt.Fprintf(rw, `{"kind": "NamespaceList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [
					{"metadata": {"name": "shop", "annotations": {"openshift.io/sa.scc.uid-range": %q}}}]}`, users)
			}
		}))
		t.Cleanup(api.Close)
		client, err := kube.NewClient(&rest.Config{Host: api.URL})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.HTTP.CloseIdleConnections)
		return client
	}
	w := newWebhooks(t, Options{
		Settings: Settings{Inject: true, OpenShift: true}, ClusterID: "east", Client: list("v1.35.0", "1000/10"),
	})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = w.local.run(ctx) })
	running.Go(func() { w.ReadRemoteCluster(ctx, "west", list("v1.32.0", "2000/10")) })
	native, users := w.Injector().HasNativeSidecars, w.Injector().ProxyUsers
	serving.Until(t, 20*time.Second, "the clusters are read", func() bool {
		return native("", "") && native("east", "n") && w.readersOf("west") != nil &&
			users("west", "shop") == inject.Users{UID: 2009, GID: 2009}
	})
	if native("west", "n") || native("west", "") || native("north", "n") {
		t.Error("nodes of the own cluster decide on native sidecars of other clusters")
	}
	if got := users("east", "shop"); got != (inject.Users{UID: 1009, GID: 1009}) {
		t.Errorf("the own cluster has %v", got)
	}
	if got := users("north", "shop"); got != (inject.Users{}) {
		t.Errorf("an unknown cluster has %v", got)
	}
	stop()
	running.Wait()
	if w.readersOf("west") != nil {
		t.Error("the removed cluster is still known")
	}
}
