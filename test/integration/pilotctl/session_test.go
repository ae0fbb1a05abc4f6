package pilotctl

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/meshpilot/meshpilot/internal/diagnostics/cli"
	"github.com/meshpilot/meshpilot/internal/diagnostics/connect"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/controlplane"
	"github.com/meshpilot/meshpilot/test/support/golden"
	"github.com/meshpilot/meshpilot/test/support/serving"
	"github.com/meshpilot/meshpilot/test/support/sidecar"
)

// serverVariable has the address of the control plane.
const serverVariable = "PILOTCTL_SERVER"

// TestSessions runs the commands of each file of testdata beside the files of the sample, on a control plane that
// reads its objects and those of files of the sample, with its proxies connected: a line has the name, the
// namespace, the address, the service account and the labels of one. A line "cp FILE my-mesh/NAME" is no command of pilotctl, but makes a
// file of the sample one of the objects, and "cat FILE" prints a file. docs/PILOTCTL.md has the outputs of
// reference.txtar.
func TestSessions(t *testing.T) {
	golden.Run(t, absolutePath(t, "testdata/*.txtar"), func(t *testing.T, c *golden.Case) {
		enterSample(t)
		o := controlplane.Options(t)
		o.ConfigDir, o.PodName = "my-mesh", "istiod-1"
		o.ControlZPort = uint16(serving.FreePort(t))
		o.Authority.Dir, o.SecureGRPCAddr = "ca", serving.FreeAddress(t)
		for path, section := range map[string]string{filepath.Join(o.ConfigDir, "mesh.yaml"): "mesh.yaml", "group.yaml": "group.yaml"} {
			if err := os.WriteFile(path, c.Input(section), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for path := range strings.FieldsSeq(string(c.Input("files"))) {
			copyFile(t, path, filepath.Join(o.ConfigDir, filepath.Base(path)))
		}
		p := controlplane.Start(t, o)
		for line := range strings.Lines(string(c.Input("proxies"))) {
			connectLine(t, p, strings.Fields(line))
		}
		s := &session{variables: map[string]string{serverVariable: p.HTTP}, ctrlz: fmt.Sprintf("localhost:%d", o.ControlZPort)}
		for line := range strings.Lines(string(c.Input("commands"))) {
			line = strings.TrimSpace(line)
			words := splitWords(line)
			switch words[0] {
			case "cat":
				fmt.Fprintf(&s.text, "$ %s\n%s\n", line, readFile(t, words[1]))
			case "cp":
				fmt.Fprintf(&s.text, "$ %s\n\n", line)
				copyFile(t, words[1], words[2])
				if code, err := s.pilotctl(t, io.Discard, "wait", "-f", words[1]); err != nil && code == 1 {
					t.Fatal(err)
				}
			default:
				s.run(t, line, words)
			}
		}
		c.Compare(t, "session", []byte(s.stableText()))
	})
}

// session is what a user has typed and seen.
type session struct {
	// variables are the environment of pilotctl, and ctrlz is the ControlZ port of the control plane.
	variables map[string]string
	ctrlz     string
	text      bytes.Buffer
}

// run runs a command and appends it and its output to the session. Of "COMMAND | head -N" it appends the
// first N lines.
func (s *session) run(t *testing.T, line string, words []string) {
	t.Helper()
	fmt.Fprintf(&s.text, "$ pilotctl %s\n", line)
	lines := -1
	if n := len(words) - 3; n > 0 && words[n] == "|" {
		lines, words = number(t, strings.TrimPrefix(words[n+2], "-")), words[:n]
	}
	var out bytes.Buffer
	code, err := s.pilotctl(t, &out, words...)
	for text := range strings.Lines(out.String()) {
		if lines == 0 {
			break
		}
		s.text.WriteString(text)
		lines--
	}
	if text := s.text.Bytes(); text[len(text)-1] != '\n' {
		s.text.WriteString("\n")
	}
	if err != nil {
		fmt.Fprintf(&s.text, "pilotctl: %s (exit code %d)\n", err, code)
	}
	s.text.WriteString("\n")
}

// pilotctl runs a command of pilotctl with the session's environment, and returns its exit code and error.
func (s *session) pilotctl(t *testing.T, out io.Writer, words ...string) (code int, err error) {
	t.Helper()
	command := cli.NewIn(cli.Environment{Variable: func(name string) string { return s.variables[name] }})
	command.SetOut(out)
	command.SetErr(out)
	if words[0] == "log" {
		words = append(words, "--ctrlz", s.ctrlz)
	}
	command.SetArgs(words)
	err = command.ExecuteContext(t.Context())
	return cli.ExitCode(err), err
}

// stableText returns the session with the default address of the control plane, and with fixed times, ages
// and digests.
func (s *session) stableText() string {
	text := s.text.String()
	if server := s.variables[serverVariable]; server != "" {
		text = strings.ReplaceAll(text, server, connect.DefaultAddress)
	}
	for _, r := range []struct{ pattern, by string }{
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`, "2026-11-01T12:00:00Z"},
		{`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`, "2026-11-01 12:00:00"},
		{`\(for \d+s\)`, "(for 5s)"},
		{`\d+\.\d+\.\d+-\w+-(Clean|Modified)`, "0.6.0-1a2b3c4d-Clean"},
		{`client version: .*`, "client version: 0.6.0"},
		{`(SYNCED +)\d+( +)\d+ `, "${1}4${2}4 "},                              // nonces
		{`PENDING +FIRST +LAST +SLOWEST`, "PENDING   FIRST   LAST   SLOWEST"}, // the times of a change have any width
		{`(certificate-authority-data|token): \S+`, "$1: REDACTED"},
		{`(eyJhbGciOiJ\w{10})\w+\.eyJ[\w-]+\.[\w-]+`, "$1..."}, // a token
		{`SERIAL NUMBER +`, "SERIAL NUMBER      "},
		{`(ROOTCA .* true +)[0-9a-f]+ +`, "${1}114a697f34a5d8fe   "},
		{`0\.0\.0\.0_\d{5}`, "0.0.0.0_30080"}, // the gateway has a free port
		{`NAME +RPS +ERROR RPS +P50 +P90 +P99`, "NAME           RPS      ERROR RPS   P50     P90     P99"},
		{`(?m)^(gateway\.shop) +[\d.]+ +[\d.]+( +[\d.]+ms){3}$`, "$1   212.60   106.40      2.1ms   4.6ms   9.8ms"},
		{`("portValue": )\d+`, "${1}15000"},
		{`(?m)^http://127\.0\.0\.1:\d+/`, "http://127.0.0.1:36500/"}, // dashboards have free ports
		{`(?m)^(istiod-1\.\d.*?(  +\d+){4}) +.*$`, "$1         1.2ms   3.4ms   reviews-v1.default"},
	} {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.by)
	}
	text = numberChanges(text)
	return regexp.MustCompile(`  \d+(ms|s) *`).ReplaceAllStringFunc(text, func(cell string) string {
		return fmt.Sprintf("%-*s", len(cell), "  5s")
	})
}

// numberChanges returns the text with IDs of changes that end in 1, 2, …: how many a replica has pushed
// before depends on its start.
func numberChanges(text string) string {
	id := regexp.MustCompile(`(?m)^istiod-1\.\d+`)
	found := slices.Compact(slices.Sorted(slices.Values(id.FindAllString(text, -1))))
	return id.ReplaceAllStringFunc(text, func(s string) string { return fmt.Sprint("istiod-1.", slices.Index(found, s)+1) })
}

// number returns the number in a text.
func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// splitWords returns the words of a line, of which some are in single quotes.
func splitWords(line string) (words []string) {
	for _, w := range regexp.MustCompile(`'[^']*'|\S+`).FindAllString(line, -1) {
		words = append(words, strings.Trim(w, "'"))
	}
	return words
}

// enterSample changes to a new directory with the empty directory my-mesh, and the files of the sample.
func enterSample(t *testing.T) {
	t.Helper()
	sample, err := filepath.Abs("../../../samples/bookinfo")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.Mkdir("my-mesh", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"platform", "networking", "calls"} {
		if err := os.Symlink(filepath.Join(sample, name), name); err != nil {
			t.Fatal(err)
		}
	}
}

// copyFile copies a file.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	if err := os.WriteFile(to, readFile(t, from), 0o600); err != nil {
		t.Fatal(err)
	}
}

