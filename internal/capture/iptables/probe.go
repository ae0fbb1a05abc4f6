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

// probeInterval is the time between two attempts: rules that another program applies may come a little later.
const probeInterval = 100 * time.Millisecond

// validateCapture sees that connections are captured, by making one as the proxy would, from the pod to itself. The rules
// send it to the inbound listener, whatever ports and ranges are selected; a stand-in for that listener, on the ports of
// both, waits for it. So Envoy must not run yet.
func validateCapture(ctx context.Context, o Options, pod []netip.Addr, env Environment) error {
	ctx, cancel := context.WithTimeout(ctx, o.ProbeTimeout)
	defer cancel()
	for _, f := range []Family{IPv4, IPv6} {
		own := slices.IndexFunc(pod, func(a netip.Addr) bool { return a.Is4() == (f == IPv4) })
		if own < 0 || (f == IPv6 && !o.IPv6) {
			continue
		}
		if err := probe(ctx, o, pod[own]); err != nil {
			return fmt.Errorf("%w (%s): %w", ErrValidation, f, err)
		}
		env.Log.Info("validation passed: connections are captured", "family", f.String())
	}
	return nil
}

// probe returns nil when a connection to the probe port of address has come in at a port of Envoy's.
func probe(ctx context.Context, o Options, address netip.Addr) error {
	want := netip.AddrPortFrom(address, o.ProbePort)
	listeners, err := standIns(ctx, o, address)
	if err != nil {
		return err
	}
	arrived := make(chan netip.AddrPort, 1)
	for _, l := range listeners {
		defer l.Close()
		go accept(l, arrived)
	}
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		// On this goroutine, for its thread is in the right network namespace.
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
			return fmt.Errorf("no connection to %v came in at port %d or %d within %v: %w", want, o.InboundCapturePort, o.ProxyPort, o.ProbeTimeout, dialErr)
		case <-tick.C:
		}
	}
}

// standIns listens on Envoy's ports, at the loopback address to which REDIRECT sends local connections.
func standIns(ctx context.Context, o Options, address netip.Addr) ([]net.Listener, error) {
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
			return nil, fmt.Errorf("listening for the probe: %w", err)
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

// accept sends the original destinations of connections until the listener is closed.
func accept(l net.Listener, arrived chan<- netip.AddrPort) {
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

// dialAsProxy makes a connection that the rules take for the proxy's, and closes it.
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
			return os.NewSyscallError("setting the mark of the probe's socket", err)
		}
	} else if len(o.ProxyUIDs) > 0 && !slices.Contains(o.ProxyUIDs, uint32(os.Geteuid())) {
		// The owner of a socket is the file system uid of the thread that opens it. Root may set that, and only that.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		previous, err := unix.SetfsuidRetUid(int(o.ProxyUIDs[0]))
		if err != nil {
			return fmt.Errorf("becoming the proxy's uid for the probe: %w", err)
		}
		defer func() { _, _ = unix.SetfsuidRetUid(previous) }()
	}
	conn, err := dialer.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return fmt.Errorf("connecting to the probe's address: %w", err)
	}
	return conn.Close()
}
