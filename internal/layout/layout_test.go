package layout

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/meshpilot/meshpilot/"

// allowed lists for each room the other rooms that its code may import. A room includes its sub-rooms, except where a
// sub-room has a line of its own. Tests may import any room: the law is about what is shipped.
func allowed() map[string][]string {
	return map[string][]string{
		"internal/api":        {},
		"internal/truncate":   {},
		"internal/obs":        {"internal/truncate"},
		"internal/httpserver": {},
		"internal/retired":    {},
		"internal/command":    {"internal/obs", "internal/retired"},
		"internal/recovery":   {},
		"internal/config":     {"internal/api", "internal/retired"},
		"internal/resource":   {"internal/config"},
		"internal/mesh":       {"internal/api", "internal/config"},

		"internal/spiffe":       {},
		"internal/kube":         {"internal/obs"},
		"internal/fetch":        {},
		"internal/jwks":         {"internal/jwks/keyset", "internal/source", "internal/config", "internal/mesh"},
		"internal/jwks/keyset":  {},
		"internal/authenticate": {"internal/spiffe", "internal/fetch", "internal/kube", "internal/obs"},
		"internal/ca":           {"internal/spiffe", "internal/authenticate", "internal/kube", "internal/obs"},
		"internal/inject":       {"internal/mesh", "internal/config", "internal/api", "internal/kube", "internal/obs"},
		"internal/webhook":      {"internal/httpserver", "internal/inject", "internal/config", "internal/api", "internal/kube", "internal/obs", "internal/recovery"},
		"internal/status":       {"internal/mesh", "internal/config", "internal/api", "internal/kube", "internal/obs"},
		"internal/export":       {"internal/kube"},
		"internal/autoregister": {"internal/mesh", "internal/config", "internal/api", "internal/kube", "internal/obs"},

		"internal/source":                {"internal/mesh"},
		"internal/source/kube":           {"internal/source", "internal/kube", "internal/api", "internal/config", "internal/mesh", "internal/obs", "internal/recovery"},
		"internal/source/credential":     {"internal/source", "internal/kube", "internal/api", "internal/config", "internal/mesh", "internal/obs"},
		"internal/source/hostname":       {"internal/source", "internal/config", "internal/mesh"},
		"internal/source/file":           {"internal/source", "internal/config", "internal/mesh", "internal/recovery"},
		"internal/source/settings":       {"internal/source", "internal/source/file/watch", "internal/config", "internal/mesh"},
		"internal/source/xds":            {"internal/source", "internal/api", "internal/config", "internal/mesh", "internal/recovery"},
		"internal/registry":              {"internal/config", "internal/mesh", "internal/recovery"},
		"internal/registry/kube":         {"internal/spiffe", "internal/registry", "internal/api", "internal/config", "internal/mesh", "internal/recovery"},
		"internal/registry/serviceentry": {"internal/spiffe", "internal/registry", "internal/api", "internal/config", "internal/mesh", "internal/recovery"},
		"internal/registry/namespaces":   {"internal/registry", "internal/api", "internal/config", "internal/mesh", "internal/recovery"},
		"internal/registry/ingress":      {"internal/registry", "internal/api", "internal/config", "internal/mesh", "internal/recovery"},
		"internal/registry/remote":       {"internal/registry", "internal/source", "internal/kube", "internal/api", "internal/config", "internal/mesh", "internal/obs", "internal/recovery"},
		"internal/registry/memory":       {"internal/registry", "internal/api", "internal/config", "internal/mesh"},
		"internal/registry/conform":      {"internal/registry", "internal/api", "internal/config", "internal/mesh", "internal/recovery"},

		"internal/snapshot": {"internal/api", "internal/config", "internal/mesh", "internal/recovery"},
		"internal/ingest":   {"internal/source", "internal/registry", "internal/api", "internal/config", "internal/mesh", "internal/snapshot", "internal/recovery"},
		"internal/view":     {"internal/api", "internal/config", "internal/mesh", "internal/snapshot"},

		"internal/translate/memo":        {},
		"internal/translate/certificate": {"internal/mesh"},
		"internal/translate/token":       {},
		"internal/translate/policy":      {"internal/mesh"},
		"internal/translate/destination": {"internal/mesh", "internal/snapshot", "internal/view"},
		"internal/translate/endpoint":    translateRoom("internal/translate/policy"),
		"internal/translate/cluster": translateRoom("internal/translate/policy", "internal/translate/destination", "internal/translate/endpoint",
			"internal/translate/certificate"),
		"internal/translate/route":          translateRoom("internal/translate/policy", "internal/translate/destination", "internal/translate/token"),
		"internal/translate/telemetry":      translateRoom("internal/translate/destination"),
		"internal/translate/authorization":  translateRoom("internal/translate/destination", "internal/translate/token"),
		"internal/translate/authentication": translateRoom("internal/translate/destination", "internal/translate/token", "internal/jwks/keyset"),
		"internal/translate/plugin":         translateRoom(),
		"internal/translate/listener": translateRoom("internal/translate/policy", "internal/translate/destination", "internal/translate/route",
			"internal/translate/telemetry", "internal/translate/certificate", "internal/translate/authorization", "internal/translate/authentication",
			"internal/translate/plugin"),
		"internal/translate/grpc": translateRoom("internal/translate/cluster", "internal/translate/endpoint", "internal/translate/route", "internal/translate/destination",
			"internal/translate/authorization"),
		"internal/translate/nametable":   translateRoom(),
		"internal/translate/patch":       translateRoom("internal/translate/certificate"),
		"internal/translate/proxyconfig": translateRoom("internal/spiffe"),
		"internal/translate/secret":      translateRoom(),
		"internal/translate": translateRoom(
			"internal/translate/cluster", "internal/translate/endpoint", "internal/translate/listener", "internal/translate/route",
			"internal/translate/grpc", "internal/translate/nametable", "internal/translate/patch", "internal/translate/plugin", "internal/translate/proxyconfig", "internal/translate/secret",
			"internal/translate/telemetry"),
		"internal/explain":  {"internal/resource", "internal/api", "internal/config", "internal/mesh"},
		"internal/analysis": {"internal/api", "internal/config", "internal/mesh", "internal/snapshot"},

		"internal/xds/stream":     {"internal/api", "internal/resource", "internal/truncate"},
		"internal/xds/quarantine": {},
		"internal/xds/push":       {"internal/xds/quarantine", "internal/xds/stream", "internal/resource", "internal/api", "internal/config", "internal/mesh", "internal/snapshot", "internal/view", "internal/recovery"},
		"internal/xds/server":     {"internal/truncate", "internal/spiffe", "internal/xds/stream", "internal/xds/push", "internal/resource", "internal/api", "internal/config", "internal/mesh", "internal/recovery"},

		"internal/iptables": {"internal/obs", "internal/command"},
		"internal/cni":      {"internal/iptables", "internal/kube"},
		"internal/agent":    {"internal/httpserver", "internal/fetch", "internal/mesh", "internal/api", "internal/source/file/watch", "internal/obs", "internal/command", "internal/retired", "internal/recovery"},
		"internal/xds/feed": {"internal/xds/stream", "internal/xds/server", "internal/resource", "internal/api", "internal/config", "internal/snapshot", "internal/recovery"},

		"internal/debug":     {"internal/explain", "internal/api", "internal/config", "internal/mesh", "internal/snapshot", "internal/view", "internal/resource", "internal/xds/push"},
		"internal/workload":  {"internal/ca", "internal/authenticate"},
		"internal/cli":       {"internal/workload", "internal/kube", "manifests", "internal/inject", "internal/debug", "internal/explain", "internal/command", "internal/mesh"},
		"internal/discovery": {"*"},
		"internal/testkit":   {"*"},
		"internal/layout":    {},
		"manifests":          {},
		"cmd":                {"*"},
		"samples":            {"internal/testkit"},
		"test":               {"*"},
	}
}