// readFile returns the content of a file.
func readFile(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// absolutePath returns a path that stays valid in another directory.
func absolutePath(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// connectLine connects the proxy of a line, and waits until it has its listeners, and the filters that
// these have by ECDS.
func connectLine(t *testing.T, p *controlplane.Plane, fields []string) {
	t.Helper()
	name, namespace, ip, account := fields[0], fields[1], fields[2], fields[3]
	labels := map[string]any{}
	for _, l := range fields[4:] {
		k, v, _ := strings.Cut(l, "=")
		labels[k] = v
	}
	metadata := map[string]any{"LABELS": labels, "NAMESPACE": namespace, "SERVICE_ACCOUNT": account, "ISTIO_VERSION": "1.31.0", "CLUSTER_ID": "Kubernetes"}
	node := sidecar.Node(name, namespace, ip, metadata)
	node.UserAgentVersionType = &corev3.Node_UserAgentBuildVersion{
		UserAgentBuildVersion: &corev3.BuildVersion{Version: &typev3.SemanticVersion{MajorNumber: 1, MinorNumber: 40}},
	}
	if _, router := labels["istio"]; router {
		node.Id = strings.Replace(node.GetId(), "sidecar~", "router~", 1)
	}
	x := sidecar.Connect(t, p.GRPC, node)
	p.Eventually(name+" has its listeners", func() error {
		if len(x.ResourceNames(api.ListenerType)) == 0 {
			return fmt.Errorf("it has the clusters %v", x.ResourceNames(api.ClusterType))
		}
		return nil
	})
	requestFilters(p, x, name)
}

// requestFilters subscribes a proxy to the filters that its listeners have by ECDS, and waits until it has
// them.
func requestFilters(p *controlplane.Plane, x *sidecar.Proxy, name string) {
	filters := extensionNames(x)
	if len(filters) == 0 {
		return
	}
	x.Subscribe(api.ExtensionType, filters...)
	p.Eventually(name+" has its filters", func() error {
		if have := x.ResourceNames(api.ExtensionType); len(have) < len(filters) {
			return fmt.Errorf("it has %v of %v", have, filters)
		}
		return nil
	})
}

// extensionNames returns the names of the filters that a proxy's listeners have by ECDS.
func extensionNames(x *sidecar.Proxy) (names []string) {
	for _, name := range x.ResourceNames(api.ListenerType) {
		l := new(listenerv3.Listener)
		x.Read(api.ListenerType, name, l)
		for _, chain := range append(slices.Clone(l.GetFilterChains()), l.GetDefaultFilterChain()) {
			for _, f := range chain.GetFilters() {
				if f.GetConfigDiscovery() != nil {
					names = append(names, f.GetName())
				}
				m := new(hcmv3.HttpConnectionManager)
				if !f.GetTypedConfig().MessageIs(m) || f.GetTypedConfig().UnmarshalTo(m) != nil {
					continue
				}
				for _, h := range m.GetHttpFilters() {
					if h.GetConfigDiscovery() != nil {
						names = append(names, h.GetName())
					}
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
