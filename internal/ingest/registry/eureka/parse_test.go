package eureka

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// recorded returns a recorded answer of a real server.
func recorded(t testing.TB, name string) answer {
	t.Helper()
	body, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	a, err := parse(body)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// describe returns the services of a table: "80.web.service.eureka: 192.0.2.1:8080=draining".
func describe(tb *table) string {
	settings := DefaultSettings()
	services, problems := settings.services(tb)
	var lines []string
	for _, key := range slices.SortedFunc(maps.Keys(services), adapter.ServiceKey.Compare) {
		s := services[key]
		text := key.Name + " " + s.Ports[0].Protocol + ":"
		for _, i := range s.Instances {
			text += fmt.Sprintf(" %s:%d", i.Address, i.Ports[s.Ports[0].Name])
			if i.Health != adapter.Healthy {
				text += "=" + i.Health.String()
			}
		}
		if err := problems[key]; err != nil {
			text += "\n  " + err.Error()
		}
		lines = append(lines, text)
	}
	return strings.Join(lines, "\n")
}

// TestRecordedAnswers applies a recorded list and the recorded changes after it.
func TestRecordedAnswers(t *testing.T) {
	tb := newTable()
	tb.applyList(recorded(t, "apps.json").instances, time.Unix(0, 0))
	if got, want := tb.hash(), recorded(t, "apps.json").hash; got != want {
		t.Errorf("hash code %s, the server's is %s", got, want)
	}
	want := "443.orders.service.eureka HTTPS: 192.0.2.2:8443=draining\n" +
		"80.orders.service.eureka HTTP: 192.0.2.1:8080 192.0.2.2:8080=draining\n" +
		"  instance 192.0.2.2:orders:8080 has protocol HTTP2 for port 80, and other instances have HTTP\n" +
		"80.people.service.eureka HTTP: 192.0.2.3:9090=unhealthy\n" +
		"80.users.service.eureka HTTP: 192.0.2.3:9090=unhealthy"
	if got := describe(tb); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	changes := recorded(t, "delta.json")
	if got := slices.Sorted(maps.Keys(tb.applyDelta(changes.instances))); !slices.Equal(got, []string{"ORDERS", "USERS"}) {
		t.Errorf("changed applications %v", got)
	}
	if got, want := tb.hash(), changes.hash; got != want {
		t.Errorf("hash code %s, the server's is %s", got, want)
	}
	want = "80.orders.service.eureka HTTP: 192.0.2.1:8080\n80.people.service.eureka HTTP: 192.0.2.3:9090\n80.users.service.eureka HTTP: 192.0.2.3:9090"
	if got := describe(tb); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if changed := tb.applyDelta(changes.instances); len(changed) > 0 {
		t.Errorf("the same changes again changed %v", changed)
	}
}

func TestConvert(t *testing.T) {
	settings := DefaultSettings()
	var got []adapter.Service
	for _, i := range recorded(t, "apps.json").instances[1:] {
		list, err := settings.convert(&i)
		if err != nil {
			t.Error(err)
		}
		got = append(got, list...)
	}
	service := func(name string, i adapter.Instance) adapter.Service {
		host := name + ".service.eureka"
		return adapter.Service{
			ServiceKey: adapter.ServiceKey{Namespace: "default", Name: "80." + host}, Hosts: []string{host},
			Ports: []adapter.Port{{Name: "http-80", Number: 80, Protocol: "HTTP"}}, Instances: []adapter.Instance{i},
		}
	}
	orders := adapter.Instance{
		ID: "192.0.2.1:orders:8080", Address: "192.0.2.1", Ports: map[string]uint32{"http-80": 8080},
		Labels: map[string]string{"version": "v1"}, Locality: "default/a",
	}
	users := adapter.Instance{
		ID: "i-1", Address: "192.0.2.3", Ports: map[string]uint32{"http-80": 9090}, Locality: "default/us-east-1c", Health: adapter.Unhealthy,
	}
	if diff := cmp.Diff([]adapter.Service{service("orders", orders), service("users", users), service("people", users)}, got); diff != "" {
		t.Error(diff)
	}
}

func TestParse(t *testing.T) {
	const one = `{"applications":{"apps__hashcode":"UP_1_","application":{"name":"web","instance":{"hostName":"host.example",
		"port":{"$":"8080","@enabled":true},"securePort":{"$":99999,"@enabled":"true"},"status":"UP","metadata":{"a":1,"b":{"c":"d"}},
		"leaseInfo":{"durationInSecs":30},"vipAddress":"${name},web:80, Web2"}}}}`
	a, err := parse([]byte(one))
	if err != nil {
		t.Fatal(err)
	}
	want := answer{hash: "UP_1_", instances: []instance{{
		App: "WEB", ID: "host.example", HostName: "host.example", Port: 8080, Status: "UP", VIP: "${name},web:80, Web2",
		Metadata: textMap{"a": "1"}, Lease: lease{30},
	}}}
	if diff := cmp.Diff(want, a, cmp.AllowUnexported(answer{}, instance{})); diff != "" {
		t.Error(diff)
	}
	if got := names(a.instances[0].App, a.instances[0].VIP); !slices.Equal(got, []string{"web", "web2"}) {
		t.Errorf("names %v", got)
	}
	for body, want := range map[string]string{
		"":   "the answer is not JSON of Eureka",
		"[]": "the answer is not JSON of Eureka",
		"{}": "the answer has no applications",
		`{"applications":{"application":[{"name":"","instance":[{"instanceId":"x"}]}]}}`:    "an instance has no application or no ID",
		`{"applications":{"application":[{"name":"web","instance":[{"ipAddr":"x"}]}]}}`:     "an instance has no application or no ID",
		`{"applications":{"application":[{"name":"web","instance":[{"status":"UP"}, 5]}]}}`: "the answer is not JSON of Eureka",
	} {
		if _, err := parse([]byte(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", body, err, want)
		}
	}
}

// TestHeldInstances lists fewer instances than before without reporting their removal.
func TestHeldInstances(t *testing.T) {
	at := func(minutes int) time.Time { return time.Unix(int64(minutes)*60, 0) }
	up := func(ids ...string) (list []instance) {
		for _, id := range ids {
			list = append(list, instance{App: "WEB", ID: id, IP: "192.0.2.1", Port: 8080, Status: "UP"})
		}
		return list
	}
	tb := newTable()
	check := func(ids string, held int) {
		t.Helper()
		var list []string
		for k := range tb.instances {
			list = append(list, k.id)
		}
		slices.Sort(list)
		if got := strings.Join(list, " "); got != ids || tb.held() != held {
			t.Errorf("instances %s, %d held; want %s, %d", got, tb.held(), ids, held)
		}
		settings, reported := DefaultSettings(), 0
		services, _ := settings.services(tb)
		for _, i := range services[adapter.ServiceKey{Namespace: "default", Name: "80.web.service.eureka"}].Instances {
			if i.Held {
				reported++
			}
		}
		if reported != held {
			t.Errorf("%d instances are reported as held, want %d", reported, held)
		}
	}
	tb.applyList(up("a", "b", "c", "d"), at(0))
	check("a b c d", 0)
	tb.applyList(nil, at(1)) // a server that has restarted
	check("a b c d", 4)
	tb.expire(at(100))
	check("a b c d", 4)
	tb.applyList(up("a"), at(101))
	tb.expire(at(101))
	check("a b c d", 3)
	deleted := up("b")
	deleted[0].Action = actionDeleted
	tb.applyDelta(deleted)
	check("a c d", 2)
	tb.applyList(up("a", "c"), at(102))
	check("a c", 0) // most are back, and the lease of d has passed
	tb.applyList(up("a", "c", "e"), at(103))
	tb.applyList(up("a", "e"), at(104))
	check("a c e", 1)
	tb.expire(at(105))
	check("a c e", 1)
	tb.expire(at(106))
	check("a e", 0)
}

func TestSettings(t *testing.T) {
	for _, x := range []struct {
		edit func(*Settings)
		want string
	}{
		{func(*Settings) {}, ""},
		{func(s *Settings) { s.URLs = nil }, "--eurekaServiceURLs: must name a server"},
		{func(s *Settings) { s.URLs = []string{"http://u:p@a/"} }, "--eurekaServiceURLs \"http://u:p@a/\": want http://host:port/path or https://host:port/path"},
		{func(s *Settings) { s.Interval = 0 }, "--eurekaInterval 0s: must be positive"},
		{func(s *Settings) { s.CertFile = "x" }, "--eurekaCertFile, --eurekaKeyFile: one needs the other"},
	} {
		s := DefaultSettings()
		s.URLs = []string{"http://127.0.0.1:8761/eureka"}
		x.edit(&s)
		got := ""
		if err := s.Validate(); err != nil {
			got = err.Error()
		}
		if got != x.want {
			t.Errorf("%q, want %q", got, x.want)
		}
	}
}
