package command

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/encoding/protojson"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/agent"
	"github.com/meshpilot/meshpilot/internal/agent/envoy"
	"github.com/meshpilot/meshpilot/internal/agent/probe"
	"github.com/meshpilot/meshpilot/internal/kube/inject"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/cluster/kubelet"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

// TestInjectedPod injects the pod of each case with the chart's templates, and starts the agent
// with the arguments, variables and files that the kubelet provides to the container istio-proxy,
// until before Envoy. "agent" has what the agent understands, including its warnings. What the pod
// says to the kubelet, to Prometheus and to istio-iptables must agree with it.
func TestInjectedPod(t *testing.T) {
	testdata, err := filepath.Abs("testdata") // cases change the working directory
	if err != nil {
		t.Fatal(err)
	}
	golden.Run(t, filepath.Join(testdata, "injected", "*.txtar"), func(t *testing.T, c *golden.Case) {
		p := injectPod(t, c)
		p.start(t)
		c.Compare(t, "agent", p.summary(t))
		p.checkProxyProbes(t)
		p.checkApplicationProbes(t)
		p.checkScrape(t)
		p.checkCapture(t)
	})
}

const proxyContainer = "istio-proxy"

// injectedPod is an injected pod, and the agent's view of it.
type injectedPod struct {
	pod       *corev1.Pod
	options   agent.Options
	command   envoy.Command
	bootstrap *bootstrapv3.Bootstrap
	warnings  string
}

// injectPod injects the pod of a case. Its mesh configuration is in "mesh".
func injectPod(t *testing.T, c *golden.Case) *injectedPod {
	t.Helper()
	data := cluster.InjectorConfig(t)
	s := new(inject.Settings)
	var err error
	if s.Config, err = inject.ParseConfig([]byte(data[inject.ConfigKey]), nil); err != nil {
		t.Fatal(err)
	}
	if s.Values, err = inject.ParseValues([]byte(data[inject.ValuesKey])); err != nil {
		t.Fatal(err)
	}
	if s.Mesh, err = mesh.ParseMeshConfig(c.Input("mesh")); err != nil {
		t.Fatal(err)
	}
	pod := new(corev1.Pod)
	if err := yaml.UnmarshalStrict(c.Input("pod"), pod); err != nil {
		t.Fatal(err)
	}
	r, err := s.Inject(inject.Request{Pod: pod, Namespace: pod.Namespace, NativeSidecars: c.Has("native")})
	_ = c.Input("native")
	if err != nil {
		t.Fatal(err)
	}
	if r.Pod.Name == "" { // the API server names it after its admission
		r.Pod.Name = r.Pod.GenerateName + "abcde"
	}
	return &injectedPod{pod: r.Pod}
}

// start runs the agent's command with the inputs of its container, as far as Envoy's bootstrap.
func (p *injectedPod) start(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir()) // the image's working directory is its root directory
	in, err := kubelet.InputsOf(p.pod, proxyContainer, netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("192.0.2.1"))
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range in.Files {
		write(t, filepath.Join(".", path), []byte(text))
	}
	var log, stderr bytes.Buffer
	in.Environ = append(in.Environ, "INSTANCE_IPS=10.0.0.7,fd00::7") // instead of this machine's
	o := Options{Environ: in.Environ, Args: in.Args, Stdout: io.Discard, Stderr: &stderr}
	root := NewWithRunner(o, func(ctx context.Context, o agent.Options) (err error) {
		o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: withoutTime}))
		p.options = o
		p.command, err = agent.Prepare(ctx, o)
		return err
	})
	root.SetArgs(in.Args)
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.warnings = stderr.String() + log.String()
	text, err := os.ReadFile(p.command.Args[slices.Index(p.command.Args, "-c")+1])
	if err != nil {
		t.Fatal(err)
	}
	p.bootstrap = new(bootstrapv3.Bootstrap)
	if err := protojson.Unmarshal(text, p.bootstrap); err != nil {
		t.Fatal(err)
	}
}