// translateRoom gives the line of a sub-room of translate: what all of them import, and others of them below it.
func translateRoom(below ...string) []string {
	return append(below, "internal/translate/memo", "internal/resource", "internal/api", "internal/config", "internal/mesh",
		"internal/snapshot", "internal/view")
}

type pkg struct {
	ImportPath string
	Imports    []string
}

func TestImportTable(t *testing.T) {
	table := allowed()
	packages := list(t)
	if len(packages) < 10 {
		t.Fatalf("go list gave %d packages: the test sees nothing", len(packages))
	}
	for _, p := range packages {
		from := strings.TrimPrefix(p.ImportPath, module)
		room := roomOf(table, from)
		if room == "" {
			t.Errorf("%s is in no room: give it a line in the table", from)
			continue
		}
		for _, i := range p.Imports {
			to, ours := strings.CutPrefix(i, module)
			if !ours {
				if strings.HasPrefix(i, "istio.io/istio") {
					t.Errorf("%s imports %s, which nothing of ours may", from, i)
				}
				continue
			}
			target := roomOf(table, to)
			if target == room || within(table[room], to) {
				continue
			}
			t.Errorf("%s (room %s) imports %s: not in its line of the table", from, room, to)
		}
	}
}

// within says whether a package is in one of the rooms.
func within(rooms []string, path string) bool {
	return slices.ContainsFunc(rooms, func(r string) bool {
		return r == "*" || path == r || strings.HasPrefix(path, r+"/")
	})
}

// roomOf gives the room of a package: the longest line of the table that its path begins with.
func roomOf(table map[string][]string, path string) string {
	best := ""
	for room := range maps.Keys(table) {
		if (path == room || strings.HasPrefix(path, room+"/")) && len(room) > len(best) {
			best = room
		}
	}
	return best
}

// TestPureRoomsStayPure holds the rooms that must do no I/O, read no clock and know no connection to it.
func TestPureRoomsStayPure(t *testing.T) {
	never := map[string][]string{
		"internal/snapshot":       {"net/http", "os", "google.golang.org/grpc"},
		"internal/view":           {"net/http", "os", "google.golang.org/grpc"},
		"internal/translate":      {"net/http", "os", "google.golang.org/grpc"},
		"internal/xds/stream":     {"time", "net/http", "os", "google.golang.org/grpc"},
		"internal/xds/quarantine": {"sync", "net/http", "os", "google.golang.org/grpc"},
		"internal/mesh":           {"os", "sync", "google.golang.org/grpc", "github.com/envoyproxy/go-control-plane/"},
		"internal/explain":        {"os", "sync", "google.golang.org/grpc"},
		"internal/config":         {"os", "google.golang.org/grpc", "github.com/envoyproxy/go-control-plane/"},
		"internal/xds/push":       {"google.golang.org/grpc", "github.com/envoyproxy/go-control-plane/"},
	}
	for _, p := range list(t) {
		from := strings.TrimPrefix(p.ImportPath, module)
		for room, bad := range never {
			if from != room && !strings.HasPrefix(from, room+"/") || strings.HasSuffix(from, "test") { // of tests: pushtest
				continue
			}
			for _, i := range p.Imports {
				if slices.ContainsFunc(bad, func(b string) bool { return i == b || strings.HasSuffix(b, "/") && strings.HasPrefix(i, b) }) {
					t.Errorf("%s imports %s, which the room %s must not", from, i, room)
				}
			}
		}
	}
}

func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", module+"...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var all []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}
