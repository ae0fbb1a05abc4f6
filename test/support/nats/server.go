package nats

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/meshpilot/meshpilot/test/support/program"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// patience limits how long a server may take to start.
const patience = time.Minute

// Options configure a Server.
type Options struct {
	// User and Password are the only accepted credentials. If empty, none are required.
	User, Password string
	// CAFile, CertFile and KeyFile enable TLS. Clients need a certificate of the authority.
	CAFile, CertFile, KeyFile string
	// Command, if set, returns the command that runs the program with arguments: in a network
	// namespace, for example.
	Command func(program string, args ...string) *exec.Cmd
	// Address is what the server listens on (default 127.0.0.1). Client connections of the test need
	// to reach it, unless Unchecked is set.
	Address   string
	Unchecked bool
}

// Server is a NATS server.
type Server struct {
	// URL is the address for clients. It does not change when the server restarts.
	URL string

	t       testing.TB
	options Options
	binary  string
	args    []string
	log     serving.Log
	process *exec.Cmd // nil while it does not run
}

// Require skips a test unless MESHPILOT_PLATFORMS=true, which `make platforms` sets.
func Require(t testing.TB) {
	t.Helper()
	if os.Getenv("MESHPILOT_PLATFORMS") != "true" {
		t.Skip("it needs a real NATS server, which is built the first time: `make platforms` runs it")
	}
}

// Binary returns the path of the program. It builds it into the user's cache if it is missing.
func Binary(ctx context.Context, building func()) (string, error) {
	root, err := program.Root()
	if err != nil {
		return "", err
	}
	m := program.Module{Dir: filepath.Join(root, "test", "support", "nats", "programs", "nats"), Name: "nats"}
	return m.Build(ctx, "nats-server", "github.com/nats-io/nats-server/v2", "-s -w", building)
}

// Start starts a server and waits until it accepts connections. It is killed when the test ends.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	binary, err := Binary(t.Context(), func() { t.Log("building the NATS server: once, a minute") })
	if err != nil {
		t.Fatalf("build the NATS server: %v", err)
	}
	if o.Address == "" {
		o.Address = "127.0.0.1"
	}
	port := serving.FreePorts(t, 1)[0]
	s := &Server{t: t, options: o, binary: binary, URL: fmt.Sprintf("nats://%s:%d", o.Address, port)}
	s.args = []string{"--addr", o.Address, "--port", fmt.Sprint(port)}
	if o.User != "" {
		s.args = append(s.args, "--user", o.User, "--pass", o.Password)
	}
	if o.CertFile != "" {
		s.URL = fmt.Sprintf("tls://%s:%d", o.Address, port)
		s.args = append(s.args, "--tls", "--tlscert", o.CertFile, "--tlskey", o.KeyFile, "--tlscacert", o.CAFile, "--tlsverify")
	}
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("the log of the NATS server:\n%s", s.log.String())
		}
	})
	s.Launch()
	return s
}

// Launch starts the process if it does not run, and waits until it accepts connections.
func (s *Server) Launch() {
	s.t.Helper()
	if s.process != nil {
		return
	}
	command := exec.Command
	if s.options.Command != nil {
		command = s.options.Command
	}
	s.process = command(s.binary, s.args...)
	s.process.Stdout, s.process.Stderr = &s.log, &s.log
	s.process.Env = append(os.Environ(), "GOMEMLIMIT=128MiB", "GOMAXPROCS=2")
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	if s.options.Unchecked {
		return
	}
	serving.Eventually(s.t, patience, "the NATS server accepts connections", func() error {
		c, err := s.connect()
		if err == nil {
			c.Close()
		}
		return err
	})
}

// Kill ends the process, without a chance to notify its clients. It does nothing if it does not run.
func (s *Server) Kill() {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Kill() // it may have ended
	_ = s.process.Wait()
	s.process = nil
}

// Pause stops the process without ending it: its connections stay open and nothing answers.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(signal syscall.Signal) {
	s.t.Helper()
	if s.process == nil {
		s.t.Fatal("the NATS server does not run")
	}
	if err := s.process.Process.Signal(signal); err != nil {
		s.t.Fatal(err)
	}
}

// Connect returns a connection that reconnects as long as the test runs.
func (s *Server) Connect() *nats.Conn {
	s.t.Helper()
	c, err := s.connect(nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond), nats.ReconnectBufSize(-1))
	if err != nil {
		s.t.Fatalf("connect to the NATS server: %v", err)
	}
	s.t.Cleanup(c.Close)
	return c
}

func (s *Server) connect(options ...nats.Option) (*nats.Conn, error) {
	if s.options.User != "" {
		options = append(options, nats.UserInfo(s.options.User, s.options.Password))
	}
	if s.options.CertFile != "" {
		options = append(options, nats.RootCAs(s.options.CAFile), nats.ClientCert(s.options.CertFile, s.options.KeyFile))
	}
	return nats.Connect(s.URL, options...)
}
