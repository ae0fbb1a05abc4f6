package listener

import (
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/meshpilot/meshpilot/internal/testkit/fixture"
)

// TestForeignTLSObeysPolicies calls ports that are declared as HTTP by TLS that is not the mesh's. Under PERMISSIVE such connections are
// passed on unread by the default chain of the listener, where a DENY of their port must hold too.
func TestForeignTLSObeysPolicies(t *testing.T) {
	m := fixture.New(t, []byte(`
kind: Service
metadata: {name: shop}
spec: {clusterIP: 10.96.0.1, selector: {app: shop}, ports: [{name: http, port: 80, targetPort: 8080}, {name: http-more, port: 81, targetPort: 8081}]}
---
{kind: Pod, metadata: {name: client, labels: {app: shop}}, status: {podIP: 10.9.9.9, phase: Running}}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: closed}
spec: {action: DENY, rules: [{to: [{operation: {ports: ["8080"]}}]}]}
`), nil)
	var inbound []*listenerv3.Listener
	for _, l := range listenersOf(t, NewGenerator(), m.View(fixture.Proxy(t, []byte("identity: true")))) {
		if l.GetName() == virtualInbound {
			inbound = append(inbound, l)
		}
	}
	var reached atomic.Int32
	e := (&stage{t: t, serve: func(conn net.Conn) {
		defer conn.Close()
		if n, _ := conn.Read(make([]byte, 1)); n > 0 { // a connection without bytes may be made before a policy refuses it
			reached.Add(1)
		}
	}}).start(inbound)
	for port, want := range map[uint16]int32{8080: 0, 8081: 1} {
		conn, err := net.Dial("unix", e.socket(virtualInbound))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, proxyHeader(netip.AddrPortFrom(netip.MustParseAddr("10.9.9.9"), port))); err != nil {
			t.Fatal(err)
		}
		before := reached.Load()
		// It ends when the application or the proxy closes the connection.
		err = tls.Client(conn, &tls.Config{ServerName: "shop.example.com", MinVersion: tls.VersionTLS12}).Handshake()
		if got := reached.Load() - before; got != want {
			t.Errorf("port %d: the application was sent bytes of %d connections, want %d (%v)", port, got, want, err)
		}
	}
}
