package environment

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// defaults returns the Environment of no variables.
func defaults() Environment {
	return Environment{
		DeltaXDS: true, RunEnvoy: true, MinimumDrainDuration: 5 * time.Second, TerminationDrainDuration: -1,
		EnvoyStatusPort: 15021, EnvoyPrometheusPort: 15090, Metadata: map[string]any{},
		Security: Security{
			CertProvider: "istiod", MeshRoots: "./var/run/secrets/istio/root-cert.pem", Token: "./var/run/secrets/tokens/istio-token", TokenForCSR: true,
			TrustDomain: "cluster.local", Lifetime: 24 * time.Hour, GraceRatio: 0.5, GraceJitter: 0.01, Curve: "P256",
			FileSettle: 100 * time.Millisecond, Socket: "socket",
		},
		DNS:  DNS{Address: "localhost:15053", Timeout: 5 * time.Second},
		Wasm: Wasm{Expiry: 24 * time.Hour, PurgeInterval: time.Hour, Timeout: 15 * time.Second, Retries: 5},
		XDS:  XDS{ViaAgent: true, DebugPort: 15004, ProxyConfig: true, ConvertWasm: true},
	}
}

func TestParse(t *testing.T) {
	tests := []struct {
		name string
		vars []string
		want func(*Environment)
	}{
		{"nothing", nil, func(*Environment) {}},
		{"empty values are as good as none", []string{"INSTANCE_IP=", "DISABLE_ENVOY= ", "ENVOY_STATUS_PORT="}, func(*Environment) {}},
		{"identity", []string{"POD_NAME=a-1", "POD_NAMESPACE=ns", "SERVICE_ACCOUNT=sa"}, func(e *Environment) {
			e.PodName, e.PodNamespace, e.ServiceAccount = "a-1", "ns", "sa"
		}},
		{"addresses", []string{"INSTANCE_IP=10.0.0.1", "INSTANCE_IPS=10.0.0.1, fd00::1", "HOST_IP=192.0.2.1"}, func(e *Environment) {
			e.InstanceIP = netip.MustParseAddr("10.0.0.1")
			e.InstanceIPs = []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}
			e.HostIP = "192.0.2.1"
		}},
		{"IPv4 in IPv6 is IPv4", []string{"INSTANCE_IP=::ffff:10.0.0.1"}, func(e *Environment) { e.InstanceIP = netip.MustParseAddr("10.0.0.1") }},
		{"addresses as metadata", []string{"ISTIO_META_INSTANCE_IPS=10.0.0.1"}, func(e *Environment) {
			e.InstanceIPs = []netip.Addr{netip.MustParseAddr("10.0.0.1")}
			e.Metadata = map[string]any{"INSTANCE_IPS": "10.0.0.1"}
		}},
		{"draining", []string{"EXIT_ON_ZERO_ACTIVE_CONNECTIONS=true", "MINIMUM_DRAIN_DURATION=1m", "TERMINATION_DRAIN_DURATION_SECONDS=0"}, func(e *Environment) {
			e.ExitOnZeroActiveConnections, e.MinimumDrainDuration, e.TerminationDrainDuration = true, time.Minute, 0
		}},
		{"switches", []string{"DISABLE_ENVOY=1", "ENVOY_SKIP_DEPRECATED_LOGS=false", "ISTIO_DELTA_XDS=false", "MESHPILOT_HOT_RESTART=true"}, func(e *Environment) {
			e.HotRestart = true
			e.RunEnvoy, e.LogDeprecations, e.DeltaXDS = false, true, false
		}},
		{"bootstrap", []string{"ISTIO_BOOTSTRAP=/t", "ISTIO_BOOTSTRAP_OVERRIDE=/o"}, func(e *Environment) { e.BootstrapTemplate, e.BootstrapOverride = "/t", "/o" }},
		{"whole cores", []string{"ISTIO_CPU_LIMIT=2"}, func(e *Environment) { e.CPULimit = 2 }},
		{"parts of cores, rounded up", []string{"ISTIO_CPU_LIMIT=100m"}, func(e *Environment) { e.CPULimit = 1 }},
		{"DNS", []string{"ISTIO_META_DNS_CAPTURE=true", "ISTIO_META_ENABLE_DNS_SERVER=1", "DNS_PROXY_ADDR=0.0.0.0:53", "DNS_FORWARD_PARALLEL=true", "DNS_FORWARD_TIMEOUT=1s"}, func(e *Environment) {
			e.DNS = DNS{Capture: true, Serve: true, Address: "0.0.0.0:53", Parallel: true, Timeout: time.Second}
			e.Metadata = map[string]any{"DNS_CAPTURE": "true", "ENABLE_DNS_SERVER": "1"}
		}},
		{"Wasm", []string{"WASM_INSECURE_REGISTRIES=a:5000, b", "WASM_MODULE_EXPIRY=1h", "WASM_PURGE_INTERVAL=1m", "WASM_HTTP_REQUEST_TIMEOUT=1s", "WASM_HTTP_REQUEST_MAX_RETRIES=0"}, func(e *Environment) {
			e.Wasm = Wasm{InsecureRegistries: []string{"a:5000", "b"}, Expiry: time.Hour, PurgeInterval: time.Minute, Timeout: time.Second}
		}},
		{"Wasm durations of 0", []string{"WASM_MODULE_EXPIRY=0s", "WASM_PURGE_INTERVAL=0s", "WASM_HTTP_REQUEST_TIMEOUT=0s"}, func(*Environment) {}},
		{"beside gRPC without a proxy", []string{"ISTIO_META_GENERATOR=grpc"}, func(e *Environment) {
			e.Metadata, e.XDS.GRPCBootstrap = map[string]any{"GENERATOR": "grpc"}, "./etc/istio/proxy/grpc-bootstrap.json"
		}},
		{"ports and mark", []string{"ENVOY_STATUS_PORT=1", "ENVOY_PROMETHEUS_PORT=65535", "MESHPILOT_SOCKET_MARK=0x539"}, func(e *Environment) {
			e.EnvoyStatusPort, e.EnvoyPrometheusPort, e.SocketMark = 1, 65535, 1337
		}},
		{"metadata; JSON overrides plain values, in the order of names", []string{
			"ISTIO_METAJSON_B={\"k\":\"b\"}", "ISTIO_METAJSON_A={\"k\":\"a\",\"x\":true}", "ISTIO_META_k=plain", "ISTIO_META_=", "ISTIO_METAJSON_N=7",
		}, func(e *Environment) { e.Metadata = map[string]any{"k": "b", "x": true, "N": float64(7)} }},
		{"container ports", []string{`ISTIO_META_POD_PORTS=[{"name":"http","containerPort":8080}]`}, func(e *Environment) {
			e.Metadata = map[string]any{"POD_PORTS": `[{"name":"http","containerPort":8080}]`}
		}},
		{"container ports that are no list", []string{"ISTIO_META_POD_PORTS=8080"}, func(e *Environment) {
			e.Metadata = map[string]any{"POD_PORTS": "8080"}
			e.Warnings = []string{`environment variable ISTIO_META_POD_PORTS: "8080" is not a list such as [{"containerPort": 8080}]; invalid ports are left out`}
		}},
		{"an invalid container port", []string{`ISTIO_METAJSON_X={"POD_PORTS":[{"containerPort":0}]}`}, func(e *Environment) {
			e.Metadata = map[string]any{"POD_PORTS": []any{map[string]any{"containerPort": float64(0)}}}
			e.Warnings = []string{`environment variable ISTIO_META_POD_PORTS: entry 0, "{\"containerPort\":0}", has no containerPort from 1 to 65535; invalid ports are left out`}
		}},
		{"labels and annotations", []string{`ISTIO_METAJSON_LABELS={"app":"a"}`, `ISTIO_METAJSON_ANNOTATIONS={"x/y":"z"}`}, func(e *Environment) {
			e.Labels, e.Annotations = map[string]string{"app": "a"}, map[string]string{"x/y": "z"}
		}},
		{"the application's metrics", []string{`ISTIO_PROMETHEUS_ANNOTATIONS={"scrape":"true","path":"m","port":"9080"}`}, func(e *Environment) {
			e.Applications = []Application{{Port: 9080, Path: "/m"}}
		}},
		{"several endpoints of the application", []string{
			`ISTIO_PROMETHEUS_ANNOTATIONS={"scrape":"","path":"/a","port":"8080","targets":[{"port":"8080","path":"/a"},{"port":"9090","path":"/metrics"}]}`,
		}, func(e *Environment) {
			e.Applications = []Application{{Port: 8080, Path: "/a"}, {Port: 9090, Path: "/metrics"}}
		}},
		{"the default endpoint of the application", []string{`ISTIO_PROMETHEUS_ANNOTATIONS={"scrape":"True","path":"","port":""}`}, func(e *Environment) {
			e.Applications = []Application{{Port: 80, Path: "/metrics"}}
		}},
		{"no metrics of the application", []string{`ISTIO_PROMETHEUS_ANNOTATIONS={"scrape":"false","path":"","port":"9080"}`}, func(*Environment) {}},
		{"parts that are switched off", []string{"ISTIO_META_DNS_CAPTURE=false", "FILE_MOUNTED_CERTS=false"}, func(e *Environment) {
			e.Metadata = map[string]any{"DNS_CAPTURE": "false"}
		}},
		{"variables of every pod", []string{"PILOT_CERT_PROVIDER=istiod", "CA_ADDR=istiod:15012", "JWT_POLICY=third-party-jwt", "CA_PROVIDER=Citadel"}, func(e *Environment) {
			e.Security.CAAddress = "istiod:15012"
		}},
		{"Istio's old tokens are its new ones", []string{"JWT_POLICY=first-party-jwt"}, func(*Environment) {}},
		{"no token", []string{"JWT_POLICY=none", "USE_TOKEN_FOR_CSR=false"}, func(e *Environment) { e.Security.Token, e.Security.TokenForCSR = "", false }},
		{"a virtual machine", []string{"PROV_CERT=/etc/certs", "OUTPUT_CERTS=/etc/certs", "ISTIOD_SAN=istiod.istio-system.svc", "CA_ROOT_CA=SYSTEM", "XDS_ROOT_CA=/r"}, func(e *Environment) {
			s := &e.Security
			s.ProvisionedDir, s.OutputDir, s.ServerName, s.CARoots, s.XDSRoots = "/etc/certs", "/etc/certs", "istiod.istio-system.svc", "SYSTEM", "/r"
		}},
		{"mounted certificates", []string{"FILE_MOUNTED_CERTS=true", "ISTIO_META_TLS_CLIENT_CERT_CHAIN=/c", "ISTIO_META_TLS_CLIENT_KEY=/k", "ISTIO_META_TLS_CLIENT_ROOT_CERT=/r"}, func(e *Environment) {
			e.Security.FileMounted, e.Security.ClientFiles = true, CertificateFiles{Chain: "/c", Key: "/k", Roots: "/r"}
			e.Metadata = map[string]any{"TLS_CLIENT_CERT_CHAIN": "/c", "TLS_CLIENT_KEY": "/k", "TLS_CLIENT_ROOT_CERT": "/r"}
		}},
		{"RSA keys", []string{"WORKLOAD_RSA_KEY_SIZE=4096", "PKCS8_KEY=true"}, func(e *Environment) { e.Security.RSABits, e.Security.PKCS8 = 4096, true }},
		{"elliptic curves take precedence over RSA", []string{"WORKLOAD_RSA_KEY_SIZE=4096", "ECC_SIGNATURE_ALGORITHM=ECDSA", "ECC_CURVE=P384"}, func(e *Environment) { e.Security.Curve = "P384" }},
		{"lifetimes", []string{"SECRET_TTL=1h", "SECRET_GRACE_PERIOD_RATIO=0.2", "SECRET_GRACE_PERIOD_RATIO_JITTER=0"}, func(e *Environment) {
			e.Security.Lifetime, e.Security.GraceRatio, e.Security.GraceJitter = time.Hour, 0.2, 0
		}},
		{"metadata of calls", []string{"XDS_HEADER_A=1", "CA_HEADER_b=2", "CA_HEADER_="}, func(e *Environment) {
			e.Security.XDSHeaders, e.Security.CAHeaders = map[string]string{"A": "1"}, map[string]string{"b": "2"}
		}},
		{"straight to the control plane", []string{"PROXY_XDS_VIA_AGENT=false", "PROXY_XDS_DEBUG_VIA_AGENT=false"}, func(e *Environment) { e.XDS.ViaAgent, e.XDS.DebugPort = false, 0 }},
		{"metrics for this host alone", []string{"METRICS_LOCALHOST_ACCESS_ONLY=true"}, func(e *Environment) { e.MetricsLocalhostOnly = true }},
		{"values of another type", []string{
			"DISABLE_ENVOY=perhaps", "PROXY_XDS_VIA_AGENT=off", "MINIMUM_DRAIN_DURATION=5", "FILE_DEBOUNCE_DURATION=-1s", "TERMINATION_DRAIN_DURATION_SECONDS=5s",
			"ISTIO_CPU_LIMIT=half", "MESHPILOT_SOCKET_MARK=-1", "ENVOY_STATUS_PORT=status", "ENVOY_SECURE_METRICS_PORT=tls", "SECRET_GRACE_PERIOD_RATIO=half",
		}, func(e *Environment) {
			e.Warnings = []string{
				`environment variable DISABLE_ENVOY: "perhaps" is not true or false, and is ignored`,
				`environment variable MINIMUM_DRAIN_DURATION: "5" is not a duration such as 5s, and is ignored`,
				`environment variable TERMINATION_DRAIN_DURATION_SECONDS: "5s" is not a number of seconds, and is ignored`,
				`environment variable ISTIO_CPU_LIMIT: "half" is not a number of cores, and is ignored`,
				`environment variable MESHPILOT_SOCKET_MARK: "-1" is not a number of at most 32 bits, and is ignored`,
				`environment variable ENVOY_STATUS_PORT: "status" is not a number of at most 32 bits, and is ignored`,
				`environment variable ENVOY_SECURE_METRICS_PORT: "tls" is not a number of at most 32 bits, and is ignored`,
				`environment variable SECRET_GRACE_PERIOD_RATIO: "half" is not a number, and is ignored`,
				`environment variable FILE_DEBOUNCE_DURATION: "-1s" is not a duration such as 5s, and is ignored`,
				`environment variable PROXY_XDS_VIA_AGENT: "off" is not true or false, and is ignored`,
			}
		}},
		{"the last of several values is used", []string{"POD_NAME=a", "POD_NAME=b", "not a variable"}, func(e *Environment) { e.PodName = "b" }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := Parse(ParseList(test.vars))
			if err != nil {
				t.Fatal(err)
			}
			want := defaults()
			test.want(&want)
			if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestParseErrors tests errors that the command line tests do not cover, and that all are reported
// at once.
func TestParseErrors(t *testing.T) {
	_, err := Parse(Variables{"INSTANCE_IPS": "10.0.0.1,x", "HOST_IP": "node", "ENVOY_PROMETHEUS_PORT": "0", "PROV_CERT": "/etc/certs", "FILE_MOUNTED_CERTS": "1",
		"ECC_SIGNATURE_ALGORITHM": "RSA", "ECC_CURVE": "P521", "WORKLOAD_RSA_KEY_SIZE": "1024", "CA_PROVIDER": "GoogleCA", "SECRET_TTL": "1ms",
		"SECRET_GRACE_PERIOD_RATIO": "1", "SECRET_GRACE_PERIOD_RATIO_JITTER": "NaN", "WORKLOAD_IDENTITY_SOCKET_FILE": "../socket",
		"DNS_PROXY_ADDR": "localhost", "DNS_FORWARD_TIMEOUT": "0s",
	})
	for _, want := range []string{
		`environment variable INSTANCE_IPS: "x" is not an IP address`,
		`environment variable HOST_IP: "node" is not an IP address`,
		`environment variable ENVOY_PROMETHEUS_PORT: 0 is not a port`,
		`environment variable PROV_CERT: conflicts with FILE_MOUNTED_CERTS`,
		`environment variable ECC_SIGNATURE_ALGORITHM: unknown algorithm "RSA": want ECDSA`,
		`environment variable ECC_CURVE: "P521" is neither P256 nor P384`,
		`environment variable WORKLOAD_RSA_KEY_SIZE: 1024 bits: want 2048 to 8192`,
		`environment variable CA_PROVIDER: "GoogleCA" is not supported`,
		`environment variable DNS_PROXY_ADDR: "localhost" is not host:port`,
		`environment variable DNS_FORWARD_TIMEOUT: must be more than 0`,
		`environment variable SECRET_TTL: 1ms is less than a second`,
		`environment variable SECRET_GRACE_PERIOD_RATIO: 1 is not a ratio`,
		`environment variable SECRET_GRACE_PERIOD_RATIO_JITTER: NaN is not a ratio`,
		`environment variable WORKLOAD_IDENTITY_SOCKET_FILE: "../socket": want a file name, not a path`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nwant …%s…", err, want)
		}
	}
}

func TestWithDefaults(t *testing.T) {
	vars := Variables{"A": "own", "B": ""}
	got := vars.WithDefaults(map[string]string{"A": "default", "B": "default", "C": "default"})
	if diff := cmp.Diff(Variables{"A": "own", "B": "", "C": "default"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(vars) != 2 {
		t.Error("the variables themselves were changed")
	}
}
