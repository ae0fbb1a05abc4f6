package randomconfig

import (
	"fmt"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// kinds are the kinds of random objects. EnvoyFilters are not among them: Envoy may reject their
// content, and they are then suspended (docs/adr/0008).
func kinds(seed uint64) []api.Kind {
	list := []api.Kind{
		api.VirtualService, api.VirtualService, api.VirtualService, api.DestinationRule, api.DestinationRule, api.ServiceEntry,
		api.ServiceEntry, api.WorkloadEntry, api.WorkloadGroup, api.Gateway, api.Gateway, api.ProxyConfig, api.Telemetry,
		api.PeerAuthentication, api.AuthorizationPolicy, api.RequestAuthentication, api.WasmPlugin, api.TrafficExtension,
	}
	if seed%4 == 0 {
		list = append(list, api.Sidecar)
	}
	return list
}

// words are values for fields that mean something in the mesh of around.yaml.
func words() map[string][]string {
	hosts := []string{"*.example.com", "out.example.com", "10.0.0.9", "nobody"}
	for i := range 6 {
		hosts = append(hosts, fmt.Sprintf("s%d", i), fmt.Sprintf("s%d.default.svc.cluster.local", i))
	}
	outside := []string{"*.example.org", "10.0.0.9"}
	for i := range 24 {
		outside = append(outside, fmt.Sprintf("h%d.example.com", i))
	}
	hosts = append(hosts, outside[:14]...)
	regexps := []string{".*", "a+", "/x/[0-9]*", "(a|b)c?", "["}
	files := []string{"/etc/certs/file.pem"}
	certificates := map[string][]string{}
	for _, f := range []string{
		"clientCertificate", "privateKey", "caCertificates", "serverCertificate", "caCrl",
	} {
		certificates[f] = files
	}
	out := map[string][]string{
		"host": hosts, "hosts": hosts, "ServiceEntry.hosts": outside, "Server.hosts": {"*", "*.example.com", "a.example.com", "default/s1.default.svc.cluster.local", "./b.example.com"},
		"IstioEgressListener.hosts": {"./*", "*/*", "default/*", "other/s1.default.svc.cluster.local", "~/*", "*/out.example.com"},
		"gateways":                  {"mesh", "mesh", "mesh", "mesh", "mesh", "random-0", "random-1", "random-2", "default/random-3", "random-4"},
		"exportTo":                  {"*", "*", "*", "*", "default", "."}, "subset": {"v1", "v2"}, "Subset.name": {"v1", "v2"},
		"regex": regexps, "RegexRewrite.match": {"^/a/(.*)$"}, "rewrite": {`/\1`, "/b"}, "prefix": {"/", "/a", "x"}, "exact": {"/", "", "a", "GET"},
		"uri": {"/", "/a/b"}, "scheme": {"http", "https"}, "authority": {"a.example.com", "s1"}, "retryOn": {"5xx", "503,reset", "unavailable,504"},
		"grpcStatus": {"UNAVAILABLE", "OK"}, "allowMethods": {"GET", "*"}, "key": {"app"}, "sourceLabels.key": {"app"}, "sourceLabels": {"a", "a", "b"},
		"matchLabels.key": {"app", "istio"}, "matchLabels": {"a", "ingressgateway"}, "labels.key": {"app", "version"}, "labels": {"a", "v1"},
		"selector.key": {"istio", "app"}, "selector": {"ingressgateway", "a"}, "headers.key": {"x-a", "end-user", ":path"}, "sourceNamespace": {"default", "default", "other"},
		"destinationSubnets": {"10.0.0.0/8", "10.96.0.1"}, "sourceSubnet": {"10.0.0.0/8"}, "sniHosts": hosts, "bind": {"127.0.0.1", "0.0.0.0", "unix:///tmp/s.sock", "10.0.0.7"},
		"defaultEndpoint": {"127.0.0.1:8080", "0.0.0.0:9", "unix:///tmp/a.sock"}, "protocol": {"HTTP", "HTTPS", "HTTP2", "GRPC", "GRPC-WEB", "TCP", "TLS", "MONGO", "UDP"},
		"addresses": {"10.0.0.1", "10.1.0.0/16", "2001:db8::1"}, "address": {"10.2.0.1", "a.example.com", "unix:///tmp/b.sock", "2001:db8::2"},
		"Port.name": {"http", "tcp", "tls", "p"}, "ServicePort.name": {"http", "tcp", "p"}, "locality": {"r1/z1/s1", "r2"}, "network": {"n1"},
		"from": {"r1", "r1/z1/*"}, "to.key": {"r1/z1/*", "r2/*"}, "to": {"r2"}, "failoverPriority": {"app", "topology.kubernetes.io/region"},
		"credentialName": {"cert", "other"}, "httpHeaderName": {"x-user"}, "httpQueryParameterName": {"q"}, "path": {"/", "/a"},
		"jwksUri": {"https://a.example.com/keys"}, "jwks": {
			`{"keys": []}`, `{"kty": "oct", "k": "YQ"}`, `{"keys": [{"kty": "RSA", "n": "xxx", "e": "AQAB"}]}`, `{"keys": [{"kty": "EC", "crv": "P-256", "x": "xxx", "y": "zzz"}]}`,
			`{"keys": [{"kty": "EC", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}`,
			`{"keys": [{"kty": "oct", "k": "YQ==", "alg": "HS256"}, {"kty": "oct", "k": "YQ", "alg": "RS256"}]}`,
			`{"kty": "EC", "alg": "ES384", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}`,
			`{"kty": "OKP", "alg": "RS256", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`,
		},
		"url": {"oci://registry.example.com/a:v1", "registry.example.com/a", "https://a.example.com/a.wasm"}, "inlineCode": {"function envoy_on_request(r) r:headers():add('x', 'y') end", "a = 1"},
		"issuer": {"https://a.example.com", "a"}, "Condition.key": {"request.headers[x-a]", "source.ip"},
		"ipBlocks": {"10.0.0.0/8"}, "notIpBlocks": {"10.0.0.1"}, "remoteIpBlocks": {"10.0.0.0/8"}, "notRemoteIpBlocks": {"2001:db8::/32"},
		"Operation.ports": {"80", "9080"}, "notPorts": {"443"}, "targetRef.kind": {"Gateway"}, "kind": {"Gateway", "Service"}, "group": {"gateway.networking.k8s.io", ""},
		"cipherSuites": {"ECDHE-RSA-AES128-GCM-SHA256", "AES256-GCM-SHA384", "none"}, "subjectAltNames": {"a.example.com", "spiffe://cluster.local/ns/a/sa/b"},
		"WorkloadEntry.serviceAccount": {"a"}, "ports.key": {"http", "tcp"}, "expression": {"response.code >= 400", "request.method == 'GET'", "("},
	}
	for f, list := range certificates {
		out[f] = list
	}
	return out
}