// withoutTime leaves out the time of log entries.
func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// summary returns the agent's view, a line for each fact.
func (p *injectedPod) summary(t *testing.T) []byte {
	t.Helper()
	o, b := p.options, p.bootstrap
	var out bytes.Buffer
	fact := func(name string, value any) { fmt.Fprintf(&out, "%s: %v\n", name, value) }
	fact("node", o.Node.ID)
	fact("discovery address", o.Config.GetDiscoveryAddress())
	fact("concurrency", o.Config.GetConcurrency().GetValue())
	fact("drain duration", o.Config.GetDrainDuration().AsDuration())
	fact("termination drain duration", o.Config.GetTerminationDrainDuration().AsDuration())
	admin := b.GetAdmin().GetAddress().GetSocketAddress().GetPortValue()
	fact("ports", fmt.Sprintf("agent %d, admin %d", o.Config.GetStatusPort(), admin))
	for _, l := range b.GetStaticResources().GetListeners() {
		fact("listener", fmt.Sprintf("%s %d", l.GetName(), l.GetAddress().GetSocketAddress().GetPortValue()))
	}
	fact("capture mode", o.Node.Metadata.InterceptionMode)
	fact("envoy log", p.logArguments())
	for _, a := range o.Applications {
		fact("merged metrics", fmt.Sprintf("%d%s", a.Port, a.Path))
	}
	for _, path := range slices.Sorted(maps.Keys(o.Probes)) {
		fact("probe "+path, describeProbe(o.Probes[path]))
		for _, header := range p.headersOf(path) {
			fact("header of "+path, header)
		}
	}
	fact("statistics", p.statistics())
	fact("labels", o.Node.Metadata.Labels)
	fact("annotations", strings.Join(slices.Sorted(maps.Keys(o.Node.Metadata.Annotations)), " "))
	metadata := o.Node.Struct.AsMap()
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		if _, isText := metadata[name].(string); isText && !strings.HasSuffix(name, "_VERSION") { // of the release
			fact("metadata "+name, metadata[name])
		}
	}
	out.WriteString(p.warnings)
	return out.Bytes()
}

// logArguments returns Envoy's arguments about its log.
func (p *injectedPod) logArguments() string {
	var list []string
	for i, arg := range p.command.Args {
		if arg == "-l" || strings.Contains(arg, "log-level") {
			list = append(list, arg, p.command.Args[min(i+1, len(p.command.Args)-1)])
		}
	}
	return strings.Join(list, " ")
}

// describeProbe returns a probe of the application as text.
func describeProbe(p probe.Probe) string {
	var text string
	switch {
	case p.HTTP != nil:
		text = fmt.Sprintf("HTTP %s:%d%s secure=%v", p.HTTP.Host, p.HTTP.Port, p.HTTP.Path, p.HTTP.Secure)
	case p.TCP != nil:
		text = fmt.Sprintf("TCP %s:%d", p.TCP.Host, p.TCP.Port)
	case p.GRPC != nil:
		text = fmt.Sprintf("gRPC %d %s", p.GRPC.Port, p.GRPC.Service)
	default:
		text = fmt.Sprint(p.Exec)
	}
	return fmt.Sprintf("%s within %v", text, p.Timeout)
}

// headersOf returns the headers that the kubelet sends to a path of the agent, which forwards them.
func (p *injectedPod) headersOf(path string) []string {
	var list []string
	for _, c := range slices.Concat(p.pod.Spec.InitContainers, p.pod.Spec.Containers) {
		for _, get := range httpActions(&c) {
			for _, h := range get.HTTPHeaders {
				if get.Path == path {
					list = append(list, h.Name+"="+h.Value)
				}
			}
		}
	}
	return list
}

// statistics returns the parts of the bootstrap's statistics that pods can change: intervals,
// numbers of patterns and labels, buckets.
func (p *injectedPod) statistics() string {
	s := p.bootstrap.GetStatsConfig()
	return fmt.Sprintf("flush %v, eviction %v, %d patterns, last label %s, %d histograms, %d sinks",
		p.bootstrap.GetStatsFlushInterval().AsDuration(), p.bootstrap.GetStatsEvictionInterval().AsDuration(),
		len(s.GetStatsMatcher().GetInclusionList().GetPatterns()), s.GetStatsTags()[len(s.GetStatsTags())-1].GetTagName(),
		len(s.GetHistogramBucketSettings()), len(p.bootstrap.GetStatsSinks()))
}

// statusPort returns the port at which the agent serves.
func (p *injectedPod) statusPort() int { return int(p.options.Config.GetStatusPort()) }

