package iptables_test

import (
	"net"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/capture/iptables"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// question is a row of the truth table of DNS. SERVER is in resolv.conf, OTHER is not.
type question struct {
	id      string
	network string
	from    string
	to      string
	want    string // answer with --redirect-dns
	wantAll string // with --capture-all-dns too, if it differs
}

var dnsTable = []question{
	{"D1", "udp", "app", "SERVER:53", "agent", ""},
	{"D2", "tcp", "app", "SERVER:53", "agent SERVER:53", ""},
	{"D3, udp", "udp", "proxy", "SERVER:53", "server", ""},
	{"D3, tcp", "tcp", "proxy", "SERVER:53", "server -", ""},
	{"D3, group", "udp", "proxy's gid", "SERVER:53", "server", ""},
	{"D4, udp", "udp", "app", "OTHER:53", "other", "agent"},
	{"D4, tcp", "tcp", "app", "OTHER:53", "15001 OTHER:53", "agent OTHER:53"},
	{"D5, udp", "udp", "app", "LOCAL:53", "agent", ""},
	{"D5, tcp", "tcp", "app", "LOCAL:53", "agent LOCAL:53", ""},
	{"D6, udp", "udp", "proxy", "LOCAL:53", "local", ""},
	{"D6, tcp", "tcp", "proxy", "LOCAL:53", "local -", ""},
	{"D7, udp", "udp", "app", "SERVER:5353", "server", ""},
	{"D7, tcp", "tcp", "app", "SERVER:5353", "15001 SERVER:5353", ""},
	{"D8", "udp", "outside", "POD:53", "pod", ""},
}

// The servers of the table. LOCAL is on the pod's own host, like systemd-resolved.
const (
	otherAddr4, otherAddr6 = "10.1.2.4", "fd00:10::4"
	localAddr4, localAddr6 = "127.0.0.53", "::1"
)

// dnsAddresses returns the table's addresses in a family.
func dnsAddresses(family string) func(string) netip.AddrPort {
	byName := map[string]string{"SERVER": remoteAddr4, "OTHER": otherAddr4, "LOCAL": localAddr4, "POD": podAddr4}
	if family == "IPv6" {
		byName = map[string]string{"SERVER": remoteAddr6, "OTHER": otherAddr6, "LOCAL": localAddr6, "POD": podAddr6}
	}
	return func(text string) netip.AddrPort {
		name, port, _ := net.SplitHostPort(text)
		number, _ := strconv.ParseUint(port, 10, 16)
		return mustAddrPort(byName[name], uint16(number))
	}
}

func mustAddrPort(address string, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(address), port)
}

func TestDNSTable(t *testing.T) {
	scorecard.Check(t, 40, scorecard.Size("ways to apply rules", len(manners())))
	for manner, options := range manners() {
		for _, all := range []bool{false, true} {
			for _, mode := range modes() {
				name := manner + "/" + mode + "/servers"
				if all {
					name = manner + "/" + mode + "/all"
				}
				t.Run(name, func(t *testing.T) {
					requireRoot(t)
					requireManner(t, options)
					pod, outside := resolvingPod(t)
					options.RedirectDNS, options.CaptureAllDNS, options.ProxyMark = true, all, 0
					if mode == "mark" {
						options.ProxyMark = proxyMark
					}
					applyDNS(t, pod, options)
					for _, family := range []string{"IPv4", "IPv6"} {
						for _, q := range dnsTable {
							q.check(t, pod, outside, callers(mode), family, all)
						}
						checkSamePort(t, pod, callers(mode), dnsAddresses(family)("SERVER:53"))
					}
				})
			}
		}
	}
}

// applyDNS applies the rules with the name servers of the table.
func applyDNS(t *testing.T, pod space, options iptables.Options) {
	t.Helper()
	env := system(t)
	env.Nameservers = func() ([]netip.Addr, error) {
		var servers []netip.Addr
		for _, s := range []string{remoteAddr4, localAddr4, remoteAddr6, localAddr6} {
			servers = append(servers, netip.MustParseAddr(s))
		}
		return servers, nil
	}
	options.NetworkNamespace = pod.path()
	if err := iptables.Run(t.Context(), options, env); err != nil {
		t.Fatal(err)
	}
}

