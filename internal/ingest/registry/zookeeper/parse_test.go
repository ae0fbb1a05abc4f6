package zookeeper

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// providerNode is the name of a provider's node in the shape that Dubbo 3.2 writes.
const providerNode = "dubbo%3A%2F%2F192.0.2.1%3A20881%2Forg.apache.dubbo.demo.DemoService%3Fanyhost%3Dtrue%26application%3Ddemo-provider" +
	"%26deprecated%3Dfalse%26dubbo%3D2.0.2%26dynamic%3Dtrue%26generic%3Dfalse%26group%3Dblue%26interface%3Dorg.apache.dubbo.demo.DemoService" +
	"%26methods%3DsayHello%2CsayHelloAsync%26pid%3D21241%26release%3D3.2.0%26revision%3D1.0.0%26service-name-mapping%3Dtrue%26side%3Dprovider" +
	"%26timestamp%3D1681961137000%26version%3D1.0.0%26weight%3D200%26region%3Deu%26zone%3Da%26service-account%3Ddemo"

// springInstance and dubboInstance are contents of nodes in the shapes that Spring Cloud and Dubbo
// 3 write.
const (
	springInstance = `{"name":"orders","id":"9b2223ae-50e6-49a6-9f3b-87a1ff06a016","address":"192.0.2.3","port":8090,"sslPort":8443,` +
		`"payload":{"@class":"org.springframework.cloud.zookeeper.discovery.ZookeeperInstance","id":"orders-1","name":"orders",` +
		`"metadata":{"instance_status":"UP","version":"v2"}},"registrationTimeUTC":1558000134185,"serviceType":"DYNAMIC",` +
		`"uriSpec":{"parts":[{"value":"scheme","variable":true},{"value":"://","variable":false}]}}`
	dubboInstance = `{"name":"demo-provider","id":"192.0.2.4:20880","address":"192.0.2.4","port":20880,"sslPort":null,"payload":{` +
		`"@class":"org.apache.dubbo.registry.zookeeper.ZookeeperInstance","id":"192.0.2.4:20880","name":"demo-provider","metadata":{` +
		`"dubbo.endpoints":"[{\"port\":20880,\"protocol\":\"dubbo\"},{\"port\":50052,\"protocol\":\"tri\"}]",` +
		`"dubbo.metadata.revision":"a662fd2213a8a49dc6ff43a4c2ae7b9e","dubbo.metadata.storage-type":"local","timestamp":"1654916298616"}},` +
		`"registrationTimeUTC":1654917265499,"serviceType":"DYNAMIC","uriSpec":null}`
)

// text describes a registration and its error.
func text(r registration, err error) string {
	var lines []string
	for _, e := range r.endpoints {
		lines = append(lines, fmt.Sprintf("%s %s %d -> %s %s", e.name, e.protocol, e.number, e.id(), e.instance.Health))
	}
	if err != nil {
		lines = append(lines, strings.Split(err.Error(), "\n")...)
	}
	return strings.Join(lines, "\n")
}

