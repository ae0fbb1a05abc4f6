package iptables_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/capture/iptables"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// tproxyMark is the mark of connections that Envoy makes with a client's address (filter
// original_src).
const tproxyMark = 1337

// tproxyTable is the truth table of TPROXY. Envoy is root there, identified by its group; "original
// source" is its connection to the application with the address of an outside client.
var tproxyTable = []truth{
	{"T1", "app", "REMOTE:8080", "15001 REMOTE:8080"},
	{"T2", "root", "REMOTE:8080", "15001 REMOTE:8080"},
	{"T3, root", "envoy", "REMOTE:8080", "remote -"},
	{"T3, user", "proxy", "REMOTE:8080", "remote -"},
	{"T5", "app", "POD:8080", "app -"},
	{"T6, root", "envoy", "POD:8080", "15006 POD:8080"},
	{"T6, user", "proxy", "POD:8080", "15006 POD:8080"},
	{"T6, tunnel", "envoy", "POD:15008", "15008 -"},
	{"T7", "passthrough", "POD:8080", "app -"},
	{"T9, app", "app", "LOOPBACK:8080", "app -"},
	{"T9, envoy", "envoy", "LOOPBACK:8080", "app -"},
	{"T9, proxy", "proxy", "LOOPBACK:8080", "app -"},
	{"T10", "outside", "POD:8080", "15006 POD:8080"},
	{"T10, no listener", "outside", "POD:9998", "15006 POD:9998"},
	{"T11, status", "outside", "POD:15020", "15020 -"},
	{"T11, health", "outside", "POD:15021", "15021 -"},
	{"T11, statistics", "outside", "POD:15090", "15090 -"},
	{"T11, tunnel", "outside", "POD:15008", "15008 -"},
	{"S1, root", "original source", "POD:8081", "from GATEWAY"},
	{"S1, user", "original source of user", "POD:8081", "from GATEWAY"},
}

// tproxyCallers returns the callers of the table in a mode.
func tproxyCallers(mode, gateway string) map[string]caller {
	known := callers(mode)
	known["original source"] = caller{gid: proxyID, mark: tproxyMark, source: gateway, foreign: true}
	if mode == "uid" {
		known["envoy"] = caller{gid: proxyID}
		known["original source of user"] = caller{uid: proxyID, gid: proxyID, mark: tproxyMark, source: gateway, foreign: true}
	}
	return known
}

func TestTProxyTable(t *testing.T) {
	scorecard.Check(t, 40, scorecard.Size("ways to apply rules", len(manners())))
	gateways := map[string]string{"IPv4": gatewayAddr4, "IPv6": gatewayAddr6}
	for manner, options := range manners() {
		for _, mode := range modes() {
			t.Run(manner+"/"+mode, func(t *testing.T) {
				pod, outside := transparentPod(t)
				requireManner(t, options)
				options.InboundMode, options.ProxyMark = iptables.TPROXY, 0
				if mode == "mark" {
					options.ProxyMark = otherMark
				}
				mustRun(t, pod, options)
				for family, addresses := range families {
					t.Run(family, func(t *testing.T) {
						known := tproxyCallers(mode, gateways[family])
						if mode == "mark" {
							known["proxy"] = caller{uid: known["proxy"].uid, mark: otherMark}
							known["passthrough"] = known["proxy"]
							delete(known, "original source") // of uid mode
						}
						for _, row := range tproxyTable {
							checkTruth(t, pod, outside, known, row, addresses)
						}
					})
				}
			})
		}
	}
}

// otherMark is a mark that TPROXY does not use itself.
const otherMark = 0x700

// TestOriginalSourceNeedsTheRules tests that the application sees its client's address only because
// of rules and routes.
func TestOriginalSourceNeedsTheRules(t *testing.T) {
	pod, _ := transparentPod(t)
	from := tproxyCallers("uid", gatewayAddr4)["original source"]
	from.patience = 300 * time.Millisecond
	if got, err := pod.call(from, mustAddrPort(podAddr4, 8081)); err == nil {
		t.Errorf("got %q, want no answer: it goes to the client outside", got)
	}
}

// TestTProxyIsRemoved tests that neither rules nor routes remain, and that REDIRECT can replace
// TPROXY.
func TestTProxyIsRemoved(t *testing.T) {
	scorecard.Check(t, 40, scorecard.Size("ways to apply rules", len(manners())))
	for manner, options := range manners() {
		t.Run(manner, func(t *testing.T) {
			pod, outside := listeningPod(t)
			requireManner(t, options)
			before := pod.output(t, "", "ip", "rule")
			tproxy := options
			tproxy.InboundMode, tproxy.RedirectDNS, tproxy.CaptureAllDNS, tproxy.DropInvalid = iptables.TPROXY, true, true, true
			tproxy.ProxyMark = 0
			mustRun(t, pod, tproxy)
			mustRun(t, pod, tproxy) // again: the routes exist already
			if got := strings.Count(pod.output(t, "", "ip", "rule"), "fwmark 0x539 lookup 133"); got != 1 {
				t.Errorf("%d routing rules, want 1", got)
			}
			if got := pod.output(t, "", "ip", "-6", "route", "show", "table", "133"); got != "local default dev lo metric 1024 pref medium\n" {
				t.Errorf("routes of IPv6: %q", got)
			}
			options.Reconcile = true
			mustRun(t, pod, options)
			if got := pod.output(t, "", "ip", "rule"); got != before {
				t.Errorf("routing rules: %q, want %q", got, before)
			}
			checkTruth(t, pod, outside, callers(modes()[0]), table[9], families["IPv4"])

			tproxy.Reconcile = true
			mustRun(t, pod, tproxy)
			cleanup := iptables.DefaultOptions()
			cleanup.CleanupOnly, cleanup.CNIMode = true, true
			mustRun(t, pod, cleanup)
			if got := pod.output(t, "", "ip", "rule"); got != before {
				t.Errorf("after the clean-up: routing rules: %q, want %q", got, before)
			}
			if rules := pod.rules(t); len(rules) > 0 {
				t.Errorf("left behind: %q", rules)
			}
		})
	}
}

// TestTProxyWithoutProxy tests that the application cannot be reached while the proxy does not
// listen.
func TestTProxyWithoutProxy(t *testing.T) {
	for manner, options := range manners() {
		t.Run(manner, func(t *testing.T) {
			pod, outside := newPod(t)
			requireManner(t, options)
			pod.listen(t, 8080, "app")
			options.InboundMode, options.ProxyMark = iptables.TPROXY, 0
			mustRun(t, pod, options)
			for _, address := range []string{podAddr4, podAddr6} {
				if got, err := outside.call(caller{patience: 100 * time.Millisecond}, mustAddrPort(address, 8080)); err == nil {
					t.Errorf("%s: got %q, want no connection", address, got)
				}
			}
		})
	}
}

// transparentPod is listeningPod with a transparent listener of Envoy and an application that
// returns its client's address.
func transparentPod(t testing.TB) (pod, outside space) {
	t.Helper()
	pod, outside = fillPod(t, space.listenTransparently)
	pod.serve(t, 8081, false, func(conn *net.TCPConn) string { return "from " + conn.RemoteAddr().(*net.TCPAddr).IP.String() })
	return pod, outside
}
