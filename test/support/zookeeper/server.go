package zookeeper

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/process"
	"github.com/meshpilot/meshpilot/test/support/program"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// patience limits how long a server may take to answer.
const patience = 2 * time.Minute

// Options configure a Server.
type Options struct {
	// TLS adds a port with TLS that requires client certificates. Server.TLS has its files.
	TLS bool
}

// Server is a ZooKeeper server, alone or in an ensemble.
type Server struct {
	// Address is its host and port. It does not change when the server restarts.
	Address string
	// TLS describes the port with TLS; nil without Options.TLS.
	TLS *TLS

	*process.Process

	t    testing.TB
	jars string // the folder of its jars
	dir  string // of its data and its configuration
}

// TLS is a port with TLS and the files of its clients.
type TLS struct {
	*pki.Files
	// Address is its host and port.
	Address string
}

// Require skips a test unless MESHPILOT_PLATFORMS=true, because real ZooKeeper servers need Java 17
// and Maven. `make platforms` sets the variable; then a missing program fails the test.
func Require(t testing.TB) {
	t.Helper()
	if os.Getenv("MESHPILOT_PLATFORMS") != "true" {
		t.Skip("it needs a real ZooKeeper server, with Java 17 and Maven: `make platforms` runs it")
	}
	if _, err := exec.LookPath("java"); err != nil {
		t.Fatal("`make platforms` needs Java 17: ", err)
	}
}

// Jars returns the folder with the jars of the server. Maven copies them into the user's cache if
// they are missing.
func Jars(ctx context.Context, building func()) (string, error) {
	root, err := program.Root()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "test", "support", "zookeeper", "programs", "zookeeper")
	target, err := program.MavenProject{Dir: dir, Name: "zookeeper"}.Build(ctx, building)
	return filepath.Join(target, "lib"), err
}

// Start starts a server and waits until it answers. It is killed when the test ends.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	jars, err := Jars(t.Context(), func() { t.Log("fetching ZooKeeper: once") })
	if err != nil {
		t.Fatalf("fetch ZooKeeper: %v", err)
	}
	ports := serving.FreePorts(t, 2)
	s, text := newServer(t, jars, ports[0])
	if o.TLS {
		s.TLS = &TLS{Files: pki.NewFiles(t, "zookeeper.test"), Address: fmt.Sprintf("127.0.0.1:%d", ports[1])}
		keyStore := filepath.Join(s.dir, "server.pem")
		writeKeyStore(t, keyStore, s.TLS.ServerCertFile, s.TLS.ServerKeyFile)
		text += fmt.Sprintf("serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\nsecureClientPort=%d\n"+
			"secureClientPortAddress=127.0.0.1\nssl.keyStore.location=%s\nssl.trustStore.location=%s\n",
			ports[1], keyStore, s.TLS.CAFile)
	}
	if err := os.WriteFile(s.configFile(), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Launch()
	return s
}

// newServer returns a server that does not run, and the configuration that all servers have.
func newServer(t testing.TB, jars string, port int) (s *Server, text string) {
	t.Helper()
	s = &Server{
		Address: fmt.Sprintf("127.0.0.1:%d", port), Process: process.New(t, "ZooKeeper"), t: t, jars: jars, dir: t.TempDir(),
	}
	return s, fmt.Sprintf("tickTime=500\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"+
		"maxClientCnxns=0\nmaxSessionTimeout=%d\n", s.dataDir(), port, sessionTimeout.Milliseconds())
}

func (s *Server) dataDir() string    { return filepath.Join(s.dir, "data") }
func (s *Server) configFile() string { return filepath.Join(s.dir, "zoo.cfg") }

// Launch starts the process if it does not run, and waits until it answers.
func (s *Server) Launch() {
	s.t.Helper()
	if s.start() {
		serving.Eventually(s.t, patience, "ZooKeeper answers", s.ask)
	}
}

// start starts the process. It returns false if it runs already.
func (s *Server) start() bool {
	s.t.Helper()
	command := exec.Command("java", "-Xmx128m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-Dzookeeper.extendedTypesEnabled=true", "-cp", s.jars+"/*",
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", s.configFile())
	return s.Process.Start(command)
}

// ask returns an error unless the server answers the command srvr as one that serves clients.
func (s *Server) ask() error {
	answer, err := s.command("srvr")
	if err == nil && !strings.Contains(answer, "Mode: ") {
		err = fmt.Errorf("srvr: %q", answer)
	}
	return err
}

// command returns the answer to a command of four letters.
func (s *Server) command(name string) (string, error) {
	conn, err := net.DialTimeout("tcp", s.Address, time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return "", err
	}
	if _, err := conn.Write([]byte(name)); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

// DeleteData deletes the data of a server that does not run.
func (s *Server) DeleteData() {
	s.t.Helper()
	s.RequireStopped()
	if err := os.RemoveAll(s.dataDir()); err != nil {
		s.t.Fatal(err)
	}
}

// SaveData copies the data of a server that does not run to a new folder, for RestoreData.
func (s *Server) SaveData() string {
	s.t.Helper()
	saved := filepath.Join(s.t.TempDir(), "saved")
	if err := os.CopyFS(saved, os.DirFS(s.dataDir())); err != nil {
		s.t.Fatal(err)
	}
	return saved
}

// RestoreData replaces the data of a server that does not run with a copy by SaveData.
func (s *Server) RestoreData(saved string) {
	s.t.Helper()
	s.DeleteData()
	if err := os.CopyFS(s.dataDir(), os.DirFS(saved)); err != nil {
		s.t.Fatal(err)
	}
}

// writeKeyStore writes a certificate and its key to one file, as ZooKeeper reads them.
func writeKeyStore(t testing.TB, file, certFile, keyFile string) {
	t.Helper()
	var all bytes.Buffer
	for _, name := range []string{keyFile, certFile} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	if err := os.WriteFile(file, all.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}
