package consul

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/process"
	"github.com/meshpilot/meshpilot/test/support/program"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// ManagementToken is the ACL token with all rights of a server with Options.ACL.
const ManagementToken = "11111111-2222-3333-4444-555555555555"

// patience limits how long a server may take to elect itself.
const patience = 2 * time.Minute

// Options configure a Server.
type Options struct {
	// ACL enables access control with the policy "deny".
	ACL bool
	// TLS serves HTTPS only, and requires a client certificate.
	TLS *pki.Files
	// Datacenter is the name of the datacenter (default "dc1").
	Datacenter string
	// WAN is a server of another datacenter that this one joins.
	WAN *Server
}

// Server is a Consul server that is also its own agent.
type Server struct {
	// URL is the address of its HTTP interface. It does not change when the server restarts.
	URL string

	*process.Process

	t       testing.TB
	options Options
	binary  string
	node    string // its name
	peers   []*Server
	dir     string // of its data
	ports   []int
	client  *api.Client // nil before the first call of Client
}

// Require skips a test unless MESHPILOT_PLATFORMS=true or `make scorecard` runs it, because building
// Consul for the first time takes more than three minutes on two cores. `make platforms` sets the
// variable.
func Require(t testing.TB) {
	t.Helper()
	if os.Getenv("MESHPILOT_PLATFORMS") != "true" && os.Getenv(scorecard.SizeVariable) == "" {
		t.Skip("it needs a real Consul, which takes minutes to build: `make platforms` runs it")
	}
}

// Binary returns the path of the program. It builds it into the user's cache if it is missing.
func Binary(ctx context.Context, building func()) (string, error) {
	root, err := program.Root()
	if err != nil {
		return "", err
	}
	m := program.Module{Dir: filepath.Join(root, "test", "support", "consul", "programs", "consul"), Name: "consul"}
	return m.Build(ctx, "consul", "github.com/hashicorp/consul", "-s -w", building)
}

// Start starts a server and waits until it is the leader. It is killed when the test ends.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	binary, err := Binary(t.Context(), func() { t.Log("building Consul: once, several minutes") })
	if err != nil {
		t.Fatalf("build Consul: %v", err)
	}
	s := newServer(t, binary, "server", o)
	s.Launch()
	return s
}

// newServer returns a server that does not run yet.
func newServer(t testing.TB, binary, node string, o Options) *Server {
	t.Helper()
	s := &Server{
		Process: process.New(t, "Consul's "+node), t: t, options: o, binary: binary, node: node,
		dir: filepath.Join(t.TempDir(), "data"), ports: serving.FreePorts(t, 4),
	}
	s.URL = fmt.Sprintf("http://127.0.0.1:%d", s.ports[0])
	if o.TLS != nil {
		s.URL = fmt.Sprintf("https://127.0.0.1:%d", s.ports[0])
	}
	return s
}

// Launch starts the process if it does not run, and waits until there is a leader and the server has
// registered itself.
func (s *Server) Launch() {
	s.t.Helper()
	s.start()
	s.awaitLeader()
}

// start starts the process if it does not run.
func (s *Server) start() {
	s.t.Helper()
	options := ""
	if s.options.ACL {
		options = `acl { enabled = true, default_policy = "deny", ` +
			`tokens { initial_management = "` + ManagementToken + `", agent = "` + ManagementToken + `" } }`
	}
	port := func(i int) string { return fmt.Sprint(s.ports[i]) }
	args := []string{
		"agent", "-server", fmt.Sprintf("-bootstrap-expect=%d", 1+len(s.peers)), "-node=" + s.node,
		"-datacenter=" + cmp.Or(s.options.Datacenter, "dc1"),
		"-bind=127.0.0.1", "-client=127.0.0.1", "-data-dir=" + s.dir, "-log-level=warn", "-server-port=" + port(1),
		"-serf-lan-port=" + port(2), "-serf-wan-port=" + port(3), "-dns-port=-1", "-grpc-port=-1", "-grpc-tls-port=-1",
		"-hcl", "performance { raft_multiplier = 1 }",
		"-hcl", "disable_update_check = true",
		"-hcl", "connect { enabled = false }",
		"-hcl", "peering { enabled = false }",
		"-hcl", options,
	}
	if c := s.options.TLS; c != nil {
		transport := fmt.Sprintf(
			`tls { defaults { ca_file = %q, cert_file = %q, key_file = %q, verify_incoming = true } }`,
			c.CAFile, c.ServerCertFile, c.ServerKeyFile)
		args = append(args, "-http-port=-1", "-https-port="+port(0), "-hcl", transport)
	} else {
		args = append(args, "-http-port="+port(0))
	}
	if wan := s.options.WAN; wan != nil {
		args = append(args, fmt.Sprintf("-retry-join-wan=127.0.0.1:%d", wan.ports[3]))
	}
	for _, peer := range s.peers {
		args = append(args, fmt.Sprintf("-retry-join=127.0.0.1:%d", peer.ports[2]), "-retry-interval=1s")
	}
	command := exec.Command(s.binary, args...)
	command.Env = append(os.Environ(), "GOMEMLIMIT=512MiB", "GOMAXPROCS=2")
	s.Process.Start(command)
}

