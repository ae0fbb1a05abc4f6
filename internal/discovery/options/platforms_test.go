package options

import (
	"fmt"
	"strings"
	"testing"
)

// TestRegistriesInAnyCombination validates the settings of all platforms together, without and with a mistake.
func TestRegistriesInAnyCombination(t *testing.T) {
	o := Defaults()
	o.Registries = []string{"Kubernetes", "Consul", "CloudFoundry", "ZooKeeper", "Eureka", "Nomad", "Nacos", "Mock"}
	if got := o.RegistryNames(); len(got) != len(o.Registries) {
		t.Fatalf("the registries are %v", got)
	}
	o.Kubernetes.Kubeconfig = "kubeconfig"
	o.Consul.URL = "http://127.0.0.1:8500"
	p := &o.Platforms
	p.CloudFoundry.Servers = []string{"nats://127.0.0.1:4222"}
	p.ZooKeeper.Servers = []string{"127.0.0.1:2181"}
	p.Eureka.URLs = []string{"http://127.0.0.1:8761/eureka"}
	p.Nomad.Addresses = []string{"http://127.0.0.1:4646"}
	p.Nacos.Servers = []string{"127.0.0.1:8848"}
	p.Mock.Dir = t.TempDir()
	if err := o.Validate(); err != nil {
		t.Errorf("error %v for valid settings", err)
	}
	p.Nacos.Servers, p.Nomad.CertFile = nil, "cert.pem"
	const want = "--nacosServers: must name a server\n--nomadCertFile, --nomadKeyFile: one needs the other"
	if got := fmt.Sprint(o.Validate()); strings.TrimSpace(got) != want {
		t.Errorf("error %q, want %q", got, want)
	}
}
