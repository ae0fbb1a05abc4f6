package listener

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestWebsocket upgrades a connection to the workload through its proxy, and talks over it both ways.
func TestWebsocket(t *testing.T) {
	m := fixture.New(t, []byte(`
{kind: Service, metadata: {name: chat}, spec: {clusterIP: 10.96.0.1, selector: {app: chat}, ports: [{name: http, port: 80, targetPort: 8080}]}}
---
{kind: Pod, metadata: {name: client, labels: {app: chat}}, status: {podIP: 10.9.9.9, phase: Running}}
`), nil)
	var inbound []*listenerv3.Listener
	for _, l := range listenersOf(t, NewGenerator(), m.View(fixture.Proxy(t, nil))) {
		if l.GetName() == virtualInbound {
			inbound = append(inbound, l)
		}
	}
	e := (&stage{t: t, routed: true, serve: upgradeAndEcho}).start(inbound)
	conn, err := e.connect(virtualInbound, "10.9.9.9:8080")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	request := "GET /chat HTTP/1.1\r\nHost: chat\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: c2FtcGxlIG5vbmNlIDEyMw==\r\n\r\n"
	if _, err := conn.Write([]byte(request)); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusSwitchingProtocols || response.Header.Get("Upgrade") != "websocket" {
		t.Fatalf("%d, upgrade %q", response.StatusCode, response.Header.Get("Upgrade"))
	}
	for _, said := range []string{"hello", "again"} {
		if _, err := conn.Write([]byte(said)); err != nil {
			t.Fatal(err)
		}
		heard := make([]byte, len(said))
		if _, err := io.ReadFull(r, heard); err != nil || string(heard) != said {
			t.Fatalf("sent %q, received %q: %v", said, heard, err)
		}
	}
}

// upgradeAndEcho is a server that switches to websocket and echoes the bytes that it receives.
func upgradeAndEcho(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	if _, err := http.ReadRequest(r); err != nil {
		return
	}
	if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"); err != nil {
		return
	}
	_, _ = io.Copy(conn, r)
}
