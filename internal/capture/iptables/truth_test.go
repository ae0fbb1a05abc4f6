package iptables_test

import (
	"context"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/capture/iptables"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

const (
	appUID    = 2000
	proxyID   = 1337
	proxyMark = 0x539
)

// manners are the ways to apply rules; each must have the same result.
func manners() map[string]iptables.Options {
	legacy, nft, native := sidecarOptions(), sidecarOptions(), sidecarOptions()
	legacy.Variant, nft.Variant, native.NativeNftables = iptables.LegacyVariant, iptables.NftVariant, true
	// iptables-legacy needs its own lock, because not every root may write to /run.
	legacy.CNIMode = true
	return map[string]iptables.Options{"iptables-legacy": legacy, "iptables-nft": nft, "nftables": native}
}

// sidecarOptions returns the options of Istio's injector, with the mark if no process can have the
// proxy's uid.
func sidecarOptions() iptables.Options {
	o := iptables.DefaultOptions()
	o.InboundPorts.All, o.OutboundRanges.All = true, true
	o.ExcludeInbound = ports(15090, 15021, 15020).Only
	o.DualStack = true
	if modes()[0] == "mark" {
		o.ProxyMark = proxyMark
	}
	return o
}

// requireManner skips the test if the programs of a manner are not installed.
func requireManner(t testing.TB, o iptables.Options) {
	t.Helper()
	if !o.NativeNftables {
		program(t, "iptables-"+string(o.Variant)+"-save")
	}
}

func system(t testing.TB) iptables.Environment {
	return iptables.System(slog.New(slog.NewTextHandler(t.Output(), nil)), io.Discard)
}

// run calls Run for a namespace.
func run(t testing.TB, s space, o iptables.Options) error {
	t.Helper()
	o.NetworkNamespace = s.path()
	return iptables.Run(context.Background(), o, system(t))
}

func mustRun(t testing.TB, s space, o iptables.Options) {
	t.Helper()
	if err := run(t, s, o); err != nil {
		t.Fatal(err)
	}
}

// truth is a row of the truth table of capture.
type truth struct {
	id   string
	from string // app, root, proxy, proxy's gid, passthrough, outside
	to   string
	want string // label of the listener, and original destination
}

// table has POD, LOOPBACK and REMOTE for addresses. A want without a destination was not
// redirected.
var table = []truth{
	{"T1", "app", "REMOTE:8080", "15001 REMOTE:8080"},
	{"T2", "root", "REMOTE:8080", "15001 REMOTE:8080"},
	{"T3", "proxy", "REMOTE:8080", "remote -"},
	{"T4", "proxy's gid", "REMOTE:8080", "remote -"},
	{"T5", "app", "POD:8080", "app -"},
	{"T6", "proxy", "POD:8080", "15006 POD:8080"},
	{"T6, tunnel", "proxy", "POD:15008", "15008 -"},
	{"T7", "passthrough", "POD:8080", "app -"},
	{"T8", "proxy's gid", "POD:8080", "app -"},
	{"T9, app", "app", "LOOPBACK:8080", "app -"},
	{"T9, proxy", "proxy", "LOOPBACK:8080", "app -"},
	{"T10", "outside", "POD:8080", "15006 POD:8080"},
	{"T10, no listener", "outside", "POD:9998", "15006 POD:9998"},
	{"T11, status", "outside", "POD:15020", "15020 -"},
	{"T11, health", "outside", "POD:15021", "15021 -"},
	{"T11, statistics", "outside", "POD:15090", "15090 -"},
	{"T11, tunnel", "outside", "POD:15008", "15008 -"},
	{"T11, ssh is captured now", "outside", "POD:22", "15006 POD:22"},
}

// callers returns the table's callers in a mode. Callers that do not exist in the mode are left
// out.
func callers(mode string) map[string]caller {
	if mode == "mark" {
		root := os.Geteuid()
		return map[string]caller{
			"app": {uid: root}, "root": {uid: root}, "proxy": {uid: root, mark: proxyMark},
			"passthrough": {uid: root, mark: proxyMark}, "outside": {},
		}
	}
	return map[string]caller{
		"app": {uid: appUID, gid: appUID}, "root": {}, "proxy": {uid: proxyID, gid: proxyID},
		"proxy's gid": {uid: appUID, gid: proxyID}, "passthrough": {uid: proxyID, gid: proxyID}, "outside": {},
	}
}

// families are the addresses of the table.
var families = map[string]*strings.Replacer{
	"IPv4": strings.NewReplacer("POD", podAddr4, "REMOTE", remoteAddr4, "LOOPBACK", "127.0.0.1", "PASSTHROUGH", "127.0.0.6", "GATEWAY", gatewayAddr4),
	"IPv6": strings.NewReplacer("POD", "["+podAddr6+"]", "REMOTE", "["+remoteAddr6+"]", "LOOPBACK", "[::1]", "PASSTHROUGH", "::6", "GATEWAY", gatewayAddr6),
}

// modes returns the ways to identify the proxy that this user namespace allows.
func modes() []string {
	if iptables.Mapped("/proc/self/uid_map", proxyID) {
		return []string{"uid", "mark"}
	}
	return []string{"mark"}
}

func TestTruthTable(t *testing.T) {
	scorecard.Check(t, 40, scorecard.Size("ways to apply rules", len(manners())))
	for manner, options := range manners() {
		for _, mode := range modes() {
			t.Run(manner+"/"+mode, func(t *testing.T) {
				pod, outside := listeningPod(t)
				requireManner(t, options)
				options.ProxyMark = 0
				if mode == "mark" {
					options.ProxyMark = proxyMark
				}
				mustRun(t, pod, options)
				for family, addresses := range families {
					t.Run(family, func(t *testing.T) {
						for _, row := range table {
							checkTruth(t, pod, outside, callers(mode), row, addresses)
						}
					})
				}
			})
		}
	}
}

// TestNothingIsCapturedWithoutRules tests that the truth table holds only because of the rules.
func TestNothingIsCapturedWithoutRules(t *testing.T) {
	pod, outside := listeningPod(t)
	for _, row := range []truth{
		{"out", "app", "REMOTE:8080", "remote -"},
		{"self", "proxy", "POD:8080", "app -"},
		{"in", "outside", "POD:8080", "app -"},
	} {
		checkTruth(t, pod, outside, callers("mark"), row, families["IPv4"])
	}
}

// listeningPod has the application, Envoy and the agent in the pod, and a server outside.
func listeningPod(t testing.TB) (pod, outside space) {
	t.Helper()
	return fillPod(t, space.listen)
}

// fillPod is listeningPod with a function that starts Envoy's listeners.
func fillPod(t testing.TB, envoy func(space, testing.TB, uint16, string)) (pod, outside space) {
	t.Helper()
	pod, outside = newPod(t)
	pod.listen(t, 8080, "app")
	pod.listen(t, 9999, "second")
	envoy(pod, t, 15001, "15001")
	envoy(pod, t, 15006, "15006")
	for port, label := range map[uint16]string{15008: "15008", 15020: "15020", 15021: "15021", 15090: "15090"} {
		pod.listen(t, port, label)
	}
	for _, port := range []uint16{8080, 9999} {
		outside.listen(t, port, "remote")
	}
	return pod, outside
}

func checkTruth(t *testing.T, pod, outside space, callers map[string]caller, row truth, addresses *strings.Replacer) {
	t.Helper()
	from, known := callers[row.from]
	if !known {
		return
	}
	place := pod
	if row.from == "outside" {
		place = outside
	}
	if row.from == "passthrough" {
		from.source = addresses.Replace("PASSTHROUGH")
	}
	got, err := place.call(from, netip.MustParseAddrPort(addresses.Replace(row.to)))
	if want := addresses.Replace(row.want); err != nil || got != want {
		t.Errorf("%s: %s to %s: got %q (error %v), want %q", row.id, row.from, addresses.Replace(row.to), got, err, want)
	}
}
