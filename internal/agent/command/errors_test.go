package command

import (
	"slices"
	"strings"
	"testing"
)

// TestErrors tests that user errors are reported before anything starts, and name the variable,
// field, annotation, flag or file.
func TestErrors(t *testing.T) {
	const plaintext = `"discoveryAddress":"istiod:15010","controlPlaneAuthPolicy":"NONE"`
	tests := []struct {
		name  string
		env   string   // variables added to, or replacing, those of a valid sidecar, by lines
		args  string   // after "proxy"
		files []string // name, content, …
		want  []string // parts of the error, in their order
	}{
		{name: "no identity", env: "POD_NAME=\nPOD_NAMESPACE=", want: []string{
			"environment variable POD_NAME: must be set", "environment variable POD_NAMESPACE: must be set",
		}},
		{name: "TLS without the agent", env: "PROXY_CONFIG=\nPROXY_XDS_VIA_AGENT=false", want: []string{
			"control plane istiod.istio-system.svc:15012 (controlPlaneAuthPolicy MUTUAL_TLS): TLS requires the agent as xDS proxy, but PROXY_XDS_VIA_AGENT=false; set discoveryAddress to the plaintext port (15010)",
		}},
		{name: "the TLS port without the agent", env: `PROXY_CONFIG={"discoveryAddress":"istiod:15012","controlPlaneAuthPolicy":"NONE"}` + "\nPROXY_XDS_VIA_AGENT=false", want: []string{"control plane istiod:15012", "TLS requires the agent"}},
		{name: "fields of ProxyConfig", env: `PROXY_CONFIG={"concurrency":"x","drainDuration":"soon"}`, want: []string{
			`proxy configuration from PROXY_CONFIG: concurrency: must be a whole number, found the string "x"`, `drainDuration: "soon" is not a duration`,
		}},
		{name: "values of ProxyConfig", env: `PROXY_CONFIG={"discoveryAddress":"istiod","statusPort":0}`, want: []string{
			`proxy configuration field "statusPort": 0 is not a port`, `proxy configuration field "discoveryAddress": "istiod" is not host:port`,
		}},
		{name: "the pod's annotation", files: []string{"etc/istio/pod/annotations", `proxy.istio.io/config="drainDuration: 1"`}, want: []string{
			`proxy configuration from annotation proxy.istio.io/config: drainDuration: must be a duration in quotes`,
		}},
		{name: "the mesh configuration", files: []string{"etc/istio/config/mesh", "defaultConfig: {a: b"}, want: []string{"parse ./etc/istio/config/mesh: "}},
		{name: "a field of the mesh configuration", files: []string{"etc/istio/config/mesh", "defaultConfig: {statusPort: b}"}, want: []string{
			`proxy configuration from ./etc/istio/config/mesh (defaultConfig): statusPort: must be a whole number`,
		}},
		{name: "a labels file", files: []string{"etc/istio/pod/labels", "app=\"a\"\nversion=v1\n"}, want: []string{
			`read downward API file "./etc/istio/pod/labels": line 2: value of "version" is not a quoted string`,
		}},
		{name: "values of variables", env: "INSTANCE_IP=here\nENVOY_STATUS_PORT=0", want: []string{
			`environment variable INSTANCE_IP: "here" is not an IP address`,
			`environment variable ENVOY_STATUS_PORT: 0 is not a port`,
		}},
		{name: "JSON in variables", env: "ISTIO_METAJSON_LABELS=[1]\nISTIO_METAJSON_X={", want: []string{
			"environment variable ISTIO_METAJSON_LABELS: want a JSON object of strings: ", "environment variable ISTIO_METAJSON_X: invalid JSON: ",
		}},
		{name: "a value of the metadata", env: "ISTIO_METAJSON_A={\"WORKLOAD_NAME\":{}}", want: []string{
			"node metadata: environment variable ISTIO_META_WORKLOAD_NAME (or ISTIO_METAJSON_ with that member): value map[] has the wrong type",
		}},
		{name: "a file of variables", files: []string{"var/lib/istio/envoy/cluster.env", "ISTIO_META_NETWORK\n"}, want: []string{
			`--envFile: read environment file "./var/lib/istio/envoy/cluster.env": line 1: expected NAME=VALUE`,
		}},
		{name: "probes", env: `ISTIO_KUBE_APP_PROBERS={"/x":{"tcpSocket":{"port":0}}}`, want: []string{`environment variable ISTIO_KUBE_APP_PROBERS: probe "/x": "0" is not a port`}},
		{name: "scrape annotations", env: `ISTIO_PROMETHEUS_ANNOTATIONS={"scrape":"true","port":"metrics"}`, want: []string{
			`environment variable ISTIO_PROMETHEUS_ANNOTATIONS: invalid port "metrics"`,
		}},
		{name: "HOST_IP is not there", env: `PROXY_CONFIG={` + plaintext + `,"tracing":{"zipkin":{"address":"$(HOST_IP):9411"}}}`, want: []string{
			`proxy configuration field "tracing.zipkin.address": address uses $(HOST_IP), but the environment variable HOST_IP is not set`,
		}},
		{name: "a tracer of the past", env: `PROXY_CONFIG={` + plaintext + `,"tracing":{"lightstep":{"address":"a:1"}}}`, want: []string{
			`proxy configuration field "tracing.lightstep": this tracer was removed from Envoy; use an extensionProvider`,
		}},
		{name: "TLS that an agent cannot have", env: `PROXY_CONFIG={` + plaintext + `,"tracing":{"zipkin":{"address":"a:1"},"tlsSettings":{"mode":"ISTIO_MUTUAL"}},` +
			`"envoyMetricsService":{"address":"a:1","tlsSettings":{"mode":"SIMPLE","credentialName":"c"}},"envoyAccessLogService":{"address":"a:1","tlsSettings":{"mode":"MUTUAL"}}}`, want: []string{
			`proxy configuration field "tracing.tlsSettings.mode": ISTIO_MUTUAL is not supported`,
			`proxy configuration field "envoyMetricsService.tlsSettings.credentialName": is not supported`,
			`proxy configuration field "envoyAccessLogService.tlsSettings": clientCertificate and privateKey are required for MUTUAL`,
		}},
		{name: "no port of metrics", env: "ENVOY_SECURE_METRICS_PORT=65536", want: []string{"ENVOY_SECURE_METRICS_PORT: 65536 is not a port"}},
		{name: "an override that is no mapping", env: "ISTIO_BOOTSTRAP_OVERRIDE=o.yaml", files: []string{"o.yaml", "- a\n"}, want: []string{
			"environment variable ISTIO_BOOTSTRAP_OVERRIDE: file o.yaml: want a mapping of Bootstrap fields: ",
		}},
		{name: "a template", env: "ISTIO_BOOTSTRAP=/etc/t.json", want: []string{"environment variable ISTIO_BOOTSTRAP: bootstrap templates are not supported: use customConfigFile"}},
		{name: "a template by field", env: `PROXY_CONFIG={` + plaintext + `,"proxyBootstrapTemplatePath":"/t"}`, want: []string{`proxy configuration field "proxyBootstrapTemplatePath": bootstrap templates are not supported`}},
		{name: "a template by flag", args: "--templateFile /t", want: []string{"--templateFile: bootstrap templates are not supported"}},
		{name: "a bootstrap that is not there", env: `PROXY_CONFIG={"customConfigFile":"/nowhere.json"}`, want: []string{`proxy configuration field "customConfigFile": stat /nowhere.json: `}},
		{name: "token exchange", args: "--stsPort 15463", want: []string{"--stsPort: token exchange is not supported"}},
		{name: "a role", args: "waypoint", want: []string{`proxy "waypoint": want sidecar or router`}},
		{name: "two roles", args: "sidecar router", want: []string{"accepts at most 1 arg(s), received 2"}},
		{name: "a level of Envoy's log", args: "--proxyLogLevel loud", want: []string{`--proxyLogLevel, --proxyComponentLogLevel: envoy log level "loud": want LEVEL or COMPONENT:LEVEL`}},
		{name: "a level of a component", args: "--proxyLogLevel info --proxyComponentLogLevel misc", want: []string{`envoy log level "misc": want`}},
		{name: "a level of the agent's log", args: "--log_output_level default:loud", want: []string{`log level "default:loud": unknown level "loud"`}},
		{name: "a flag's value", args: "--concurrency many", want: []string{`invalid argument "many" for "--concurrency" flag`}},
		{name: "a negative number of workers", args: "--concurrency=-1", want: []string{`proxy configuration field "concurrency": -1 is negative`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for f := range slices.Chunk(test.files, 2) {
				write(t, f[0], []byte(f[1]))
			}
			env := []string{"POD_NAME=a", "POD_NAMESPACE=ns", "INSTANCE_IP=10.0.0.1", "INSTANCE_IPS=10.0.0.1", "PROXY_CONFIG={" + plaintext + "}"}
			env = append(env, strings.Split(test.env, "\n")...)
			_, err := prepare(t.Context(), env, append([]string{"proxy"}, strings.Fields(test.args)...))
			if err == nil {
				t.Fatal("no error")
			}
			rest := err.Error()
			for _, want := range test.want {
				i := strings.Index(rest, want)
				if i < 0 {
					t.Fatalf("error is\n%v\nwant, in this order:\n%s", err, strings.Join(test.want, "\n"))
				}
				rest = rest[i+len(want):]
			}
		})
	}
}
