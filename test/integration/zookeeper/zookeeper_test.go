package zookeeper

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	registry "github.com/meshpilot/meshpilot/internal/ingest/registry/zookeeper"
	"github.com/meshpilot/meshpilot/test/support/platform"
	"github.com/meshpilot/meshpilot/test/support/zookeeper"
)

// sessionTimeout is that of the registry. A real one is longer.
const sessionTimeout = 2 * time.Second

func follow(t *testing.T, s *zookeeper.Server, edit func(*registry.Settings)) *platform.Follower {
	t.Helper()
	settings := registry.DefaultSettings()
	settings.Servers, settings.SessionTimeout = []string{s.Address}, sessionTimeout
	if edit != nil {
		edit(&settings)
	}
	p, err := registry.New(settings, nil)
	if err != nil {
		t.Fatal(err)
	}
	return platform.Follow(t, p)
}

// provider returns the node of a provider of an interface, as Dubbo 3.2 writes it.
func provider(iface, address, parameters string) string {
	text := "dubbo://" + address + "/" + iface + "?anyhost=true&application=demo&category=providers&dubbo=2.0.2&interface=" + iface +
		"&methods=sayHello&pid=1&release=3.2.0&side=provider&timestamp=1700000000000" + parameters
	return "/dubbo/" + iface + "/providers/" + url.QueryEscape(text)
}

// instance returns the content of a node as Spring Cloud writes it.
func instance(name, id, address string, port int, status string) string {
	return fmt.Sprintf(`{"name":%q,"id":%q,"address":%q,"port":%d,"sslPort":null,"payload":{"@class":`+
		`"org.springframework.cloud.zookeeper.discovery.ZookeeperInstance","id":"app-1","name":%q,"metadata":{"instance_status":%q}},`+
		`"registrationTimeUTC":1700000000000,"serviceType":"DYNAMIC","uriSpec":null}`, name, id, address, port, name, status)
}

// TestChanges registers, changes and removes instances in both layouts.
func TestChanges(t *testing.T) {
	zookeeper.Require(t)
	s := zookeeper.Start(t, zookeeper.Options{})
	f := follow(t, s, nil)
	f.Await("") // neither root exists
	c := s.Client()
	demo1, demo2 := provider("com.example.Demo", "192.0.2.1:20880", ""), provider("com.example.Demo", "192.0.2.2:20881", "&weight=200")
	c.Register(demo1, "192.0.2.1")
	f.Await("20880.com.example.demo.dubbo.zookeeper: 192.0.2.1:20880")
	c.Register(demo2, "192.0.2.2")
	f.Await("20880.com.example.demo.dubbo.zookeeper: 192.0.2.1:20880 192.0.2.2:20881")
	c.Register("/services/orders/a", instance("orders", "a", "192.0.2.3", 8080, "UP"))
	f.Await("20880.com.example.demo.dubbo.zookeeper: 192.0.2.1:20880 192.0.2.2:20881; 80.orders.service.zookeeper: 192.0.2.3:8080")
	c.Deregister(demo1)
	c.Update("/services/orders/a", instance("orders", "a", "192.0.2.3", 8080, "OUT_OF_SERVICE"))
	f.Await("20880.com.example.demo.dubbo.zookeeper: 192.0.2.2:20881; 80.orders.service.zookeeper: 192.0.2.3:8080=draining")
	c.Deregister(demo2)
	f.Await("80.orders.service.zookeeper: 192.0.2.3:8080=draining")
	c.Update("/services/orders/a", "garbage")
	f.AwaitProblem("is not an instance of curator-x-discovery")
	f.Await("80.orders.service.zookeeper: 192.0.2.3:8080=draining")
	c.Deregister("/services/orders/a")
	f.Await("")
	c.Register("/services/orders/a", instance("orders", "a", "192.0.2.3", 8080, "UP"))
	f.Await("80.orders.service.zookeeper: 192.0.2.3:8080")
	c.Deregister("/services/orders/a")
	c.Deregister("/services/orders") // as servers do with empty containers
	f.AwaitProblem("")
	f.Await("")
	c.Register("/services/orders/b", instance("orders", "b", "192.0.2.4", 8080, "UP"))
	c.Register(demo1, "")
	f.Await("20880.com.example.demo.dubbo.zookeeper: 192.0.2.1:20880; 80.orders.service.zookeeper: 192.0.2.4:8080")
	c.Close() // ends the session of both instances
	f.Await("")
	f.AwaitProblem("")
}

// TestRestart kills the server and starts it again with its data. Instances stay meanwhile, and follow
// the server afterwards.
func TestRestart(t *testing.T) {
	zookeeper.Require(t)
	s := zookeeper.Start(t, zookeeper.Options{})
	c := s.Client()
	c.Register("/services/orders/a", instance("orders", "a", "192.0.2.1", 8080, "UP"))
	c.Register("/services/orders/b", instance("orders", "b", "192.0.2.2", 8080, "UP"))
	f := follow(t, s, nil)
	f.Await("80.orders.service.zookeeper: 192.0.2.1:8080 192.0.2.2:8080")
	unchanged := f.Mark()
	s.Kill()
	f.AwaitProblem("connection refused")
	s.Launch()
	f.AwaitProblem("")
	unchanged()
	awaitSession(t, c)
	c.Deregister("/services/orders/b")
	f.Await("80.orders.service.zookeeper: 192.0.2.1:8080")
	unchanged = f.Mark()
	s.Pause()
	f.AwaitProblem("no server answered")
	s.Resume()
	f.AwaitProblem("")
	unchanged()
}

