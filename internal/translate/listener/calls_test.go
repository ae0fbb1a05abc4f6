package listener

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/meshpilot/meshpilot/test/support/golden"
	"github.com/meshpilot/meshpilot/test/support/longtest"
)

// TestCalls makes the calls of all cases through a real Envoy. A line of "calls" is
//
//	out 10.96.0.1:80 WHAT => answer    captured on its way out to that address
//	in 10.9.9.9:80 WHAT => answer      captured on its way in
//	at NAME WHAT => answer             to a listener that is bound
//
// and what is sent is "silence" (the server is to speak first), "bytes", "http", "proxied" (HTTP with an absolute URL), "h2c"
// (HTTP/2 that begins without asking), "tls NAME" (a ClientHello; "tls -" without a name), or "https WHO" and "secret WHO":
// HTTP and bytes in TLS that the proxy is to end, from "anybody", or a "client" or "stranger" with a certificate that is
// trusted or not; "peer WHO" and "peer-bytes WHO" are HTTP and bytes in the mutual TLS of another proxy, a "proxy" of the mesh or a
// "foreigner" of another trust domain, "anybody" or a "stranger". The answer is the RDS resource or the cluster that got it.
func TestCalls(t *testing.T) {
	longtest.Test(t)
	golden.Run(t, cases, func(t *testing.T, c *golden.Case) {
		for _, s := range c.Sections() {
			c.Input(s)
		}
		if !c.Has("calls") {
			return
		}
		v := caseView(t, c)
		e := startEnvoy(t, listenersOf(t, NewGenerator(), v))
		var out bytes.Buffer
		for line := range strings.Lines(string(c.Input("calls"))) {
			text, want, _ := strings.Cut(line, "=>")
			text = strings.TrimSpace(text)
			wait := patience
			if strings.TrimSpace(want) == nothingYet {
				wait = impatience
			}
			answer, err := e.call(text, wait)
			if err != nil {
				t.Fatalf("call %q: %v", text, err)
			}
			fmt.Fprintf(&out, "%s => %s\n", text, answer)
		}
		c.Compare(t, "calls", out.Bytes())
	})
}

// call makes one call and returns the answer, for which it waits that long.
func (e *runningEnvoy) call(text string, wait time.Duration) (string, error) {
	words := strings.Fields(text)
	if len(words) < 3 {
		return "", errors.New("want DIRECTION TO WHAT")
	}
	payload, err := payload(words[2:])
	if err != nil {
		return "", err
	}
	listener, to := words[1], ""
	if virtual := map[string]string{"out": virtualOutbound, "in": virtualInbound}[words[0]]; virtual != "" {
		listener, to = virtual, words[1]
	}
	conn, err := e.connect(listener, to)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(wait)); err != nil {
		return "", err
	}
	switch words[2] {
	case "https", "secret":
		conn = tls.Client(conn, e.authority.client(words[3]))
	case "peer":
		conn = tls.Client(conn, e.authority.peer(words[3], "istio-http/1.1", "istio"))
	case "peer-bytes":
		conn = tls.Client(conn, e.authority.peer(words[3], "istio"))
	}
	return exchange(conn, payload)
}

// connect connects to a listener. If to is not empty, it is the address and port that the captured connection was going to.
func (e *runningEnvoy) connect(listener, to string) (net.Conn, error) {
	header := ""
	if to != "" {
		at, err := netip.ParseAddrPort(to)
		if err != nil {
			return nil, err
		}
		header = proxyHeader(at)
	}
	conn, err := net.Dial("unix", e.socket(listener))
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write([]byte(header)); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// proxyHeader returns a PROXY protocol header (version 1) with the original destination of a
// captured connection.
func proxyHeader(to netip.AddrPort) string {
	if to.Addr().Is6() {
		return fmt.Sprintf("PROXY TCP6 fd00::99 %s 40000 %d\r\n", to.Addr(), to.Port())
	}
	return fmt.Sprintf("PROXY TCP4 10.8.8.8 %s 40000 %d\r\n", to.Addr(), to.Port())
}

func payload(what []string) ([]byte, error) {
	switch {
	case what[0] == "silence":
		return nil, nil
	case what[0] == "bytes":
		return []byte("\x00\x01 what nobody knows \r\n\r\n"), nil
	case (what[0] == "secret" || what[0] == "peer-bytes") && len(what) == 2:
		return []byte("a secret\r\n"), nil
	case what[0] == "h2c":
		return h2c()
	case what[0] == "http" || (what[0] == "https" || what[0] == "peer") && len(what) == 2:
		return []byte("GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n"), nil
	case what[0] == "proxied":
		return []byte("GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n"), nil
	case what[0] == "tls" && len(what) == 2:
		return clientHello(strings.TrimSuffix(what[1], "-"))
	default:
		return nil, fmt.Errorf("payload %q", what)
	}
}

// clientHello returns the first message of a TLS client that asks for the name, and offers HTTP.
func clientHello(name string) ([]byte, error) {
	client, server := net.Pipe()
	defer server.Close()
	go func() {
		defer client.Close()
		_ = tls.Client(client, &tls.Config{ServerName: name, InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}).Handshake()
	}()
	buf := make([]byte, 4096)
	n, err := server.Read(buf)
	return buf[:n], err
}

// patience is the timeout for an answer; impatience is how long a test waits before it concludes
// that none is sent.
const (
	patience   = 10 * time.Second
	impatience = 300 * time.Millisecond
)

// nothingYet is the recorded result if no answer is sent while the client is silent.
const nothingYet = "nothing yet"

// h2c returns the first bytes of an HTTP/2 client: the preface and a request (RFC 9113, section 3.4).
func h2c() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&b, nil)
	if err := framer.WriteSettings(); err != nil {
		return nil, err
	}
	var block bytes.Buffer
	fields := hpack.NewEncoder(&block)
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "example.com"}, {":path", "/"}} {
		if err := fields.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			return nil, err
		}
	}
	err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true})
	return b.Bytes(), err
}

// exchange sends bytes and returns the answer: the text of a route or of a cluster's server.
func exchange(conn net.Conn, payload []byte) (string, error) {
	if len(payload) > 0 {
		if _, err := conn.Write(payload); err != nil {
			return "closed", nil //nolint:nilerr // the proxy hung up, which is an answer
		}
	}
	var got []byte
	for buf := make([]byte, 4096); ; {
		n, err := conn.Read(buf)
		got = append(got, buf[:n]...)
		if i := bytes.Index(got, []byte(marker)); i >= 0 {
			if j := bytes.IndexByte(got[i:], '\n'); j >= 0 {
				return string(got[i+len(marker) : i+j]), nil
			}
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nothingYet, nil
		case errors.As(err, new(*net.OpError)) || errors.Is(err, io.EOF) || err != nil && len(got) == 0:
			if line, _, ok := strings.Cut(string(got), "\r\n"); ok {
				return line, nil
			}
			return "closed", nil
		case err != nil:
			return "", err
		}
	}
}

// marker precedes the text of an answer.
const marker = "answer: "

func (e *runningEnvoy) socket(listener string) string {
	return filepath.Join(e.dir, fmt.Sprintf("l%d.sock", e.place[listener]))
}

type runningEnvoy struct {
	dir       string
	place     map[string]int // of a bound listener, by name
	authority *authority
}
