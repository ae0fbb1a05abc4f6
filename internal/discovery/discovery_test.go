package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/serving"
	"github.com/meshpilot/meshpilot/test/support/sidecar"
)

const patience = 20 * time.Second

// controlPlane is a control plane that runs in the test's process, on its own loopback ports.
type controlPlane struct {
	t          *testing.T
	dir        string
	http, grpc string
	log        *serving.Log
	server     *server
	stop       func() error
}

func testOptions(t *testing.T, dir string) Options {
	t.Helper()
	o := Defaults()
	o.GRPCAddr, o.HTTPAddr = serving.FreeAddress(t), serving.FreeAddress(t)
	o.SecureGRPCAddr, o.HTTPSAddr, o.MonitoringAddr, o.ControlZPort = "", "", "", 0
	o.Registries, o.ConfigDir = nil, dir
	o.MeshConfigFile, o.NetworksConfigFile = filepath.Join(dir, ".mesh"), ""
	return o
}

func start(t *testing.T, files map[string]string) *controlPlane {
	t.Helper()
	return startWith(t, files, func(*Options) {})
}

func startWith(t *testing.T, files map[string]string, change func(*Options)) *controlPlane {
	t.Helper()
	c := launchWith(t, files, change)
	c.eventually("ready", func() error {
		_, err := c.get("/ready")
		return err
	})
	return c
}

// launchWith is startWith without waiting until the control plane is ready.
func launchWith(t *testing.T, files map[string]string, change func(*Options)) *controlPlane {
	t.Helper()
	c := &controlPlane{t: t, dir: t.TempDir(), log: new(serving.Log)}
	for name, text := range files {
		c.write(name, text)
	}
	o := testOptions(t, c.dir)
	o.Logs.Out = c.log
	change(&o)
	c.http, c.grpc = o.HTTPAddr, o.GRPCAddr
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.server, err = newServer(o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.server.run(ctx) }()
	c.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() {
		if err := c.stop(); err != nil {
			t.Errorf("the control plane ended with %v", err)
		}
		if t.Failed() {
			t.Logf("log:\n%s", c.log)
		}
	})
	return c
}

func (c *controlPlane) write(name, text string) {
	c.t.Helper()
	staged := filepath.Join(c.t.TempDir(), "staged")
	if err := os.WriteFile(staged, []byte(text), 0o644); err != nil {
		c.t.Fatal(err)
	}
	if err := os.Rename(staged, filepath.Join(c.dir, name)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *controlPlane) get(path string) (string, error) {
	return serving.Page("http://" + c.http + path)
}

func (c *controlPlane) eventually(what string, check func() error) {
	c.t.Helper()
	serving.Eventually(c.t, patience, what, check)
}

// translated returns how many resources were generated, by type, from the metrics.
func (c *controlPlane) translated() map[string]string {
	c.t.Helper()
	body, err := c.get("/metrics")
	if err != nil {
		c.t.Fatal(err)
	}
	out := map[string]string{}
	for line := range strings.SplitSeq(body, "\n") {
		if rest, ok := strings.CutPrefix(line, `meshpilot_translated_resources_total{type="`); ok {
			name, value, _ := strings.Cut(rest, `"} `)
			out[name] = value
		}
	}
	return out
}

// connect connects a sidecar of the default namespace.
func (c *controlPlane) connect(name, ip string) *sidecar.Proxy {
	c.t.Helper()
	return sidecar.Connect(c.t, c.grpc, sidecar.Node(name, "default", ip, nil))
}

// services returns n services with one endpoint each, and the pods of a client Deployment.
func services(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `
apiVersion: v1
kind: Service
metadata: {name: s%d, namespace: default}
spec: {clusterIP: 10.96.1.%d, selector: {app: s%d}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: s%d-1, namespace: default, labels: {kubernetes.io/service-name: s%d}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.1.0.%d], conditions: {ready: true}}]
---
`, i, i+1, i, i, i, i+1)
	}
	return b.String()
}

const rule = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: s0, namespace: default}
spec:
  hosts: [s0]
  http: [{name: %s, route: [{destination: {host: s1}}]}]
