package marathon

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// The applications have the form of Marathon's documentation. They were not recorded.
const (
	hostApp = `{
  "id": "/shop/web", "labels": {"version": "v1", "HAPROXY_0_VHOST": "web.example.com", "invalid key": "x"},
  "healthChecks": [{"protocol": "HTTP", "path": "/health"}], "networks": [{"mode": "host"}],
  "portDefinitions": [
    {"port": 10000, "name": "http", "protocol": "tcp"}, {"port": 10001, "protocol": "udp"},
    {"port": 10002, "protocol": "udp,tcp", "name": "admin", "labels": {"protocol": "grpc"}}
  ],
  "tasks": [
    {"id": "web.1", "host": "agent-1.example.com", "ports": [31000, 31001, 31002], "state": "TASK_RUNNING",
     "ipAddresses": [{"ipAddress": "10.0.0.1", "protocol": "IPv4"}], "healthCheckResults": [{"alive": true}],
     "region": "aws/us-west-2", "zone": "aws/us-west-2b"},
    {"id": "web.2", "host": "10.0.0.2", "ports": [31000, 31001, 31002], "state": "TASK_RUNNING", "healthCheckResults": [{"alive": false}]},
    {"id": "web.3", "host": "10.0.0.3", "ports": [31000, 31001, 31002], "state": "TASK_RUNNING"},
    {"id": "web.4", "host": "10.0.0.4", "ports": [31000, 31001, 31002], "state": "TASK_STAGING"},
    {"id": "web.5", "host": "10.0.0.5", "ports": [31000, 31001, 31002], "state": "TASK_KILLING"},
    {"id": "web.6", "host": "10.0.0.6", "ports": [31000, 31001, 31002], "state": "TASK_UNREACHABLE"},
    {"id": "web.7", "host": "10.0.0.7", "ports": [31000], "state": "TASK_RUNNING", "healthCheckResults": [{"alive": true}]}
  ]}`
	bridgeApp = `{
  "id": "/api", "networks": [{"mode": "container/bridge"}],
  "container": {"type": "DOCKER", "portMappings": [{"containerPort": 8080, "hostPort": 0, "servicePort": 10010, "name": "http"}]},
  "tasks": [{"id": "api.1", "host": "10.0.0.1", "ports": [31005], "state": "TASK_RUNNING", "ipAddresses": [{"ipAddress": "172.17.0.2"}]}]}`
	containerApp = `{
  "id": "/db", "networks": [{"mode": "container", "name": "dcos"}],
  "container": {"portMappings": [{"containerPort": 3306, "servicePort": 10020, "name": "mysql"}]},
  "tasks": [
    {"id": "db.1", "host": "10.0.0.1", "ports": [], "state": "TASK_RUNNING", "ipAddresses": [{"ipAddress": "9.0.1.2"}]},
    {"id": "db.2", "host": "10.0.0.1", "state": "TASK_RUNNING"}
  ]}`
	oldApp = `{
  "id": "/old", "container": {"docker": {"network": "BRIDGE", "portMappings": [{"containerPort": 80, "servicePort": 9000, "protocol": "tcp"}]}},
  "tasks": [{"id": "old.1", "host": "10.141.141.10", "ports": [31000], "servicePorts": [9000]}]}`
)

func parse(t *testing.T, text string) *app {
	t.Helper()
	var a app
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatal(err)
	}
	return &a
}

func TestHostMode(t *testing.T) {
	got := newService(parse(t, hostApp), "", "marathon.mesos")
	labels := map[string]string{"version": "v1", "HAPROXY_0_VHOST": "web.example.com"}
	ports := map[string]uint32{"http": 31000, "admin": 31002}
	want := adapter.Service{
		ServiceKey: adapter.ServiceKey{Name: "/shop/web"}, Hosts: []string{"web-shop.marathon.mesos"},
		Ports: []adapter.Port{{Name: "http", Number: 10000, Protocol: "HTTP"}, {Name: "admin", Number: 10002, Protocol: "GRPC"}},
		Instances: []adapter.Instance{
			{ID: "web.1", Address: "10.0.0.1", Ports: ports, Labels: labels, Locality: "us-west-2/us-west-2b"},
			{ID: "web.2", Address: "10.0.0.2", Ports: ports, Labels: labels, Health: adapter.Unhealthy},
			{ID: "web.3", Address: "10.0.0.3", Ports: ports, Labels: labels, Health: adapter.Unhealthy},
			{ID: "web.5", Address: "10.0.0.5", Ports: ports, Labels: labels, Health: adapter.Draining},
			{ID: "web.6", Address: "10.0.0.6", Ports: ports, Labels: labels, Health: adapter.Unhealthy},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOtherModes(t *testing.T) {
	for text, want := range map[string]adapter.Instance{
		bridgeApp:    {ID: "api.1", Address: "10.0.0.1", Ports: map[string]uint32{"http": 31005}, Labels: map[string]string{}},
		containerApp: {ID: "db.1", Address: "9.0.1.2", Ports: map[string]uint32{"mysql": 3306}, Labels: map[string]string{}},
		oldApp:       {ID: "old.1", Address: "10.141.141.10", Ports: map[string]uint32{"port-0": 31000}, Labels: map[string]string{}},
	} {
		got := newService(parse(t, text), "", "marathon.mesos")
		if diff := cmp.Diff([]adapter.Instance{want}, got.Instances); diff != "" {
			t.Errorf("%s: %s", got.Name, diff)
		}
	}
	if got := newService(parse(t, bridgeApp), "", "x").Ports[0].Number; got != 10010 {
		t.Errorf("callers of /api use port %d", got)
	}
	if got := newService(parse(t, containerApp), "", "x").Ports[0]; got.Number != 3306 || got.Protocol != "MYSQL" {
		t.Errorf("callers of /db use port %+v", got)
	}
}

// FuzzApp converts arbitrary applications. None may panic, or have instances that lack a port.
func FuzzApp(f *testing.F) {
	for _, text := range []string{hostApp, bridgeApp, containerApp, oldApp, `{"id": "//"}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var a app
		if json.Unmarshal(text, &a) != nil {
			return
		}
		s := newService(&a, "", "marathon.mesos")
		for _, i := range s.Instances {
			if len(i.Ports) != len(s.Ports) || i.Address == "" {
				t.Errorf("instance %+v of a service with the ports %+v", i, s.Ports)
			}
		}
		_, _ = adapter.NewEntries("Marathon", s) // problems are expected
	})
}
