package tenants

import (
	_ "embed"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/random"
)

// The two namespaces. The proxies that are compared are of bank.
const bank, evil = "bank", "evil"

// bankObjects and evilObjects are the fixed objects of each mesh: services, pods and rules of both
// namespaces. Names, labels and addresses of evil are those of bank wherever that is possible.
//
//go:embed testdata/bank.yaml
var bankObjects string

//go:embed testdata/evil.yaml
var evilObjects string

// secretsOf are Secrets of a namespace with the names that all words use.
func secretsOf(namespace string, pair *pki.Pair) string {
	encode := base64.StdEncoding.EncodeToString
	var b strings.Builder
	for _, name := range []string{"cert", "other"} {
		fmt.Fprintf(&b, "---\nkind: Secret\napiVersion: v1\nmetadata: {name: %s, namespace: %s}\ntype: kubernetes.io/tls\ndata: {tls.crt: %s, tls.key: %s, ca.crt: %[3]s}\n",
			name, namespace, encode(pair.CertificatePEM()), encode(pair.KeyPEM()))
	}
	return b.String()
}

// kinds are the kinds of random objects. The ones with the widest effect come most often.
func kinds() []api.Kind {
	return []api.Kind{
		api.VirtualService, api.VirtualService, api.VirtualService, api.DestinationRule, api.DestinationRule, api.ServiceEntry, api.ServiceEntry,
		api.WorkloadEntry, api.WorkloadGroup, api.Gateway, api.Gateway, api.Sidecar, api.EnvoyFilter, api.ProxyConfig, api.Telemetry,
		api.PeerAuthentication, api.AuthorizationPolicy, api.RequestAuthentication, api.WasmPlugin, api.TrafficExtension,
	}
}

// words are values for fields. Hosts, labels, namespaces and names are those of both bank and evil.
func words(exportTo []string) map[string][]string {
	hosts := []string{
		"vault", "vault.bank", "vault.bank.svc.cluster.local", "api.bank.svc.cluster.local", "*.bank.svc.cluster.local", "*.local", "*.com", "*",
		"partner.example.com", "*.example.com", "own.example.com", "vault.evil.svc.cluster.local", "shop.evil.svc.cluster.local", "shop", "api",
	}
	files := []string{"/etc/certs/file.pem"}
	return map[string][]string{
		"host": hosts, "hosts": hosts, "ServiceEntry.hosts": {"partner.example.com", "own.example.com", "*.example.com", "a.example.org", "vault.bank.svc.cluster.local"},
		"Server.hosts":              {"*", "*/*", "bank/*", "./*", "*.example.com", "bank/partner.example.com", "edge.example.com"},
		"IstioEgressListener.hosts": {"./*", "*/*", "bank/*", "evil/*", "~/*", "*/partner.example.com"},
		"gateways":                  {"mesh", "mesh", "mesh", "edge", "bank/edge", "evil/edge", "bank/random-1", "random-2"}, "exportTo": exportTo, "subset": {"v1", "v2"}, "Subset.name": {"v1", "v2"},
		"regex": {".*", "a+"}, "RegexRewrite.match": {"^/a/(.*)$"}, "rewrite": {`/\1`}, "prefix": {"/", "/a"}, "exact": {"/", "a"}, "uri": {"/", "/a/b"}, "scheme": {"http", "https"},
		"authority": {"vault.bank.svc.cluster.local", "partner.example.com"}, "retryOn": {"5xx"}, "grpcStatus": {"OK"}, "allowMethods": {"GET"},
		"key": {"app"}, "sourceLabels.key": {"app"}, "sourceLabels": {"vault", "api"}, "matchLabels.key": {"app"}, "matchLabels": {"vault", "api", "edge"},
		"labels.key": {"app", "version"}, "labels": {"vault", "v1"}, "selector.key": {"app", "istio"}, "selector": {"edge", "vault", "ingressgateway"},
		"headers.key": {"x-a"}, "sourceNamespace": {bank, evil}, "destinationSubnets": {"10.96.0.9", "10.0.0.0/8"}, "sniHosts": hosts, "bind": {"127.0.0.1", "10.96.0.9", "0.0.0.0"},
		"defaultEndpoint": {"127.0.0.1:8080"}, "protocol": {"HTTP", "HTTPS", "HTTP2", "GRPC", "TCP", "TLS"}, "addresses": {"10.96.0.9", "10.96.0.0/16", "240.240.0.1"},
		"address": {"10.0.0.1", "10.6.6.6", "a.example.com"}, "Port.name": {"http", "tcp", "tls"}, "ServicePort.name": {"http", "tcp"}, "locality": {"r1/z1/s1"}, "network": {"n1"},
		"from": {"r1"}, "to.key": {"r1/*"}, "to": {"r2"}, "failoverPriority": {"app"}, "credentialName": {"cert", "other", "bank/cert", "evil/cert", "kubernetes://bank/cert"},
		"clientCertificate": files, "privateKey": files, "caCertificates": files, "serverCertificate": files, "caCrl": files,
		"jwksUri": {"https://a.example.com/keys"}, "jwks": {`{"keys": []}`}, "url": {"oci://registry.example.com/a:v1"}, "issuer": {"https://a.example.com"},
		"inlineCode": {"function envoy_on_request(r) end"}, "Condition.key": {"request.headers[x-a]", "source.ip"}, "ipBlocks": {"10.0.0.0/8"}, "notIpBlocks": {"10.0.0.1"},
		"remoteIpBlocks": {"10.0.0.0/8"}, "notRemoteIpBlocks": {"2001:db8::/32"}, "Operation.ports": {"80"}, "notPorts": {"443"}, "targetRef.kind": {"Gateway", "Service"},
		"kind": {"Gateway", "Service"}, "group": {"gateway.networking.k8s.io", ""}, "name": {"edge", "vault", "random-1"}, "cipherSuites": {"AES256-GCM-SHA384"},
		"subjectAltNames": {"spiffe://cluster.local/ns/bank/sa/vault"}, "WorkloadEntry.serviceAccount": {"vault"}, "ports.key": {"http", "tcp"}, "expression": {"response.code >= 400"},
		"path": {"/", "/a"}, "proxyVersion": {".*"}, "cluster": {"outbound|80||vault.bank.svc.cluster.local"}, "service": {"vault.bank.svc.cluster.local"},
	}
}

