package rebinding

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/meshpilot/meshpilot/internal/base/netns"
)

func TestMain(m *testing.M) { os.Exit(netns.TestMain(m)) }

// port is where everything listens.
const port = 8080

// The addresses that may be reached.
var (
	allowed4 = netip.MustParseAddr("10.77.0.1")
	allowed6 = netip.MustParseAddr("fd77::1")
)

// forbidden are addresses of metadata servers and of the link, in each way that IPv6 has for them. Loopback is beside them: fetches
// whose addresses an operator writes may go there.
func forbidden() (list []netip.Addr) {
	for _, text := range []string{
		"169.254.169.254", "169.254.7.7", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe",
		"2002:a9fe:a9fe::1", "::ffff:169.254.169.254",
	} {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}

// world is a network with traps.
type world struct {
	t   *testing.T
	dns *resolver

	mu      sync.Mutex
	trapped []string // addresses that received a connection
	reached map[string]int
}

// newWorld adds the addresses to the loopback device of this namespace, and listens at all of them.
func newWorld(t *testing.T) *world {
	t.Helper()
	netns.Require(t)
	w := &world{t: t, reached: map[string]int{}}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range append(forbidden(), allowed4, allowed6) {
		if a.Is4In6() {
			continue // the kernel connects to the IPv4 address
		}
		address := &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}, Flags: unix.IFA_F_NODAD}
		if err := netlink.AddrReplace(lo, address); err != nil {
			t.Fatalf("add %s: %v", a, err)
		}
		w.listen(a)
	}
	w.listen(netip.MustParseAddr("127.0.0.1"))
	w.listen(netip.MustParseAddr("::1"))
	w.resolveBy("127.0.0.1")
	w.dns = startResolver(t)
	return w
}

// resolveBy has the resolver of this mount namespace ask a server.
func (w *world) resolveBy(server string) {
	w.t.Helper()
	for target, text := range map[string]string{
		"/etc/resolv.conf": "nameserver " + server + "\noptions timeout:2 attempts:2\n", "/etc/hosts": "127.0.0.1 localhost\n", "/etc/nsswitch.conf": "hosts: files dns\n",
	} {
		path := filepath.Join(w.t.TempDir(), filepath.Base(target))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			w.t.Fatal(err)
		}
		if err := unix.Mount(path, target, "", unix.MS_BIND, ""); err != nil && !os.IsNotExist(err) {
			w.t.Fatalf("bind %s: %v", target, err)
		}
		w.t.Cleanup(func() { _ = unix.Unmount(target, unix.MNT_DETACH) })
	}
}

func (w *world) listen(a netip.Addr) {
	w.t.Helper()
	l, err := net.Listen("tcp", netip.AddrPortFrom(a, port).String())
	if err != nil {
		w.t.Fatal(err)
	}
	s := &http.Server{Handler: w, ConnState: func(c net.Conn, state http.ConnState) {
		if state == http.StateNew {
			w.recordAddress(a)
		}
	}}
	go func() { _ = s.Serve(l) }()
	w.t.Cleanup(func() { _ = s.Close() })
}

func (w *world) recordAddress(a netip.Addr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reached[a.String()]++
	if a != allowed4 && a != allowed6 && !a.IsLoopback() {
		w.trapped = append(w.trapped, a.String())
	}
}

// ServeHTTP answers "/redirect/HOST" by a redirect to HOST, discovery documents by one whose keys
// are at another host, and all else by an invalid document.
func (w *world) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/")
	switch {
	case strings.HasPrefix(path, "redirect/"):
		host, _, _ := strings.Cut(strings.TrimPrefix(path, "redirect/"), "/")
		http.Redirect(out, r, fmt.Sprintf("http://%s:%d/keys", host, port), http.StatusFound)
	case strings.HasSuffix(path, ".well-known/openid-configuration"):
		fmt.Fprintf(out, `{"issuer": "http://%s", "jwks_uri": "http://bad-%d.test:%d/keys"}`, r.Host, w.reachedAt(allowed4), port)
	default:
		fmt.Fprint(out, `{"keys": []}`)
	}
}

// reachedAt returns how many connections an address had.
func (w *world) reachedAt(list ...netip.Addr) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range list {
		n += w.reached[a.String()]
	}
	return n
}

// forbiddenConnections returns the addresses that were connected to and must not be.
func (w *world) forbiddenConnections() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.trapped...)
}

// forget starts the count of forbidden connections at zero.
func (w *world) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trapped = nil
}