`

// TestAlikeProxiesCostOneTranslation: ten sidecars of one namespace cause as many translations as
// one, when they connect and after a change.
func TestAlikeProxiesCostOneTranslation(t *testing.T) {
	const n = 20
	c := start(t, map[string]string{"services.yaml": services(n), "rule.yaml": fmt.Sprintf(rule, "first")})
	var proxies []*sidecar.Proxy
	whole := func(p *sidecar.Proxy) func() error {
		return func() error {
			if len(p.ResourceNames(api.EndpointType)) != n || p.VersionOf(api.RouteType, "80") == "" || len(p.ResourceNames(api.ListenerType)) == 0 {
				return fmt.Errorf("%d assignments, %d listeners, route %q", len(p.ResourceNames(api.EndpointType)), len(p.ResourceNames(api.ListenerType)), p.VersionOf(api.RouteType, "80"))
			}
			return nil
		}
	}
	connect := func(i int) {
		p := c.connect(fmt.Sprintf("client-%d", i), fmt.Sprintf("10.2.0.%d", i+1))
		c.eventually("the configuration is whole", whole(p))
		proxies = append(proxies, p)
	}
	edit := func(name string) map[string]string {
		before := make([]string, len(proxies))
		for i, p := range proxies {
			before[i] = p.VersionOf(api.RouteType, "80")
		}
		c.write("rule.yaml", fmt.Sprintf(rule, name))
		c.eventually("the edit arrives everywhere", func() error {
			for i, p := range proxies {
				if p.VersionOf(api.RouteType, "80") == before[i] {
					return fmt.Errorf("proxy %d still has the old routes", i)
				}
			}
			return nil
		})
		return c.translated()
	}

	connect(0)
	one := c.translated()
	if one["cds"] == "0" || one["eds"] == "0" || one["lds"] == "0" || one["rds"] == "0" || len(one) < 4 {
		t.Fatalf("no translations were counted: %v", one)
	}
	for i := 1; i < 10; i++ {
		connect(i)
	}
	if ten := c.translated(); !maps.Equal(one, ten) {
		t.Errorf("translations for ten proxies = %v, for one = %v", ten, one)
	}
	want := maps.Clone(one)
	var routes int
	if _, err := fmt.Sscan(one["rds"], &routes); err != nil {
		t.Fatal(err)
	}
	want["rds"] = fmt.Sprint(routes + 1) // the one changed virtual host
	if got := edit("second"); !maps.Equal(want, got) {
		t.Errorf("translations after an edit with ten proxies = %v, want %v", got, want)
	}
	versions := map[string]bool{}
	for _, p := range proxies {
		versions[p.VersionOf(api.RouteType, "80")] = true
	}
	if len(versions) != 1 {
		t.Errorf("identical proxies have %d versions of one route configuration", len(versions))
	}
}

func TestDebugPages(t *testing.T) {
	c := start(t, map[string]string{"services.yaml": services(2), "rule.yaml": fmt.Sprintf(rule, "first")})
	p := c.connect("client", "10.2.0.1")
	c.eventually("the configuration is whole", func() error {
		if len(p.ResourceNames(api.EndpointType)) != 2 || p.VersionOf(api.RouteType, "80") == "" {
			return fmt.Errorf("the change has not arrived")
		}
		return nil
	})
	for path, want := range map[string][]string{
		"/debug":                {"/debug/adsz", "/debug/problemz"},
		"/debug/list":           {`"syncz"`},
		"/debug/registryz":      {`"hostname":"s0.default.svc.cluster.local"`, `"defaultAddress":"10.96.1.1"`, `"protocol":"HTTP"`},
		"/debug/endpointz":      {`"svc":"s0.default.svc.cluster.local:http"`, "10.1.0.1"},
		"/debug/endpointShardz": {"Kubernetes/Kubernetes"},
		"/debug/configz":        {`"kind":"VirtualService"`, `"name":"s0"`},
		"/debug/adsz":           {`"totalClients":1`, "client.default"},
		"/debug/connections":    {`"totalClients":1`},
		"/debug/config_dump?proxyID=client.default": {"outbound|80||s0.default.svc.cluster.local", "virtualOutbound", "s1.default.svc.cluster.local"},
		"/debug/edsz?proxyID=client":                {"10.1.0.1"},
		"/debug/mesh":                               {"outboundTrafficPolicy"},
		"/debug/networkz":                           {"[]"},
		"/debug/nackz":                              {"[]"},
		"/debug/problemz":                           {"[]"},
		"/debug/push_status":                        {"pilot_no_ip"}, // no workload has the client's address
		"/version":                                  {obs.Version + "-"},
		"/metrics":                                  {"pilot_xds_pushes", "pilot_proxy_convergence_time", "pilot_services 2", "pilot_virt_services 1", "pilot_info"},
	} {
		body, err := c.get(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		for _, w := range want {
			if !strings.Contains(body, w) {
				t.Errorf("%s does not contain %q:\n%.600s", path, w, body)
			}
		}
	}
	c.eventually("everything is acknowledged", func() error {
		body, err := c.get("/debug/syncz")
		if err != nil {
			return err
		}
		var list []map[string]any
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			return err
		}
		if len(list) != 1 {
			return fmt.Errorf("%d proxies: %s", len(list), body)
		}
		for _, x := range []string{"cluster", "listener", "route", "endpoint"} {
			if s := list[0]; s[x+"_sent"] == "" || s[x+"_sent"] != s[x+"_acked"] {
				return fmt.Errorf("%s: %v", x, s)
			}
		}
		return nil
	})
	for path, status := range map[string]string{"/debug/config_dump?proxyID=unknown": "404", "/debug/config_dump": "400", "/debug/nothing": "404"} {
		if _, err := c.get(path); err == nil || !strings.Contains(err.Error(), status) {
			t.Errorf("%s: %v, want %s", path, err, status)
		}
	}
}

// TestNotReadyBeforeSourcesAreInSync: until all sources are in sync, the readiness probe names the
// missing source and the xDS port is closed.
func TestNotReadyBeforeSourcesAreInSync(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	parent := t.TempDir()
	dir := filepath.Join(parent, "config")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	o := testOptions(t, dir)
	o.Logs.Out = io.Discard
	s, err := newServer(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dir); err != nil { // deleted between validation and start
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.run(ctx) }()
	c := &controlPlane{t: t, http: o.HTTPAddr, log: new(serving.Log)}
	c.eventually("the reason", func() error {
		_, err := c.get("/ready")
		if err == nil {
			return errors.New("/ready answers 200")
		}
		if !strings.Contains(err.Error(), "503") || !strings.Contains(err.Error(), "file:"+dir) {
			return err
		}
		return nil
	})
	if conn, err := net.Dial("tcp", o.GRPCAddr); err == nil {
		conn.Close()
		t.Error("the xDS port is open before the sources are in sync")
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c.eventually("ready", func() error {
		_, err := c.get("/ready")
		return err
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestStopsWithinTheShutdownDuration although a stream is open.
func TestStopsWithinTheShutdownDuration(t *testing.T) {
	c := start(t, map[string]string{"services.yaml": services(1)})
	p := c.connect("client", "10.2.0.1")
	c.eventually("clusters", func() error {
		if len(p.ResourceNames(api.ClusterType)) == 0 {
			return fmt.Errorf("no connection yet")
		}
		return nil
	})
	p.AllowEnd()
	begin := time.Now()
	if err := c.stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > Defaults().ShutdownDuration {
		t.Errorf("took %v", took)
	}
}

func TestBadOptionsAreNamed(t *testing.T) {
	for flag, edit := range map[string]func(*Options){
		"--grpcAddr":                        func(o *Options) { o.GRPCAddr = "15010" },
		"--monitoringAddr":                  func(o *Options) { o.MonitoringAddr = ":http:" },
		"--registries":                      func(o *Options) { o.Registries = []string{"Bogus"} },
		"--configDir":                       func(o *Options) { o.ConfigDir = "/nowhere/at/all" },
		`--domain ""`:                       func(o *Options) { o.Domain = "" },
		`--domain "Mesh.Local"`:             func(o *Options) { o.Domain = "Mesh.Local" },
		`--domain "mesh.local."`:            func(o *Options) { o.Domain = "mesh.local." },
		`cluster "c" has two aliases`:       func(o *Options) { o.ClusterAliases = []string{"a=c", "b=c"} },
		`"a" is the alias of two clusters`:  func(o *Options) { o.ClusterAliases = []string{"a=c", "a=d"} },
		"--keepaliveMaxServerConnectionAge": func(o *Options) { o.Keepalive.MaxServerConnectionAge = 0 },
		"--shutdownDuration":                func(o *Options) { o.ShutdownDuration = -1 },
		"COMPLIANCE_POLICY":                 func(o *Options) { o.TLS.Compliance = "rot13" },
		"--tls-cipher-suites":               func(o *Options) { o.TLS.CipherSuites = []string{"ROT13"} },
		"--tls-min-version":                 func(o *Options) { o.TLS.MinVersion = "SSL3" },
		"PILOT_DEBOUNCE_AFTER":              func(o *Options) { o.Push.DebounceAfter = time.Hour },
	} {
		o := testOptions(t, t.TempDir())
		if err := o.Validate(); err != nil {
			t.Fatal(err)
		}
		edit(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: error %v", flag, err)
		}
	}
}

func TestBusyPortIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for flag, edit := range map[string]func(*Options){
		"--grpcAddr": func(o *Options) { o.GRPCAddr = l.Addr().String() },
		"--httpAddr": func(o *Options) { o.HTTPAddr = l.Addr().String() },
	} {
		o := testOptions(t, t.TempDir())
		o.Logs.Out = io.Discard
		edit(&o)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		err := Run(ctx, o)
		cancel()
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: error %v", flag, err)
		}
	}
}
