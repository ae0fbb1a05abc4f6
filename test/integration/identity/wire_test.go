package identity

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/meshpilot/meshpilot/internal/base/netns"
)

// onTheWire captures all packets that leave and enter the client's pod: calls to the server and
// answers are never in plain text, unless mutual TLS is disabled.
func onTheWire(t *testing.T, w *world) {
	for _, c := range []struct {
		mode  string
		plain bool
	}{{"PERMISSIVE", false}, {"STRICT", false}, {"DISABLE", true}} {
		w.peers(t, c.mode)
		tap := listenIn(t, w.Workload("client").Node)
		asked, answered, raw := "asked-"+c.mode, "answered-"+c.mode, "raw-"+c.mode
		if got := w.postSecret(t, asked, answered); got.Body != answered {
			t.Fatalf("%s: the server received %q", c.mode, got.Body)
		}
		w.sendLine(t, raw)
		seen := tap.stop()
		if len(seen) < 1000 {
			t.Errorf("%s: %d bytes were seen: the tap shows nothing", c.mode, len(seen))
		}
		for _, secret := range []string{asked, answered, raw} {
			if got := bytes.Contains(seen, []byte(secret)); got != c.plain {
				t.Errorf("%s: %q is in the clear on the wire: %t", c.mode, secret, got)
			}
		}
	}
	w.peers(t, "STRICT") // otherwise plain-text connections would continue: PERMISSIVE closes none
	w.peers(t, "PERMISSIVE")
}

// postSecret calls the server over a new connection, with a secret in the path and in the body, and
// returns what the server received.
func (w *world) postSecret(t *testing.T, path, body string) request {
	t.Helper()
	c := w.client(t)
	resp, err := c.Post("http://server.mesh:"+toldPort+"/"+path, "text/plain", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", path, resp.Status)
	}
	return decode[request](t, resp.Body)
}

// sendLine sends a line over a raw connection, and reads the answer.
func (w *world) sendLine(t *testing.T, line string) {
	t.Helper()
	conn, err := w.dial(serverAddress)(t.Context(), "tcp", "server.mesh:9000")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintln(conn, line); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 1<<10)
	if n, err := conn.Read(got); err != nil || !bytes.Contains(got[:n], []byte(line)) {
		t.Fatalf("got %q for %q: %v", got[:n], line, err)
	}
}

// tap is a packet socket at a pod's interface.
type tap struct {
	file *os.File
	done sync.WaitGroup
	seen bytes.Buffer
}

// listenIn begins to read every frame that passes a node's interface to others, in both directions.
func listenIn(t *testing.T, node *netns.Node) *tap {
	t.Helper()
	x := new(tap)
	if err := node.Do(func() error {
		link, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		const all = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8 // in the order of the network
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, all)
		if err != nil {
			return fmt.Errorf("opening a packet socket: %w", err)
		}
		x.file = os.NewFile(uintptr(fd), "tap")
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Index})
	}); err != nil {
		t.Fatal(err)
	}
	x.done.Go(func() {
		frame := make([]byte, 1<<18) // more than an interface delivers at once
		for {
			n, err := x.file.Read(frame)
			if err != nil {
				if !errors.Is(err, os.ErrClosed) && !errors.Is(err, io.EOF) {
					t.Error(err)
				}
				return
			}
			x.seen.Write(frame[:n])
		}
	})
	return x
}

// stop ends the capture, and returns its packets.
func (x *tap) stop() []byte {
	x.file.Close()
	x.done.Wait()
	return x.seen.Bytes()
}