// TestRestartEmpty kills the server and starts it without its data. All instances stay until they are
// registered again, and then follow the server.
func TestRestartEmpty(t *testing.T) {
	zookeeper.Require(t)
	s := zookeeper.Start(t, zookeeper.Options{})
	c := s.Client()
	demo := provider("com.example.Demo", "192.0.2.3:20880", "")
	c.Register(demo, "")
	c.Register("/services/orders/a", instance("orders", "a", "192.0.2.1", 8080, "UP"))
	c.Register("/services/orders/b", instance("orders", "b", "192.0.2.2", 8080, "UP"))
	f := follow(t, s, nil)
	const all = "20880.com.example.demo.dubbo.zookeeper: 192.0.2.3:20880; 80.orders.service.zookeeper: 192.0.2.1:8080 192.0.2.2:8080"
	f.Await(all)
	unchanged := f.Mark()
	s.Kill()
	c.Close()
	s.DeleteData()
	s.Launch()
	f.AwaitProblem("lost their data and do not list 2 of the instances")
	c = s.Client()
	unchanged()
	c.Register("/services/orders/a2", instance("orders", "a2", "192.0.2.1", 8080, "OUT_OF_SERVICE")) // restarted, so another ID
	f.Await("20880.com.example.demo.dubbo.zookeeper: 192.0.2.3:20880; 80.orders.service.zookeeper: 192.0.2.1:8080=draining 192.0.2.2:8080")
	c.Deregister("/services/orders/a2")
	f.Await("20880.com.example.demo.dubbo.zookeeper: 192.0.2.3:20880; 80.orders.service.zookeeper: 192.0.2.2:8080")
	c.Register("/services/orders/b", instance("orders", "b", "192.0.2.2", 8080, "UP"))
	c.Register(demo, "")
	f.AwaitProblem("")
	c.Deregister("/services/orders/b")
	f.Await("20880.com.example.demo.dubbo.zookeeper: 192.0.2.3:20880")
}

// TestRestoredSnapshot replaces the data of the server by an older copy that lacks an instance.
func TestRestoredSnapshot(t *testing.T) {
	zookeeper.Require(t)
	s := zookeeper.Start(t, zookeeper.Options{})
	c := s.Client()
	c.Register("/services/orders/a", instance("orders", "a", "192.0.2.1", 8080, "UP"))
	s.Kill()
	saved := s.SaveData()
	s.Launch()
	awaitSession(t, c)
	c.Register("/services/orders/b", instance("orders", "b", "192.0.2.2", 8080, "UP"))
	f := follow(t, s, nil)
	f.Await("80.orders.service.zookeeper: 192.0.2.1:8080 192.0.2.2:8080")
	unchanged := f.Mark()
	s.Kill()
	s.RestoreData(saved)
	s.Launch()
	f.AwaitProblem("lost their data and do not list 1 of the instances")
	unchanged()
}

// TestAuthentication uses TLS with client certificates and nodes that only one user may read. The user
// loses the right to read one service, and then the root.
func TestAuthentication(t *testing.T) {
	zookeeper.Require(t)
	s := zookeeper.Start(t, zookeeper.Options{TLS: true})
	c := s.Client()
	if err := c.AddAuth("digest", []byte("admin:a")); err != nil {
		t.Fatal(err)
	}
	c.Register("/services/orders/a", instance("orders", "a", "192.0.2.1", 8080, "UP"))
	c.Register("/services/users/b", instance("users", "b", "192.0.2.2", 8080, "UP"))
	allow := func(path string, users ...string) {
		t.Helper()
		acl := zk.DigestACL(zk.PermAll, "admin", "a")
		for _, user := range users {
			acl = append(acl, zk.DigestACL(zk.PermRead, user, "p")...)
		}
		if _, err := c.SetACL(path, acl, -1); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/services", "/services/orders", "/services/users"} {
		allow(path, "mesh")
	}
	file := filepath.Join(t.TempDir(), "auth")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("mesh:wrong")
	f := follow(t, s, func(o *registry.Settings) {
		o.Servers, o.AuthFile, o.TLS, o.ServerName = []string{s.TLS.Address}, file, true, s.TLS.ServerName
		o.CAFile, o.CertFile, o.KeyFile = s.TLS.CAFile, s.TLS.CertFile, s.TLS.KeyFile
	})
	f.AwaitProblem("/services: zk: not authenticated")
	write("mesh:p")
	const all = "80.orders.service.zookeeper: 192.0.2.1:8080; 80.users.service.zookeeper: 192.0.2.2:8080"
	f.Await(all)
	f.AwaitProblem("")
	unchanged := f.Mark()
	allow("/services/orders")
	c.Register("/services/orders/c", instance("orders", "c", "192.0.2.3", 8080, "UP"))
	f.AwaitProblem("read /services/orders: zk: not authenticated")
	allow("/services")
	c.Register("/services/new/d", instance("new", "d", "192.0.2.4", 8080, "UP"))
	f.AwaitProblem("read /services: zk: not authenticated")
	unchanged()
	allow("/services/orders", "mesh")
	allow("/services", "mesh")
	f.Await("80.new.service.zookeeper: 192.0.2.4:8080; 80.orders.service.zookeeper: 192.0.2.1:8080 192.0.2.3:8080; " +
		"80.users.service.zookeeper: 192.0.2.2:8080")
	f.AwaitProblem("")
}

// awaitSession waits until a client of the test has a connection again.
func awaitSession(t *testing.T, c *zookeeper.Client) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		if _, _, err := c.Exists("/"); err == nil {
			return
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
