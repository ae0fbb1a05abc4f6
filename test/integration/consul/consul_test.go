package consul

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/consul/api"
	"github.com/prometheus/client_golang/prometheus/testutil"

	registry "github.com/meshpilot/meshpilot/internal/ingest/registry/consul"
	"github.com/meshpilot/meshpilot/test/support/consul"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

// TestChanges registers, changes and deregisters services.
func TestChanges(t *testing.T) {
	consul.Require(t)
	s := consul.Start(t, consul.Options{})
	s.Register("web", "web-1", "192.0.2.1", 8080, "passing", nil)
	s.Register("web", "web-2", "192.0.2.2", 8080, "passing", nil)
	f := follow(t, s, nil)
	f.await("web: 192.0.2.1 192.0.2.2")
	s.Register("web", "web-2", "192.0.2.2", 8080, "critical", nil)
	f.await("web: 192.0.2.1 192.0.2.2=UNHEALTHY")
	s.Register("web", "web-2", "192.0.2.2", 8080, "warning", nil)
	f.await("web: 192.0.2.1 192.0.2.2")
	s.Register("api", "api-1", "192.0.2.3", 9090, "passing", nil)
	f.await("api: 192.0.2.3; web: 192.0.2.1 192.0.2.2")

	agent := s.Client().Agent()
	if err := agent.ServiceRegister(&api.AgentServiceRegistration{ID: "job-1", Name: "job", Address: "192.0.2.4", Port: 7070}); err != nil {
		t.Fatal(err)
	}
	f.await("api: 192.0.2.3; job: 192.0.2.4; web: 192.0.2.1 192.0.2.2")
	if err := agent.EnableServiceMaintenance("job-1", "test"); err != nil {
		t.Fatal(err)
	}
	f.await("api: 192.0.2.3; job: 192.0.2.4=DRAINING; web: 192.0.2.1 192.0.2.2")
	if err := agent.ServiceDeregister("job-1"); err != nil {
		t.Fatal(err)
	}
	s.Deregister("web-2")
	f.await("api: 192.0.2.3; web: 192.0.2.1")
	s.Deregister("api-1")
	f.await("web: 192.0.2.1")
	s.Deregister("web-1")
	f.await("")
	s.Register("web", "web-1", "192.0.2.9", 8080, "passing", nil)
	f.await("web: 192.0.2.9")
	f.awaitProblem("")
	if n := testutil.ToFloat64(f.metrics.Resets); n != 0 {
		t.Errorf("%v resets of servers that never lost their data", n)
	}
}

// TestOneQueryPerChange counts the queries that a change of one of 30 services costs.
func TestOneQueryPerChange(t *testing.T) {
	consul.Require(t)
	s := consul.Start(t, consul.Options{})
	want := ""
	for i := range 30 {
		id := string(rune('a'+i/26)) + string(rune('a'+i%26))
		s.Register(id, id, "192.0.2.1", 8080, "passing", nil)
		if want != "" {
			want += "; "
		}
		want += id + ": 192.0.2.1"
	}
	f := follow(t, s, nil)
	f.await(want)
	s.Register("aa", "aa", "192.0.2.1", 8080, "critical", nil)
	f.await("aa: 192.0.2.1=UNHEALTHY" + want[len("aa: 192.0.2.1"):])
	before := f.queries()
	const changes = 10
	for i := range changes {
		health, text := "passing", "aa: 192.0.2.1"
		if i%2 == 1 {
			health, text = "critical", "aa: 192.0.2.1=UNHEALTHY"
		}
		s.Register("aa", "aa", "192.0.2.1", 8080, health, nil)
		f.await(text + want[len("aa: 192.0.2.1"):])
	}
	// One for the service, and at most one for the list, which a registration may wake. The query that
	// waits for the next change may be counted a moment later.
	if n := f.queries() - before; n < changes-1 || n > 2*changes+5 {
		t.Errorf("%v queries for %d changes", n, changes)
	}
}

// TestMoreServicesThanQueries: the queries of 12 services share a smaller number of concurrent
// queries.
func TestMoreServicesThanQueries(t *testing.T) {
	consul.Require(t)
	s := consul.Start(t, consul.Options{})
	want := ""
	for i := range 12 {
		id := string(rune('a' + i))
		s.Register(id, id, "192.0.2.1", 8080, "passing", nil)
		if want += id + ": 192.0.2.1"; i < 11 {
			want += "; "
		}
	}
	f := follow(t, s, func(o *registry.Settings) { o.Queries = 3 })
	f.await(want)
	s.Deregister("l")
	f.await(want[:len(want)-len("; l: 192.0.2.1")])
}

