package config_test

import (
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// TestMeshConfigThatWouldBreakTheMesh shows that such a text is refused with its field, so that the last good one stays.
func TestMeshConfigThatWouldBreakTheMesh(t *testing.T) {
	for text, want := range map[string]string{
		"proxyListenPort: 70000":                                    "mesh config: proxyListenPort: port 70000 is not in the range 1..65535",
		"proxyInboundListenPort: -1":                                "mesh config: proxyInboundListenPort: port -1 is not in the range 1..65535",
		"proxyHttpPort: 99999":                                      "mesh config: proxyHttpPort: port 99999 is not in the range 1..65535",
		"connectTimeout: 0s":                                        "mesh config: connectTimeout: must be at least 1ms",
		"connectTimeout: -5s":                                       "mesh config: connectTimeout: -5s is negative",
		"dnsRefreshRate: 0s":                                        "mesh config: dnsRefreshRate: must be at least 1ms",
		"protocolDetectionTimeout: -1s":                             "mesh config: protocolDetectionTimeout: -1s is negative",
		"trustDomain: a b/c":                                        `mesh config: trustDomain: "a b/c" is not a trust domain: want a name such as example.com`,
		`trustDomain: ""`:                                           `mesh config: trustDomain: "" is not a trust domain: want a name such as example.com`,
		"trustDomainAliases: [ok_1, x/y]":                           `mesh config: trustDomainAliases[1]: "x/y" is not a trust domain: want a name such as example.com`,
		"defaultConfig: {statusPort: 1e6}":                          "mesh config: defaultConfig.statusPort: port 1000000 is not in the range 1..65535",
		"defaultConfig: {concurrency: -1}":                          "mesh config: defaultConfig.concurrency: -1 is negative",
		"defaultConfig: {proxyAdminPort: 0}":                        "mesh config: defaultConfig.proxyAdminPort: port 0 is not in the range 1..65535",
		"localityLbSetting: {distribute: [{from: a, to: {b: 50}}]}": "mesh config: localityLbSetting.distribute[0].to: the weights add up to 50, they must add up to 100",
		"serviceSettings: [{hosts: [a_*b]}]":                        `mesh config: serviceSettings[0].hosts[0]: "a_*b" is not a host name: "a_*b" must be 1 to 63 letters, digits or "-", beginning and ending with a letter or digit`,
	} {
		if _, err := mesh.ParseMeshConfig([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestMeshConfigsThatCount(t *testing.T) {
	for _, text := range []string{
		"", "protocolDetectionTimeout: 0s", "proxyHttpPort: 0", "trustDomain: td1", "trustDomain: My.Example_1.com", "defaultConfig: {statusPort: 0, concurrency: 0, drainDuration: 0s}",
		"localityLbSetting: {failover: [{from: a, to: b}]}", `serviceSettings: [{hosts: ["*.svc.cluster.local", "*"]}]`,
		"extensionProviders: [{name: x, zipkin: {service: z, port: 70000}}]", // is left out where it is used, and reported
	} {
		if _, err := mesh.ParseMeshConfig([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
