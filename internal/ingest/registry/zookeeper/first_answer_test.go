package zookeeper

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/platform"
)

// TestFirstAnswer reads answers as the library does: the size first, and then as much.
func TestFirstAnswer(t *testing.T) {
	for text, want := range map[string]bool{"\x00\x00\x00\x03abc": true, "\x00\x00\x04\x01": false, "HTTP": false} {
		server, client := net.Pipe()
		go func() {
			_, _ = server.Write([]byte(text))
			_ = server.Close()
		}()
		var result error
		c := &firstAnswer{Conn: client, address: "a:1", result: func(err error) { result = err }}
		size := make([]byte, 4)
		_, err := io.ReadFull(c, size)
		if (err == nil) != want || (result == nil) != want {
			t.Errorf("%q: error %v, result %v", text, err, result)
		}
		if rest, _ := io.ReadAll(c); want && string(size)+string(rest) != text {
			t.Errorf("%q is read as %q", text, string(size)+string(rest))
		}
		_ = client.Close()
		_ = server.Close()
	}
}

// TestServerOfAnotherKind connects to servers that answer as an HTTP server does, end the
// connection, and do nothing. Each error names the server.
func TestServerOfAnotherKind(t *testing.T) {
	const silence = "silence"
	for answer, want := range map[string]string{
		"HTTP/1.1 400 Bad Request\r\n\r\n": " answers, but not as a ZooKeeper server does",
		"":                                 " ended the connection without an answer: EOF",
		silence:                            " accepts connections, but does not answer",
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c.Read(make([]byte, 1024)) // the client's request
				if answer == silence {
					_, _ = c.Read(make([]byte, 1)) // until the client ends the connection
				} else {
					_, _ = c.Write([]byte(answer))
				}
				_ = c.Close()
			}
		}()
		t.Cleanup(func() { _ = l.Close(); <-done })
		settings := DefaultSettings()
		settings.Servers, settings.SessionTimeout = []string{l.Addr().String()}, time.Second
		p, err := New(settings, nil)
		if err != nil {
			t.Fatal(err)
		}
		platform.Follow(t, p).AwaitProblem(l.Addr().String() + want)
	}
}
