package envoy

import (
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestStart(t *testing.T) {
	RequireBinary(t)
	socket := filepath.Join(SocketDir(t), "l.sock")
	var p *Process
	t.Run("runs", func(t *testing.T) {
		p = Start(t, Options{Bootstrap: []byte(`
admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}
static_resources:
  listeners:
  - name: l
    address: {pipe: {path: ` + socket + `}}
    filter_chains:
    - filters:
      - {name: echo, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.echo.v3.Echo}}
`), Ready: Listening("unix", socket)})
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		p.AwaitLive()
	})
	select {
	case <-p.Ended():
	default:
		t.Error("Envoy outlives its test")
	}
	if err := Live("127.0.0.1:1")(); err == nil {
		t.Error("an Envoy that is not there is LIVE")
	}
	if err := Listening("unix", socket)(); err == nil {
		t.Error("an Envoy that is not there listens")
	}
}

// TestStartFails: with an invalid bootstrap a test fails at once, with Envoy's error.
func TestStartFails(t *testing.T) {
	RequireBinary(t)
	f := &failing{TB: t}
	began, done := time.Now(), make(chan struct{})
	go func() {
		defer close(done)
		Start(f, Options{Bootstrap: []byte("static_resources: {listeners: 7}"), Ready: Live("127.0.0.1:1")})
	}()
	<-done
	for _, do := range f.cleanups {
		do()
	}
	if !f.failed || !strings.Contains(f.said, "Envoy ended") || !strings.Contains(f.said, "listeners") {
		t.Errorf("failed: %t; output: %s", f.failed, f.said)
	}
	if took := time.Since(began); took > patience/2 {
		t.Errorf("it took %v", took)
	}
}

// failing is a test that may fail without failing the enclosing one.
type failing struct {
	testing.TB
	cleanups []func()
	said     string
	failed   bool
}

func (f *failing) Failed() bool                 { return f.failed }
func (f *failing) Cleanup(do func())            { f.cleanups = append(f.cleanups, do) }
func (f *failing) Logf(format string, a ...any) { f.said += fmt.Sprintf(format, a...) + "\n" }
func (f *failing) Fatalf(format string, a ...any) {
	f.failed = true
	f.Logf(format, a...)
	runtime.Goexit()
}