func (q question) check(t *testing.T, pod, outside space, known map[string]caller, family string, all bool) {
	t.Helper()
	from, ok := known[q.from]
	if !ok {
		return
	}
	address := dnsAddresses(family)
	place, want := pod, q.want
	if q.from == "outside" {
		place = outside
	}
	if all && q.wantAll != "" {
		want = q.wantAll
	}
	if label, dst, found := cut(want); found && dst != "-" {
		want = label + " " + address(dst).String()
	}
	got, err := place.ask(from, q.network, address(q.to))
	if err != nil || got != want {
		t.Errorf("%s, %s: %s asks %v over %s: got %q (error %v), want %q", q.id, family, q.from, address(q.to), q.network, got, err, want)
	}
}

func cut(want string) (label, dst string, found bool) {
	for i := range want {
		if want[i] == ' ' {
			return want[:i], want[i+1:], true
		}
	}
	return want, "", false
}

// checkSamePort tests the purpose of the zones: the agent sends its query from the port that the
// application used.
func checkSamePort(t *testing.T, pod space, known map[string]caller, server netip.AddrPort) {
	t.Helper()
	app, proxy := known["app"], known["proxy"]
	app.sourcePort, proxy.sourcePort = 40053, 40053
	for _, c := range []struct {
		who  string
		from caller
		want string
	}{{"the application", app, "agent"}, {"the agent, from the same port", proxy, "server"}, {"the application again", app, "agent"}} {
		if got, err := pod.ask(c.from, "udp", server); err != nil || got != c.want {
			t.Errorf("%s asks %v: got %q (error %v), want %q", c.who, server, got, err, c.want)
		}
	}
}

// TestZonesAreNeeded tests that checkSamePort fails without zones.
func TestZonesAreNeeded(t *testing.T) {
	pod, _ := resolvingPod(t)
	options := sidecarOptions()
	options.Variant = iptables.NftVariant
	options.RedirectDNS, options.CaptureAllDNS = true, true
	requireManner(t, options)
	applyDNS(t, pod, options)
	pod.output(t, "*raw\n:ISTIO_OUTPUT_DNS - [0:0]\n:ISTIO_INBOUND - [0:0]\nCOMMIT\n", "iptables-nft-restore", "--noflush")
	known := callers(modes()[0])
	app, proxy := known["app"], known["proxy"]
	app.sourcePort, proxy.sourcePort = 40053, 40053
	proxy.patience = 300 * time.Millisecond
	server := mustAddrPort(remoteAddr4, 53)
	if got, err := pod.ask(app, "udp", server); err != nil || got != "agent" {
		t.Fatalf("the application: got %q (error %v)", got, err)
	}
	if got, _ := pod.ask(proxy, "udp", server); got == "server" {
		t.Errorf("the agent was answered by the server: this test cannot tell whether there are zones")
	}
}

// resolvingPod has an agent that serves DNS in the pod, and a server there and two outside.
func resolvingPod(t testing.TB) (pod, outside space) {
	t.Helper()
	pod, outside = newPod(t)
	if err := outside.do(func() error { return configure(nil, []string{otherAddr4 + "/32", otherAddr6 + "/128"}, nil) }); err != nil {
		t.Fatal(err)
	}
	pod.listen(t, 15001, "15001")
	pod.listen(t, 15053, "agent")
	pod.listen(t, 53, "local")
	for _, s := range []struct {
		space
		label     string
		port      uint16
		addresses []string
	}{
		{pod, "agent", 15053, []string{"127.0.0.1", "::1"}},
		{pod, "local", 53, []string{localAddr4, localAddr6}},
		{pod, "pod", 53, []string{podAddr4, podAddr6}},
		{outside, "server", 53, []string{remoteAddr4, remoteAddr6}},
		{outside, "server", 5353, []string{remoteAddr4, remoteAddr6}},
		{outside, "other", 53, []string{otherAddr4, otherAddr6}},
	} {
		for _, a := range s.addresses {
			s.answerUDP(t, mustAddrPort(a, s.port), s.label)
		}
	}
	outside.listen(t, 53, "server")
	return pod, outside
}

// answerUDP answers every packet to an address of the namespace. What is sent from the agent's port
// is the agent's, as far as rules can see.
func (s space) answerUDP(t testing.TB, at netip.AddrPort, label string) {
	t.Helper()
	var conn *net.UDPConn
	err := s.do(func() (err error) {
		asProxy := caller{}
		if at.Port() == 15053 {
			asProxy = callers(modes()[0])["proxy"]
			asProxy.mark = proxyMark
		}
		conn, err = asProxy.listenUDP(at)
		return err
	})
	if err != nil {
		t.Fatalf("listening at %v: %v", at, err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		buffer := make([]byte, 64)
		for {
			_, from, err := conn.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			_, _ = conn.WriteToUDPAddrPort([]byte(label), from)
		}
	}()
}
