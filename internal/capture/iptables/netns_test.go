package iptables_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/meshpilot/meshpilot/internal/capture/iptables"
)

// The network of the tests: a pod, and a host outside that is its gateway and has one more address
// behind it.
const (
	podAddr4     = "172.18.0.11"
	gatewayAddr4 = "172.18.0.1"
	remoteAddr4  = "10.1.2.3"
	podAddr6     = "fd00:18::11"
	gatewayAddr6 = "fd00:18::1"
	remoteAddr6  = "fd00:10::3"
)

// skipOrFail skips the test if this host lacks something. In CI it fails instead.
func skipOrFail(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("may not be skipped in CI: "+format, args...)
	}
	t.Skipf(format, args...)
}

func requireRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		skipOrFail(t, "needs root, for network namespaces (TestInUserNamespace does what can be done without)")
	}
}

// space is a network namespace without a name. It ends with the process at the latest.
type space struct{ handle netns.NsHandle }

func newSpace(t testing.TB) space {
	t.Helper()
	var s space
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends here
		var err error
		if s.handle, err = netns.New(); err == nil {
			err = upLoopback()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatalf("making a network namespace: %v", err)
	}
	t.Cleanup(func() { s.handle.Close() })
	return s
}

func upLoopback() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}

// path returns a value for --network-namespace, for this process and its children.
func (s space) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), s.handle) }

// do runs f on a thread in the namespace.
func (s space) do(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := netns.Set(s.handle)
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// output runs a program in the namespace and returns what it prints.
func (s space) output(t testing.TB, stdin, name string, args ...string) string {
	t.Helper()
	path := program(t, name)
	var out []byte
	err := s.do(func() error {
		cmd := exec.Command(path, args...)
		cmd.Stdin = strings.NewReader(stdin)
		var err error
		if out, err = cmd.Output(); err != nil {
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				err = fmt.Errorf("%w: %s", err, exit.Stderr)
			}
		}
		return err
	})
	if err != nil {
		t.Fatalf("running %s %v: %v", name, args, err)
	}
	return string(out)
}

// program returns the path of a program that a test requires.
func program(t testing.TB, name string) string {
	t.Helper()
	for _, path := range []string{name, "/usr/sbin/" + name} {
		if found, err := exec.LookPath(path); err == nil {
			return found
		}
	}
	skipOrFail(t, "needs the program %s", name)
	return ""
}

// newPod creates a pod with a gateway outside.
func newPod(t testing.TB) (pod, outside space) {
	t.Helper()
	requireRoot(t)
	pod, outside = newSpace(t), newSpace(t)
	err := pod.do(func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "eth0", PeerNamespace: netlink.NsFd(outside.handle)})
	})
	if err != nil {
		t.Fatalf("joining the namespaces: %v", err)
	}
	for _, side := range []struct {
		space
		eth0, lo []string
		routes   []string
	}{
		{space: outside, eth0: []string{gatewayAddr4 + "/24", gatewayAddr6 + "/64"}, lo: []string{remoteAddr4 + "/32", remoteAddr6 + "/128"}},
		{space: pod, eth0: []string{podAddr4 + "/24", podAddr6 + "/64"}, routes: []string{gatewayAddr4, gatewayAddr6}},
	} {
		if err := side.do(func() error { return configure(side.eth0, side.lo, side.routes) }); err != nil {
			t.Fatalf("setting up a namespace: %v", err)
		}
	}
	return pod, outside
}

func configure(eth0, lo, gateways []string) error {
	for name, addresses := range map[string][]string{"eth0": eth0, "lo": lo} {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		for _, a := range addresses {
			addr, err := netlink.ParseAddr(a)
			if err != nil {
				return err
			}
			if addr.IP.To4() == nil {
				addr.Flags = unix.IFA_F_NODAD
			}
			if err := netlink.AddrAdd(link, addr); err != nil {
				return fmt.Errorf("adding %s to %s: %w", a, name, err)
			}
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return err
		}
	}
	for _, g := range gateways {
		if err := netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(g)}); err != nil {
			return fmt.Errorf("adding a route by %s: %w", g, err)
		}
	}
	return nil
}

// listen answers every connection to a port of the namespace, at all its addresses, with a label
// and the original destination of the connection, or "-".
func (s space) listen(t testing.TB, port uint16, label string) {
	t.Helper()
	s.serve(t, port, false, func(conn *net.TCPConn) string { return label + " " + destination(conn, port) })
}

// listenTransparently is listen for a port that TPROXY sends connections to.
func (s space) listenTransparently(t testing.TB, port uint16, label string) {
	t.Helper()
	s.serve(t, port, true, func(conn *net.TCPConn) string { return label + " " + destination(conn, port) })
}