// awaitLeader waits until the server has a leader and is a member of the service "consul".
func (s *Server) awaitLeader() {
	s.t.Helper()
	client := s.Client()
	serving.Eventually(s.t, patience, "Consul has a leader", func() error {
		leader, err := client.Status().Leader()
		if err == nil && leader == "" {
			err = errors.New("no leader")
		}
		if err == nil { // it has also registered itself
			var list []*api.ServiceEntry
			if list, _, err = client.Health().Service("consul", "", false, nil); err == nil && !s.isIn(list) {
				err = errors.New("the server has not registered itself")
			}
		}
		return err
	})
}

// isIn reports whether the server is one of the instances.
func (s *Server) isIn(list []*api.ServiceEntry) bool {
	return slices.ContainsFunc(list, func(e *api.ServiceEntry) bool { return e.Node != nil && e.Node.Node == s.node })
}

// DeleteData deletes the data of a server that does not run.
func (s *Server) DeleteData() {
	s.t.Helper()
	s.RequireStopped()
	if err := os.RemoveAll(s.dir); err != nil {
		s.t.Fatal(err)
	}
}

// Client returns a client of the server with all rights. It is one for all calls, because Consul
// limits the connections of an address.
func (s *Server) Client() *api.Client {
	s.t.Helper()
	if s.client != nil {
		return s.client
	}
	o := &api.Config{Address: s.URL}
	if s.options.ACL {
		o.Token = ManagementToken
	}
	if c := s.options.TLS; c != nil {
		o.TLSConfig = api.TLSConfig{Address: c.ServerName, CAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile}
	}
	client, err := api.NewClient(o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.client = client
	return client
}

// Registration returns the request that registers an HTTP instance on a node of its own, with the state
// of its check.
func Registration(service, id, address string, port int, health string) *api.CatalogRegistration {
	return &api.CatalogRegistration{
		Node:     "node-" + id,
		Address:  address,
		NodeMeta: map[string]string{"external-probe": "true"},
		Service: &api.AgentService{
			ID:      id,
			Service: service,
			Address: address,
			Port:    port,
			Meta:    map[string]string{"protocol": "http"},
		},
		Checks: api.HealthChecks{{
			Node:        "node-" + id,
			CheckID:     "check-" + id,
			Name:        "check",
			Status:      health,
			ServiceID:   id,
			ServiceName: service,
		}},
	}
}

// Register registers an instance on a node of its own, with the state of its check.
func (s *Server) Register(service, id, address string, port int, health string, edit func(*api.CatalogRegistration)) {
	s.t.Helper()
	r := Registration(service, id, address, port, health)
	if edit != nil {
		edit(r)
	}
	if _, err := s.Client().Catalog().Register(r, nil); err != nil {
		s.t.Fatalf("register %s: %v", id, err)
	}
}

// Deregister removes an instance that Register added, with its node.
func (s *Server) Deregister(id string) {
	s.t.Helper()
	if _, err := s.Client().Catalog().Deregister(&api.CatalogDeregistration{Node: "node-" + id}, nil); err != nil {
		s.t.Fatalf("deregister %s: %v", id, err)
	}
}

// RegisterMany registers n instances of a service, without checks, at the addresses from 198.18.0.0 on.
func (s *Server) RegisterMany(service string, n int) {
	s.t.Helper()
	const most = 128 // operations of a transaction
	node := &api.NodeTxnOp{Verb: api.NodeSet, Node: api.Node{Node: "node-many", Address: "198.18.0.0"}}
	operations := api.TxnOps{{Node: node}}
	for i := range n {
		operations = append(operations, &api.TxnOp{Service: &api.ServiceTxnOp{
			Verb: api.ServiceSet, Node: "node-many", Service: api.AgentService{
				ID: fmt.Sprint("many-", i), Service: service, Address: fmt.Sprintf("198.18.%d.%d", i>>8, i&255), Port: 8080,
			},
		}})
	}
	for part := range slices.Chunk(operations, most) {
		if ok, answer, _, err := s.Client().Txn().Txn(part, nil); err != nil || !ok {
			s.t.Fatalf("register instances: %v, %+v", err, answer)
		}
	}
}