func TestParseProvider(t *testing.T) {
	r, err := parseProvider(providerNode)
	want := registration{registered: 1681961137000, endpoints: []endpoint{{
		name: "g-blue.v-1-0-0.org.apache.dubbo.demo.demoservice.dubbo", number: 20880, protocol: "TCP", port: 20881,
		instance: adapter.Instance{
			Address: "192.0.2.1", Weight: 200, Locality: "eu/a", ServiceAccount: "demo",
			Labels: map[string]string{"application": "demo-provider", "group": "blue", "release": "3.2.0", "revision": "1.0.0", "version": "1.0.0"},
		},
	}}}
	if diff := cmp.Diff(want, r, cmp.AllowUnexported(registration{}, endpoint{})); diff != "" || err != nil {
		t.Errorf("error %v, difference:\n%s", err, diff)
	}
	for node, want := range map[string]string{
		"tri://192.0.2.1:50052/a.B":                              "a.b.dubbo GRPC 50051 -> 192.0.2.1:50052 healthy",
		"tri://192.0.2.1:50052/a.B?ssl-enabled=true":             "a.b.dubbo TLS 50051 -> 192.0.2.1:50052 healthy",
		"rest://192.0.2.1:8080/x/y?interface=a.B$C":              "a.b-c.dubbo HTTP 80 -> 192.0.2.1:8080 healthy",
		"rest://192.0.2.1:8080/a.B?service-port=81":              "a.b.dubbo HTTP 81 -> 192.0.2.1:8080 healthy",
		"dubbo://192.0.2.1:20880/a.B?protocol=mysql":             "a.b.dubbo MYSQL 20880 -> 192.0.2.1:20880 healthy",
		"dubbo://[2001:db8::1]:20880/a.B":                        "a.b.dubbo TCP 20880 -> [2001:db8::1]:20880 healthy",
		"dubbo://192.0.2.1:20880/a.B?version=0.0.0":              "a.b.dubbo TCP 20880 -> 192.0.2.1:20880 healthy",
		"dubbo://192.0.2.1:20880/a.B?disabled=true":              "a.b.dubbo TCP 20880 -> 192.0.2.1:20880 unhealthy",
		"dubbo://192.0.2.1:20880/a.B?enabled=false":              "a.b.dubbo TCP 20880 -> 192.0.2.1:20880 unhealthy",
		"dubbo://192.0.2.1:20880/a.B?weight=0":                   "a.b.dubbo TCP 20880 -> 192.0.2.1:20880 draining",
		"dubbo://192.0.2.1:20880/a.B?weight=x":                   "a.b.dubbo TCP 20880 -> 192.0.2.1:20880 healthy\nmetadata.weight: \"x\" is not a number",
		"dubbo://192.0.2.1:0/a.B":                                "\"0\" is not a port number",
		"dubbo://192.0.2.1/a.B":                                  "\"\" is not a port number",
		"dubbo://192.0.2.1:20880":                                "the URL has no interface",
		"override://0.0.0.0/a.B?category=configurators&weight=5": "category \"configurators\" is not \"providers\"",
		"%zz": "the name of the node is not an encoded URL",
		"x":   "the name of the node is not the URL of a provider",
	} {
		if got := text(parseProvider(node)); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", node, got, want)
		}
	}
}

func TestParseInstance(t *testing.T) {
	with := func(old, replacement string) string { return strings.Replace(springInstance, old, replacement, 1) }
	const plain, secure = "orders.service HTTP 80 -> 192.0.2.3:8090 ", "\norders.service HTTPS 443 -> 192.0.2.3:8443 "
	for _, x := range []struct{ service, content, want string }{
		{"Orders", springInstance, plain + "healthy" + secure + "healthy"},
		{"orders", with(`"UP"`, `"OUT_OF_SERVICE"`), plain + "draining" + secure + "draining"},
		{"orders", with(`"UP"`, `"DOWN"`), plain + "unhealthy" + secure + "unhealthy"},
		{"orders", with(`"port":8090`, `"enabled":false,"port":8090`), plain + "unhealthy" + secure + "unhealthy"},
		{"orders", with(`"sslPort":8443`, `"sslPort":8090`), plain + "healthy"},
		{"orders", with(`"sslPort":8443`, `"sslPort":-1`), plain + "healthy\nsslPort: -1 is not a port number"},
		{"orders", with(`"version"`, `"protocol":"grpc","service-port":"9000","x"`), "orders.service GRPC 9000 -> 192.0.2.3:8090 healthy" + secure + "healthy"},
		{"orders", `{"address":"192.0.2.3","port":8090,"payload":"text"}`, plain + "healthy"},
		{
			"demo-provider", dubboInstance,
			"demo-provider.service TCP 20880 -> 192.0.2.4:20880 healthy\ndemo-provider.service GRPC 50051 -> 192.0.2.4:50052 healthy",
		},
		{"d", strings.Replace(dubboInstance, "dubbo.endpoints", "dubbo.x", 1), "d.service TCP 20880 -> 192.0.2.4:20880 healthy"},
		{"d", strings.Replace(dubboInstance, `[{\"port\":20880`, `[{\"port\":0`, 1), "d.service GRPC 50051 -> 192.0.2.4:50052 healthy\nmetadata.dubbo.endpoints: 0 is not a port number"},
		{"d", strings.Replace(dubboInstance, `[{\"port`, `{\"port`, 1), "metadata.dubbo.endpoints: is not a list of ports"},
		{"orders", `{"address":"192.0.2.3"}`, "the instance has no port"},
		{"orders", `{}`, "the instance has no address"},
		{"orders", "", "the content of the node is not an instance of curator-x-discovery"},
	} {
		if got := text(parseInstance(x.service, []byte(x.content))); got != x.want {
			t.Errorf("%s:\n%s\nwant\n%s", x.content, got, x.want)
		}
	}
}