// container returns a container of the pod, or nil.
func (p *injectedPod) container(name string) *corev1.Container {
	all := slices.Concat(p.pod.Spec.InitContainers, p.pod.Spec.Containers)
	if i := slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// checkProxyProbes tests that the kubelet's probes of the proxy reach a listener of Envoy.
func (p *injectedPod) checkProxyProbes(t *testing.T) {
	t.Helper()
	c := p.container(proxyContainer)
	for _, one := range []*corev1.Probe{c.ReadinessProbe, c.StartupProbe, c.LivenessProbe} {
		if one == nil || one.HTTPGet == nil {
			continue
		}
		port := one.HTTPGet.Port.IntValue()
		listens := slices.ContainsFunc(p.bootstrap.GetStaticResources().GetListeners(), func(l *listenerv3.Listener) bool {
			return int(l.GetAddress().GetSocketAddress().GetPortValue()) == port
		})
		if !listens && port != p.statusPort() {
			t.Errorf("the kubelet probes port %d, where nothing listens", port)
		}
	}
}

// checkApplicationProbes tests that the agent performs each probe and hook that the kubelet sends to
// it, and knows no others.
func (p *injectedPod) checkApplicationProbes(t *testing.T) {
	t.Helper()
	sent := map[string]bool{}
	for _, c := range slices.Concat(p.pod.Spec.InitContainers, p.pod.Spec.Containers) {
		for _, get := range httpActions(&c) {
			if !strings.HasPrefix(get.Path, "/app-health/") && !strings.HasPrefix(get.Path, "/app-lifecycle/") {
				continue
			}
			sent[get.Path] = true
			if get.Port.IntValue() != p.statusPort() {
				t.Errorf("%s is sent to port %d, and the agent serves %d", get.Path, get.Port.IntValue(), p.statusPort())
			}
		}
	}
	known := map[string]bool{}
	for path := range p.options.Probes {
		known[path] = true
	}
	if !maps.Equal(sent, known) {
		t.Errorf("the kubelet asks for %v, and the agent performs %v", sent, known)
	}
}

// httpActions returns the HTTP requests of a container's probes and hooks.
func httpActions(c *corev1.Container) []*corev1.HTTPGetAction {
	var list []*corev1.HTTPGetAction
	for _, one := range []*corev1.Probe{c.ReadinessProbe, c.StartupProbe, c.LivenessProbe} {
		if one != nil && one.HTTPGet != nil {
			list = append(list, one.HTTPGet)
		}
	}
	if c.Lifecycle == nil {
		return list
	}
	for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
		if h != nil && h.HTTPGet != nil {
			list = append(list, h.HTTPGet)
		}
	}
	return list
}

// checkScrape tests that Prometheus scrapes the agent where metrics are merged.
func (p *injectedPod) checkScrape(t *testing.T) {
	t.Helper()
	if len(p.options.Applications) == 0 {
		return
	}
	port, path := p.pod.Annotations["prometheus.io/port"], p.pod.Annotations["prometheus.io/path"]
	if port != strconv.Itoa(p.statusPort()) || path != "/stats/prometheus" {
		t.Errorf("Prometheus scrapes %s%s, and the agent merges at %d/stats/prometheus", port, path, p.statusPort())
	}
}

// checkCapture tests that istio-iptables uses the capture mode that the agent reports, and leaves
// the ports of agent and Envoy out. The template of gateways, which capture nothing, sets the mode
// of the mesh, as Istio's does.
func (p *injectedPod) checkCapture(t *testing.T) {
	t.Helper()
	c := p.container("istio-init")
	if c == nil {
		if mode := p.options.Node.Metadata.InterceptionMode; mode != "NONE" && p.options.Node.Type == mesh.SidecarProxy {
			t.Errorf("no traffic is captured, and the agent reports %s", mode)
		}
		return
	}
	value := func(flag string) string {
		i := slices.Index(c.Args, flag)
		if i < 0 {
			return ""
		}
		return c.Args[i+1]
	}
	if mode := p.options.Node.Metadata.InterceptionMode; value("-m") != mode {
		t.Errorf("capture mode %s, and the agent reports %s", value("-m"), mode)
	}
	excluded := strings.Split(value("-d"), ",")
	env := p.options.Environment
	for _, port := range []uint32{uint32(p.statusPort()), env.EnvoyStatusPort, env.EnvoyPrometheusPort} {
		if value("-b") == "*" && !slices.Contains(excluded, strconv.Itoa(int(port))) {
			t.Errorf("port %d of agent or Envoy is captured: excluded are %v", port, excluded)
		}
	}
}