// randomObjects makes valid objects of a namespace.
func randomObjects(t *testing.T, seed uint64, namespace string, count int, exportTo []string) []*config.Config {
	t.Helper()
	source := random.New(seed, words(exportTo))
	source.Likely = 0.45
	var list []*config.Config
	for i := range count {
		kind := random.Pick(source, kinds())
		info, _ := api.Info(kind)
		spec := info.NewSpec()
		source.Fill(spec)
		var made *config.Config
		wrong := func() []string {
			made = object(t, kind, namespace, i, spec)
			return random.InvalidFields(made)
		}
		if source.RepairMessage(spec, wrong) {
			list = append(list, made)
		}
	}
	return list
}

// object makes an object of a spec as it is now. Those of evil are older than those of bank, and so first where age decides.
func object(t *testing.T, kind api.Kind, namespace string, i int, spec proto.Message) *config.Config {
	t.Helper()
	created := time.Unix(int64(100+i), 0)
	if namespace == bank {
		created = time.Unix(int64(5000+i), 0)
	}
	o, err := config.New(config.Meta{
		Key: config.Key{Kind: kind, Namespace: namespace, Name: fmt.Sprintf("random-%d", i)}, Created: created,
	}, proto.Clone(spec))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func decode(t *testing.T, text string) []*config.Config {
	t.Helper()
	list, err := fixture.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// exports returns the exportTo of an object, and whether its kind has one.
func exports(o *config.Config) (list []string, has bool) {
	switch spec := o.Spec.(type) {
	case *networking.VirtualService:
		return spec.GetExportTo(), true
	case *networking.DestinationRule:
		return spec.GetExportTo(), true
	case *networking.ServiceEntry:
		return spec.GetExportTo(), true
	default:
		return nil, false
	}
}

// visible reports whether an object of evil is exported to bank, if the default is export to all.
func visible(o *config.Config) bool {
	list, has := exports(o)
	return !has || len(list) == 0 || slices.Contains(list, "*") || slices.Contains(list, bank)
}