// TestServerRestarts kills the server and restarts it with its data. An instance that was
// deregistered before the kill does not return, and one that is deregistered afterwards is removed
// at once.
func TestServerRestarts(t *testing.T) {
	consul.Require(t)
	s := consul.Start(t, consul.Options{})
	s.Register("web", "web-1", "192.0.2.1", 8080, "passing", nil)
	s.Register("web", "web-2", "192.0.2.2", 8080, "passing", nil)
	f := follow(t, s, nil)
	f.await("web: 192.0.2.1 192.0.2.2")
	unchanged := f.mark()
	s.Kill()
	f.awaitProblem("Consul cannot be read")
	if testutil.ToFloat64(f.metrics.Failing) == 0 {
		t.Error("no query fails")
	}
	s.Launch()
	f.awaitProblem("")
	unchanged()
	s.Deregister("web-2")
	f.await("web: 192.0.2.1")
	if n := testutil.ToFloat64(f.metrics.Resets); n != 0 {
		t.Errorf("%v resets of servers that kept their data", n)
	}
}

// TestServerRestartsEmpty kills the server and starts it without its data. All instances stay until
// they are registered again, and then follow Consul.
func TestServerRestartsEmpty(t *testing.T) {
	consul.Require(t)
	s := consul.Start(t, consul.Options{})
	s.Register("api", "api-1", "192.0.2.3", 8080, "passing", nil)
	s.Register("web", "web-1", "192.0.2.1", 8080, "passing", nil)
	s.Register("web", "web-2", "192.0.2.2", 8080, "passing", nil)
	f := follow(t, s, nil)
	f.await("api: 192.0.2.3; web: 192.0.2.1 192.0.2.2")
	unchanged := f.mark()
	s.Kill()
	s.DeleteData()
	f.awaitProblem("Consul cannot be read")
	s.Launch()
	f.awaitProblem("lost their data and do not list 2 of the instances")
	f.awaitHeld(3)
	unchanged()
	s.Register("web", "web-1", "192.0.2.1", 8080, "critical", nil)
	f.await("api: 192.0.2.3; web: 192.0.2.1=UNHEALTHY 192.0.2.2")
	s.Deregister("web-1") // the new server has listed it, so this is a deregistration
	f.await("api: 192.0.2.3; web: 192.0.2.2")
	s.Register("web", "web-2", "192.0.2.2", 8080, "passing", nil)
	s.Register("api", "api-1", "192.0.2.3", 8080, "passing", nil)
	f.awaitProblem("")
	f.awaitHeld(0)
}

// TestTokenLosesRights withdraws from a token, on a server with TLS and ACLs, the right to read one
// service, grants it again, deletes the token, and writes another token into the file.
func TestTokenLosesRights(t *testing.T) {
	consul.Require(t)
	certificates := pki.NewFiles(t, "server.dc1.consul")
	s := consul.Start(t, consul.Options{ACL: true, TLS: certificates})
	s.Register("api", "api-1", "192.0.2.3", 8080, "passing", nil)
	s.Register("web", "web-1", "192.0.2.1", 8080, "passing", nil)
	s.Register("web", "web-2", "192.0.2.2", 8080, "passing", nil)
	acl := s.Client().ACL()
	const all = `service_prefix "" { policy = "read" } node_prefix "" { policy = "read" }`
	policy, _, err := acl.PolicyCreate(&api.ACLPolicy{Name: "mesh", Rules: all}, nil)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	newToken := func() string {
		token, _, err := acl.TokenCreate(&api.ACLToken{Policies: []*api.ACLTokenPolicyLink{{ID: policy.ID}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(token.SecretID+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return token.AccessorID
	}
	first := newToken()
	f := follow(t, s, func(o *registry.Settings) {
		o.TokenFile, o.CAFile, o.ServerName = file, certificates.CAFile, certificates.ServerName
		o.CertFile, o.KeyFile = certificates.CertFile, certificates.KeyFile
	})
	f.await("api: 192.0.2.3; web: 192.0.2.1 192.0.2.2")
	unchanged := f.mark()
	setRules := func(rules string) {
		policy.Rules = rules
		if policy, _, err = acl.PolicyUpdate(policy, nil); err != nil {
			t.Fatal(err)
		}
	}
	setRules(all + ` service "web" { policy = "deny" }`)
	s.Register("web", "web-1", "192.0.2.1", 8080, "warning", nil)
	s.Register("api", "api-1", "192.0.2.3", 8080, "passing", func(r *api.CatalogRegistration) {
		r.Service.Tags = []string{"a.b"} // wakes the query of the list
	})
	f.awaitProblem("the ACL token may no longer read 2 of the instances")
	unchanged()
	s.Deregister("api-1") // of a service that the token may read
	f.await("web: 192.0.2.1 192.0.2.2")
	setRules(all)
	s.Register("web", "web-1", "192.0.2.1", 8080, "passing", nil)
	f.awaitProblem("")
	if _, err := acl.TokenDelete(first, nil); err != nil {
		t.Fatal(err)
	}
	unchanged = f.mark()
	s.Register("web", "web-1", "192.0.2.1", 8080, "warning", nil)
	f.awaitProblem("ACL not found")
	unchanged()
	newToken()
	f.awaitProblem("")
	s.Deregister("web-1")
	f.await("web: 192.0.2.2")
}
