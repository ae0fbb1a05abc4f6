package envoy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

const (
	// patience is the timeout for an Envoy to become ready: usually a fraction of a second, longer
	// on a busy machine.
	patience = time.Minute
	// grace is the time in which an Envoy must end after SIGTERM.
	grace = 5 * time.Second
	// pause is the polling interval of conditions.
	pause = 5 * time.Millisecond
)

// Options configure an Envoy. Only Bootstrap is required.
type Options struct {
	Bootstrap []byte   // YAML or JSON
	Args      []string // besides the arguments of every Envoy of a test
	Env       []string // besides the test's environment, as KEY=VALUE
	Ready     Ready    // what [Start] waits for
}

// Ready returns the reason why an Envoy is not ready, or nil if it is.
type Ready func() error

// Process is an Envoy that runs until its test ends.
type Process struct {
	t     testing.TB
	dir   string
	cmd   *exec.Cmd
	ended chan struct{}
}

// Start runs an Envoy until the test ends, and waits until it is ready. If it does not become
// ready, the test fails and shows Envoy's output. Without an Envoy the test is skipped (see
// [Require]).
func Start(t testing.TB, o Options) *Process {
	t.Helper()
	binary := RequireBinary(t)
	p := &Process{t: t, dir: t.TempDir(), ended: make(chan struct{})}
	bootstrap := p.filePath("bootstrap.yaml")
	if err := os.WriteFile(bootstrap, o.Bootstrap, 0o600); err != nil {
		t.Fatal(err)
	}
	// Not a buffer, which would have to be guarded: both the test and the process write to it.
	log, err := os.Create(p.filePath("log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p.cmd = exec.Command(binary, append([]string{"--config-path", bootstrap, "--admin-address-path", p.filePath("admin"),
		"--disable-hot-restart", "--concurrency", "1", "--log-level", "warn"}, o.Args...)...)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = log, log, append(os.Environ(), o.Env...)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait()
	}()
	t.Cleanup(p.endProcess)
	if o.Ready != nil {
		p.awaitReady(o.Ready)
	}
	return p
}

// Kill ends the process like a crash: at once, and without closing connections.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// PID returns the process's ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended is closed when the process has ended, which it should not do before the test does.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Admin waits for the address at which the admin interface really listens, for bootstraps that
// leave the port to the kernel.
func (p *Process) Admin() string {
	p.t.Helper()
	var address []byte
	p.awaitReady(func() (err error) {
		if address, err = os.ReadFile(p.filePath("admin")); err == nil && len(address) == 0 {
			err = fmt.Errorf("the admin interface does not listen")
		}
		return err
	})
	return string(address)
}

// AwaitLive waits until the admin interface reports that all initial resources were fetched and the
// workers accept connections. Unlike Listening, it cannot mistake another process at a listener's
// address for this one.
func (p *Process) AwaitLive() {
	p.t.Helper()
	p.awaitReady(Live(p.Admin()))
}

func (p *Process) filePath(name string) string { return filepath.Join(p.dir, name) }

func (p *Process) awaitReady(ready Ready) {
	p.t.Helper()
	deadline := time.After(patience)
	for err := ready(); err != nil; err = ready() {
		select {
		case <-p.ended:
			p.t.Fatalf("Envoy ended: %v", p.cmd.ProcessState)
		case <-deadline:
			p.t.Fatalf("Envoy does not get ready: %v", err)
		case <-time.After(pause):
		}
	}
}

func (p *Process) endProcess() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(grace):
		p.Kill()
	}
	if p.t.Failed() {
		text, err := os.ReadFile(p.filePath("log"))
		p.t.Logf("output of Envoy (%v):\n%s", err, text)
	}
}

// Listening is the readiness of listeners: each accepts connections, which an open socket alone
// does not show.
func Listening(network string, addresses ...string) Ready {
	return func() error {
		for _, a := range addresses {
			conn, err := net.DialTimeout(network, a, patience)
			if err != nil {
				return err
			}
			conn.Close()
		}
		return nil
	}
}

// Live is the readiness of the whole Envoy, as the admin interface at an address reports it: all
// initial resources were fetched.
func Live(admin string) Ready {
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/ready", http.NoBody)
		if err != nil {
			return err
		}
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		state, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		if s := strings.TrimSpace(string(state)); s != "LIVE" {
			return fmt.Errorf("its state is %q", s)
		}
		return nil
	}
}

// Text returns a bootstrap in the form that Envoy reads.
func Text(t testing.TB, b *bootstrapv3.Bootstrap) []byte {
	t.Helper()
	js, err := protojson.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// SocketDir makes a folder until the test ends, of a name that leaves room for that of a socket:
// the path of one has 108 bytes at most (unix(7)), which t.TempDir may use up.
func SocketDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "envoy")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
