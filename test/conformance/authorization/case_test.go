package authorization

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/diagnostics/calltest"
)

// workload is a pod with a proxy.
type workload struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace"`
	Labels    map[string]string `json:"labels"`
	// Address is a loopback address in 127.66.0.0/16.
	Address netip.Addr `json:"address"`
	// Gateway is set for a gateway. ProxyConfig is its own, for gateways behind other proxies.
	Gateway     bool   `json:"gateway"`
	ProxyConfig string `json:"proxyConfig"`
}

// testCase is a call.
type testCase struct {
	scene *scene
	Name  string `json:"name"`
	// To is the called workload and its port: "web:8080".
	To string `json:"to"`
	// As is the caller's identity, "cluster.local/ns/shop/sa/web", or short "shop/web" in cluster.local. None: plain text.
	As string `json:"as"`
	// From is the caller's address, a loopback address.
	From netip.Addr `json:"from"`
	// Call is "METHOD PATH" of a request, exactly as it is sent; none: bytes. Host is of the request; the workload's name if none.
	Call    string   `json:"call"`
	Host    string   `json:"host"`
	Headers []string `json:"headers"`
	// HTTP2 and GRPC select the protocol.
	HTTP2 bool `json:"http2"`
	GRPC  bool `json:"grpc"`
	// SNI is the server name; with it and without As the call is by TLS without a certificate.
	SNI string `json:"sni"`
	// Token is the name of a token (token_test.go), sent as a bearer.
	Token string `json:"token"`
	// Answer is the answer of a called external authorizer: "allow", "deny", or "fail" for none.
	// For bytes it answers "deny" to the service account "denied".
	Answer string `json:"answer"`
	// Expect is "allow", "deny by shop/web[0]", "deny by none", "deny (ext_authz_denied)", "unauthenticated", "closed".
	Expect string `json:"expect"`
	// Tried is the result of dry-run rules: name and value of the access log's metadata.
	Tried map[string]string `json:"tried"`
	// Audited reports whether the access log must have the mark of AUDIT (access_log_hint); nil: either.
	Audited *bool `json:"audited"`
	// Sees is the path that the application receives.
	Sees string `json:"sees"`
	// Because is a part of the expected explanation.
	Because string `json:"because"`
}

// id returns a unique name of a case.
func (c *testCase) id() string { return c.scene.name + "/" + c.Name }

// target takes To apart.
func (c *testCase) target(t testing.TB) (*workload, uint16) {
	t.Helper()
	var port uint16
	name, text, _ := strings.Cut(c.To, ":")
	if _, err := fmt.Sscan(text, &port); err != nil {
		t.Fatalf("%s: to %q has no port", c.id(), c.To)
	}
	for _, w := range c.scene.workloads {
		if w.Name == name {
			return w, port
		}
	}
	t.Fatalf("%s: no workload %q", c.id(), name)
	return nil, 0
}

// identity is the caller's SPIFFE ID, "" for none.
func (c *testCase) identity() string {
	switch parts := strings.Split(c.As, "/"); {
	case c.As == "":
		return ""
	case len(parts) == 2:
		return "spiffe://cluster.local/ns/" + parts[0] + "/sa/" + parts[1]
	default:
		return "spiffe://" + c.As
	}
}

// expected reads Expect.
func (c *testCase) expected(t testing.TB) calltest.Verdict {
	t.Helper()
	v, err := calltest.ParseVerdict(c.Expect)
	if err != nil {
		t.Fatalf("%s: %v", c.id(), err)
	}
	return v
}

// rawByte is how a path has a byte that no text does: <ff>.
var rawByte = regexp.MustCompile(`<[0-9a-f]{2}>`)

// request takes Call apart.
func (c *testCase) request() (method, path, host string) {
	method, path, _ = strings.Cut(c.Call, " ")
	path = rawByte.ReplaceAllStringFunc(path, func(s string) string {
		b, _ := hex.DecodeString(s[1:3])
		return string(b)
	})
	name, _, _ := strings.Cut(c.To, ":")
	return method, path, cmp.Or(c.Host, name)
}

// addresses are those of workloads, as scenes have them.
const addresses = "127.66."

// ownAddresses returns addresses that no other run of these tests on this machine uses: a listener
// reserves them until the test ends.
func ownAddresses(t testing.TB) string {
	t.Helper()
	for n := 66; n < 256; n++ {
		own := fmt.Sprintf("127.%d.", n)
		if l, err := net.Listen("tcp", own+"0.1:1066"); err == nil {
			t.Cleanup(func() { l.Close() })
			return own
		}
	}
	t.Fatal("no addresses of the machine's own are left")
	return ""
}

// readScenes reads all of them, with workloads at own addresses.
func readScenes(t testing.TB) []*scene {
	t.Helper()
	own := ownAddresses(t)
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("there are no scenes: %v", err)
	}
	var list []*scene
	for _, p := range paths {
		list = append(list, readScene(t, p, own))
	}
	return list
}

func readScene(t testing.TB, path, own string) *scene {
	t.Helper()
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{name: strings.TrimSuffix(filepath.Base(path), ".txtar")}
	for _, f := range archive.Files {
		f.Data = bytes.ReplaceAll(f.Data, []byte(addresses), []byte(own))
		switch f.Name {
		case "mesh.yaml":
			s.meshConfig = f.Data
		case "config.yaml":
			s.objects = f.Data
		case "workloads.yaml":
			err = yaml.UnmarshalStrict(f.Data, &s.workloads)
		case "cases.yaml":
			err = yaml.UnmarshalStrict(f.Data, &s.cases)
		default:
			t.Fatalf("%s: nothing is known of a section %s", path, f.Name)
		}
		if err != nil {
			t.Fatalf("%s: %s: %v", path, f.Name, err)
		}
	}
	seen := map[string]bool{}
	for _, c := range s.cases {
		c.scene = s
		if seen[c.Name] {
			t.Fatalf("%s: two cases have this name", c.id())
		}
		seen[c.Name] = true
	}
	return s
}
