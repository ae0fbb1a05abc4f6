package iptables

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// probeInterval is the time between two attempts: another program may apply the rules a little
// later.
const probeInterval = 100 * time.Millisecond

// validateCapture verifies that connections are captured by connecting, as the proxy, from the pod
// to itself. It listens on the ports of both Envoy listeners, so Envoy must not run yet. It returns
// an error that wraps ErrValidation if it cannot, or no connection arrives, within ProbeTimeout for
// both families together. A family without an address in pod, or without rules, is not tested.
func validateCapture(ctx context.Context, o Options, pod []netip.Addr, env Environment) error {
	ctx, cancel := context.WithTimeout(ctx, o.ProbeTimeout)
	defer cancel()
	for _, f := range []Family{IPv4, IPv6} {
		own := slices.IndexFunc(pod, func(a netip.Addr) bool { return a.Is4() == (f == IPv4) })
		if own < 0 || (f == IPv6 && !o.IPv6) {
			continue
		}
		if err := probeCapture(ctx, o, pod[own]); err != nil {
			return fmt.Errorf("%w (%s): %w", ErrValidation, f, err)
		}
		env.Log.Info("validation passed: connections are captured", "family", f.String())
	}
	return nil
}

// probeCapture returns nil once a connection to the probe port of address has arrived at a port of
// Envoy. It retries every probeInterval until ctx ends, and then returns an error. EPERM, and a
// port on which it cannot listen, are errors at once.
func probeCapture(ctx context.Context, o Options, address netip.Addr) error {
	want := netip.AddrPortFrom(address, o.ProbePort)
	listeners, err := listenForProbe(ctx, o, address)
	if err != nil {
		return err
	}
	arrived := make(chan netip.AddrPort, 1)
	for _, l := range listeners {
		defer l.Close()
		go reportDestinations(l, arrived)
	}
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		// On this goroutine, whose thread is in the right network namespace.
		dialErr := dialAsProxy(ctx, o, want)
		if errors.Is(dialErr, unix.EPERM) {
			return dialErr
		}
		select {
		case got := <-arrived:
			if got == want {
				return nil
			}
		case <-ctx.Done():
			if dialErr == nil {
				dialErr = ctx.Err()
			}
			return fmt.Errorf("no connection to %v arrived at port %d or %d within %v: %w",
				want, o.InboundCapturePort, o.ProxyPort, o.ProbeTimeout, dialErr)
		case <-tick.C:
		}
	}
}

// listenForProbe listens on Envoy's ports at the loopback address to which REDIRECT sends local
// connections. If one fails, it closes the others and returns an error. The caller must close the
// listeners.
func listenForProbe(ctx context.Context, o Options, address netip.Addr) ([]net.Listener, error) {
	ip := "127.0.0.1"
	if address.Is6() {
		ip = "::1"
	}
	var listeners []net.Listener
	for _, port := range []uint16{o.InboundCapturePort, o.ProxyPort} {
		var config net.ListenConfig
		l, err := config.Listen(ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(int(port))))
		if err != nil {
			for _, l := range listeners {
				l.Close()
			}
			return nil, fmt.Errorf("listen for the probe: %w", err)
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

// reportDestinations sends the original destinations of accepted connections until the listener is
// closed, and drops them if the receiver is not ready. It closes the connections.
func reportDestinations(l net.Listener, arrived chan<- netip.AddrPort) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		if dst, err := originalDestination(conn.(*net.TCPConn)); err == nil {
			select {
			case arrived <- dst:
			default:
			}
		}
		conn.Close()
	}
}

// dialAsProxy opens a connection that the rules identify as the proxy's, by mark or else by uid,
// and closes it. The uid is the first of ProxyUIDs, unless the process has one of them; the calling
// thread has it only during the call. It returns an error if mark or uid cannot be set or the dial
// fails.
func dialAsProxy(ctx context.Context, o Options, to netip.AddrPort) error {
	dialer := net.Dialer{Timeout: time.Second}
	if o.ProxyMark != 0 {
		dialer.Control = func(_, _ string, c syscall.RawConn) error {
			var err error
			if ctlErr := c.Control(func(fd uintptr) {
				err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, int(o.ProxyMark))
			}); ctlErr != nil {
				return ctlErr
			}
			return os.NewSyscallError("set the mark of the probe's socket", err)
		}
	} else if len(o.ProxyUIDs) > 0 && !slices.Contains(o.ProxyUIDs, uint32(os.Geteuid())) {
		// A socket's owner is the file system uid of the thread that opens it. Only root may set
		// that.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		previous, err := unix.SetfsuidRetUid(int(o.ProxyUIDs[0]))
		if err != nil {
			return fmt.Errorf("set the proxy's uid for the probe: %w", err)
		}
		defer func() { _, _ = unix.SetfsuidRetUid(previous) }()
	}
	conn, err := dialer.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return fmt.Errorf("connect to the probe's address: %w", err)
	}
	return conn.Close()
}