// serve answers every connection to a port of the namespace, at all its addresses.
func (s space) serve(t testing.TB, port uint16, transparent bool, answer func(*net.TCPConn) string) {
	t.Helper()
	config := net.ListenConfig{Control: func(network, _ string, raw syscall.RawConn) error {
		return control(raw, func(fd int) error { return setTransparent(fd, network, transparent) })
	}}
	for _, network := range []string{"tcp4", "tcp6"} {
		var l net.Listener
		err := s.do(func() (err error) {
			l, err = config.Listen(context.Background(), network, ":"+strconv.Itoa(int(port)))
			return err
		})
		if err != nil {
			t.Fatalf("listening: %v", err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer conn.Close()
					fmt.Fprint(conn, answer(conn.(*net.TCPConn)))
				}()
			}
		}()
	}
}

// destination returns the original destination of a connection accepted at a port, or "-" if it was
// not captured.
func destination(conn *net.TCPConn, port uint16) string {
	local := conn.LocalAddr().(*net.TCPAddr).AddrPort()
	if dst, err := iptables.OriginalDestination(conn); err == nil && dst != local {
		return dst.String()
	}
	if local.Port() != port { // TPROXY does not change it
		return local.String()
	}
	return "-"
}

func control(raw syscall.RawConn, f func(fd int) error) error {
	var err error
	if ctlErr := raw.Control(func(fd uintptr) { err = f(int(fd)) }); ctlErr != nil {
		return ctlErr
	}
	return err
}

// setTransparent lets a socket use foreign addresses.
func setTransparent(fd int, network string, on bool) error {
	switch {
	case !on:
		return nil
	case strings.HasSuffix(network, "6"):
		return unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_TRANSPARENT, 1)
	default:
		return unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_TRANSPARENT, 1)
	}
}

// callTimeout bounds a call that is expected to succeed.
const callTimeout = 3 * time.Second

// caller identifies who opens a connection.
type caller struct {
	uid, gid   int
	mark       int
	source     string // to bind to, if not empty
	sourcePort int
	foreign    bool // the source is not an address of the namespace
	// patience bounds a call that is expected to fail; 0 is callTimeout.
	patience time.Duration
}

func (c caller) timeout() time.Duration {
	if c.patience != 0 {
		return c.patience
	}
	return callTimeout
}

// call connects to an address from the namespace and returns the answer.
func (s space) call(c caller, to netip.AddrPort) (string, error) {
	return s.ask(c, "tcp", to)
}

// resendInterval is how long a query over UDP waits for its reply before it is sent again, as
// resolvers do. In a new network the kernel may lose an IPv6 packet because a neighbor is unknown.
const resendInterval = 250 * time.Millisecond

// ask is call over TCP, or a query over UDP. A UDP socket only accepts replies from the address it
// sends to.
func (s space) ask(c caller, network string, to netip.AddrPort) (string, error) {
	var reply string
	err := s.do(func() error {
		conn, err := c.dial(network, to)
		if err != nil {
			return err
		}
		defer conn.Close()
		end := time.Now().Add(c.timeout())
		for {
			deadline := end
			if network == "udp" {
				if _, err := conn.Write([]byte("?")); err != nil {
					return err
				}
				if next := time.Now().Add(resendInterval); next.Before(end) {
					deadline = next
				}
			}
			if err := conn.SetReadDeadline(deadline); err != nil {
				return err
			}
			buffer := make([]byte, 256)
			n, err := conn.Read(buffer)
			if errors.Is(err, os.ErrDeadlineExceeded) && deadline.Before(end) {
				continue
			}
			reply = string(buffer[:n])
			return err
		}
	})
	return reply, err
}

// become makes the calling thread, which must end with its goroutine, open sockets as the caller.
func (c caller) become() {
	if c.gid != 0 {
		unix.SetfsgidRetGid(c.gid)
	}
	if c.uid != 0 {
		unix.SetfsuidRetUid(c.uid)
	}
}

// control sets the caller's socket options.
func (c caller) control(network, _ string, raw syscall.RawConn) error {
	return control(raw, func(fd int) error {
		if err := setTransparent(fd, network, c.foreign); err != nil || c.mark == 0 {
			return err
		}
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, c.mark)
	})
}

func (c caller) listenUDP(at netip.AddrPort) (*net.UDPConn, error) {
	c.become()
	config := net.ListenConfig{Control: c.control}
	conn, err := config.ListenPacket(context.Background(), "udp", at.String())
	if err != nil {
		return nil, err
	}
	return conn.(*net.UDPConn), nil
}

func (c caller) dial(network string, to netip.AddrPort) (net.Conn, error) {
	c.become()
	dialer := net.Dialer{Timeout: c.timeout()}
	switch source := net.ParseIP(c.source); {
	case source == nil && c.sourcePort == 0:
	case network == "udp":
		dialer.LocalAddr = &net.UDPAddr{IP: source, Port: c.sourcePort}
	default:
		dialer.LocalAddr = &net.TCPAddr{IP: source, Port: c.sourcePort}
	}
	dialer.Control = c.control
	return dialer.DialContext(context.Background(), network, to.String())
}
