package listener

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// uploadMesh has a workload with a port, a service that it calls, and a gateway.
const uploadMesh = `
{kind: Service, metadata: {name: store}, spec: {clusterIP: 10.96.0.1, selector: {app: store}, ports: [{name: http, port: 80, targetPort: 8080}]}}
---
{kind: Pod, metadata: {name: client, labels: {app: store}}, status: {podIP: 10.9.9.9, phase: Running}}
---
{kind: Gateway, metadata: {name: edge}, spec: {servers: [{port: {number: 8080, name: http, protocol: HTTP}, hosts: ["*"]}]}}
`

// TestExpectContinue uploads through real connection managers to a server that refuses or accepts by `Expect:
// 100-continue`. The upload that is refused must not leave the client.
func TestExpectContinue(t *testing.T) {
	const upload = 4 << 20
	sidecar, gateway := fixture.Proxy(t, nil), fixture.Proxy(t, []byte("{type: router}"))
	for _, side := range []struct {
		name, listener, to string
		proxy              *mesh.Proxy
	}{
		{"inbound", virtualInbound, "10.9.9.9:8080", sidecar},
		{"outbound", virtualOutbound, "10.96.0.1:80", sidecar},
		{"gateway", "0.0.0.0_8080", "", gateway},
	} {
		t.Run(side.name, func(t *testing.T) {
			v := fixture.New(t, []byte(uploadMesh), nil).View(side.proxy)
			var received atomic.Int64
			s := &stage{t: t, routed: true, forwardTo: "store", serve: func(c net.Conn) { answerExpectation(c, &received) }}
			e := s.start(listenersOf(t, NewGenerator(), v))
			for _, protocol := range []string{"HTTP/1.1", "HTTP/2"} {
				for _, call := range []struct {
					path string
					code int
					body int64
				}{{"/accept", http.StatusOK, upload}, {"/refuse", http.StatusRequestEntityTooLarge, 0}} {
					received.Store(0)
					code := e.upload(t, protocol, side.listener, side.to, call.path, upload)
					if got := received.Load(); code != call.code || got != call.body {
						t.Errorf("%s %s: status %d and %d bytes of the upload, want %d and %d",
							protocol, call.path, code, got, call.code, call.body)
					}
				}
			}
		})
	}
}

// TestAnswerExpectContinue checks ENABLE_100_CONTINUE_HEADERS=false: no connection manager forwards the header.
func TestAnswerExpectContinue(t *testing.T) {
	forwarded := func(features snapshot.Features) (yes, no int) {
		for _, proxy := range []string{"{}", "{type: router}"} {
			v := fixture.NewWith(t, features, []byte(uploadMesh), nil).View(fixture.Proxy(t, []byte(proxy)))
			for _, m := range connectionManagers(t, listenersOf(t, NewGenerator(), v)) {
				if m.GetProxy_100Continue() {
					yes++
				} else {
					no++
				}
			}
		}
		return yes, no
	}
	if yes, no := forwarded(snapshot.Features{}); yes == 0 || no != 0 {
		t.Errorf("by default %d connection managers forward the header and %d do not", yes, no)
	}
	if yes, no := forwarded(snapshot.Features{AnswerExpectContinue: true}); yes != 0 || no == 0 {
		t.Errorf("with AnswerExpectContinue %d connection managers forward the header and %d do not", yes, no)
	}
}

// upload posts size bytes and returns the status.
func (e *runningEnvoy) upload(t *testing.T, protocol, listener, to, path string, size int) int {
	t.Helper()
	transport := &http.Transport{
		ExpectContinueTimeout: patience,
		Protocols:             new(http.Protocols),
		DialContext:           func(context.Context, string, string) (net.Conn, error) { return e.connect(listener, to) },
	}
	defer transport.CloseIdleConnections()
	transport.Protocols.SetHTTP1(protocol == "HTTP/1.1")
	transport.Protocols.SetUnencryptedHTTP2(protocol == "HTTP/2")
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	body := bytes.NewReader(make([]byte, size))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://store"+path, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Expect", "100-continue")
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatalf("%s %s: %v", protocol, path, err)
	}
	defer response.Body.Close()
	if path == "/refuse" && body.Len() != size {
		t.Errorf("%s %s: the client sent %d bytes", protocol, path, size-body.Len())
	}
	return response.StatusCode
}

// answerExpectation is an HTTP/1.1 server. It refuses uploads to /refuse after their headers,
// requests the bodies of others, and adds their sizes to received. A request without Expect is read
// completely before it is answered.
func answerExpectation(conn net.Conn, received *atomic.Int64) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		request, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		refuse, expects := request.URL.Path == "/refuse", request.Header.Get("Expect") != ""
		if expects && !refuse {
			if _, err := io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
				return
			}
		}
		if !expects || !refuse {
			n, err := io.Copy(io.Discard, request.Body)
			if received.Add(n); err != nil {
				return
			}
		}
		if refuse {
			_, _ = io.WriteString(conn, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			return
		}
		if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
			return
		}
	}
}

// connectionManagers returns the connection managers of all filter chains.
func connectionManagers(t testing.TB, listeners []*listenerv3.Listener) []*hcmv3.HttpConnectionManager {
	t.Helper()
	var list []*hcmv3.HttpConnectionManager
	for _, l := range listeners {
		for _, c := range append(l.GetFilterChains(), l.GetDefaultFilterChain()) {
			for _, f := range c.GetFilters() {
				m := new(hcmv3.HttpConnectionManager)
				if !f.GetTypedConfig().MessageIs(m) {
					continue
				}
				if err := f.GetTypedConfig().UnmarshalTo(m); err != nil {
					t.Fatal(err)
				}
				list = append(list, m)
			}
		}
	}
	return list
}