func TestServices(t *testing.T) {
	settings := DefaultSettings()
	node := &service{instances: map[string]*instance{}}
	node.set("a", mustParse(t, springInstance), 0, nil)
	// The same program, registered again before its former session has expired.
	again := strings.NewReplacer("8443", "null", "1558000134185", "1558000134186", "v2", "v3").Replace(springInstance)
	node.set("b", mustParse(t, again), 0, nil)
	node.set("c", mustParse(t, strings.NewReplacer("8443", "null", ".3", ".5", `"version"`, `"protocol":"grpc","x"`).Replace(springInstance)), 0, nil)
	got, err := settings.adapterServices(node, 0)
	const text = "instance 192.0.2.5:8090 has protocol GRPC and instance 192.0.2.3:8090 has protocol HTTP for port 80; proxies use HTTP"
	if err == nil || err.Error() != text {
		t.Errorf("error %v", err)
	}
	key := func(name string) adapter.ServiceKey { return adapter.ServiceKey{Namespace: "default", Name: name} }
	hosts := []string{"orders.service.zookeeper"}
	want := map[adapter.ServiceKey]adapter.Service{
		key("80.orders.service.zookeeper"): {
			ServiceKey: key("80.orders.service.zookeeper"), Hosts: hosts, Ports: []adapter.Port{{Name: "http-80", Number: 80, Protocol: "HTTP"}},
			Instances: []adapter.Instance{
				{ID: "192.0.2.3:8090", Address: "192.0.2.3", Ports: map[string]uint32{"http-80": 8090}, Labels: map[string]string{"version": "v3"}},
				{ID: "192.0.2.5:8090", Address: "192.0.2.5", Ports: map[string]uint32{"http-80": 8090}, Labels: map[string]string{"x": "v2"}},
			},
		},
		key("443.orders.service.zookeeper"): {
			ServiceKey: key("443.orders.service.zookeeper"), Hosts: hosts, Ports: []adapter.Port{{Name: "https-443", Number: 443, Protocol: "HTTPS"}},
			Instances: []adapter.Instance{
				{ID: "192.0.2.3:8443", Address: "192.0.2.3", Ports: map[string]uint32{"https-443": 8443}, Labels: map[string]string{"version": "v2"}},
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for generation, held := range []bool{false, true} { // the second one, after the servers lost their data
		services, _ := settings.adapterServices(node, uint64(generation))
		for _, s := range services {
			for _, i := range s.Instances {
				if i.Held != held {
					t.Errorf("generation %d: instance %s is held: %t", generation, i.ID, i.Held)
				}
			}
		}
	}
}

func mustParse(t *testing.T, content string) registration {
	t.Helper()
	r, err := parseInstance("orders", []byte(content))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSettings(t *testing.T) {
	for _, x := range []struct {
		edit func(*Settings)
		want string
	}{
		{func(*Settings) {}, ""},
		{func(s *Settings) { s.Servers = nil }, "--zookeeperServers: must name a server"},
		{func(s *Settings) { s.Servers = []string{"a"} }, "--zookeeperServers \"a\": want host:port"},
		{func(s *Settings) { s.SessionTimeout = 1 }, "--zookeeperSessionTimeout 1ns: must be at least 1s"},
		{func(s *Settings) { s.DubboRoot = "dubbo" }, "--zookeeperDubboRoot \"dubbo\": want a path such as /name without a slash at its end"},
		{
			func(s *Settings) { s.DubboRoot, s.ServicesRoot = "dubbo", "services/" },
			"--zookeeperDubboRoot \"dubbo\": want a path such as /name without a slash at its end\n" +
				"--zookeeperServicesRoot \"services/\": want a path such as /name without a slash at its end",
		},
		{func(s *Settings) { s.DubboRoot, s.ServicesRoot = "", "" }, "--zookeeperDubboRoot, --zookeeperServicesRoot: one must not be empty"},
		{func(s *Settings) { s.DubboRoot = "/services/dubbo" }, "--zookeeperDubboRoot, --zookeeperServicesRoot: one must not contain the other"},
		{
			func(s *Settings) { s.CertFile = "x" },
			"--zookeeperCAFile, --zookeeperCertFile, --zookeeperKeyFile, --zookeeperServerName: need --zookeeperTLS\n" +
				"--zookeeperCertFile, --zookeeperKeyFile: one needs the other",
		},
	} {
		s := DefaultSettings()
		s.Servers = []string{"127.0.0.1:2181"}
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
