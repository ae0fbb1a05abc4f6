package httpserver

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"testing"
)

// TestListenOptional: a port that is disabled or in use ends nothing. Only the one in use is reported.
func TestListenOptional(t *testing.T) {
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, nil))
	if l := ListenOptional("ControlZ", "127.0.0.1", 0, log); l != nil || text.Len() > 0 {
		t.Fatalf("a disabled port: %v, %q", l, text.String())
	}
	used, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := used.Addr().(*net.TCPAddr).AddrPort().Port()
	if l := ListenOptional("ControlZ", "127.0.0.1", port, log); l != nil || !strings.Contains(text.String(), "ControlZ is not served") {
		t.Errorf("a port in use: %v, %q", l, text.String())
	}
	if err := used.Close(); err != nil {
		t.Fatal(err)
	}
	l := ListenOptional("ControlZ", "127.0.0.1", port, log)
	if l == nil {
		t.Fatal("a free port is not opened")
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
