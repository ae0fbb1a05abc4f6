package zookeeper

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

// StartEnsemble starts n servers that elect a leader, and waits until all of them serve clients. They are
// killed when the test ends.
func StartEnsemble(t testing.TB, n int) []*Server {
	t.Helper()
	jars, err := Jars(t.Context(), func() { t.Log("fetching ZooKeeper: once") })
	if err != nil {
		t.Fatalf("fetch ZooKeeper: %v", err)
	}
	ports := serving.FreePorts(t, 3*n)
	members := "initLimit=20\nsyncLimit=10\n"
	for i := range n {
		members += fmt.Sprintf("server.%d=127.0.0.1:%d:%d\n", i+1, ports[n+i], ports[2*n+i])
	}
	var servers []*Server
	for i := range n {
		s, text := newServer(t, jars, ports[i])
		if err := errors.Join(
			os.Mkdir(s.dataDir(), 0o755),
			os.WriteFile(filepath.Join(s.dataDir(), "myid"), fmt.Appendln(nil, i+1), 0o600),
			os.WriteFile(s.configFile(), []byte(text+members), 0o600),
		); err != nil {
			t.Fatal(err)
		}
		s.start()
		servers = append(servers, s)
	}
	for _, s := range servers {
		serving.Eventually(t, patience, "ZooKeeper answers", s.ask)
	}
	return servers
}

// Leads reports whether the server leads its ensemble.
func (s *Server) Leads() bool {
	answer, err := s.command("srvr")
	return err == nil && strings.Contains(answer, "Mode: leader")
}
