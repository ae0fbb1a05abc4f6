package nats

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/process"
	"github.com/meshpilot/meshpilot/test/support/program"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// patience is the timeout of a server's start.
const patience = time.Minute

// Options configure a Server.
type Options struct {
	// User and Password are the only accepted credentials. If empty, none are required.
	User, Password string
	// TLS enables TLS and requires client certificates.
	TLS *pki.Files
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

	*process.Process

	t       testing.TB
	options Options
	binary  string
	args    []string
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
	s := &Server{
		URL:     fmt.Sprintf("nats://%s:%d", o.Address, port),
		Process: process.New(t, "the NATS server"),
		t:       t,
		options: o,
		binary:  binary,
	}
	s.args = []string{"--addr", o.Address, "--port", fmt.Sprint(port)}
	if o.User != "" {
		s.args = append(s.args, "--user", o.User, "--pass", o.Password)
	}
	if c := o.TLS; c != nil {
		s.URL = fmt.Sprintf("tls://%s:%d", o.Address, port)
		s.args = append(s.args, "--tls", "--tlscert", c.ServerCertFile, "--tlskey", c.ServerKeyFile,
			"--tlscacert", c.CAFile, "--tlsverify")
	}
	s.Launch()
	return s
}

// Launch starts the process if it does not run, and waits until it accepts connections.
func (s *Server) Launch() {
	s.t.Helper()
	command := exec.Command
	if s.options.Command != nil {
		command = s.options.Command
	}
	run := command(s.binary, s.args...)
	run.Env = append(os.Environ(), "GOMEMLIMIT=128MiB", "GOMAXPROCS=2")
	if !s.Process.Start(run) || s.options.Unchecked {
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
	if c := s.options.TLS; c != nil {
		options = append(options, nats.RootCAs(c.CAFile), nats.ClientCert(c.CertFile, c.KeyFile))
	}
	return nats.Connect(s.URL, options...)
}
