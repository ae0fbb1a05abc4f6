package cluster

import (
	"strings"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshpilot/meshpilot/internal/mesh"
)

// systemRoots is where Debian, Ubuntu and the images made of them keep the certificates of public authorities. A
// DestinationRule without caCertificates trusts those.
const systemRoots = "/etc/ssl/certs/ca-certificates.crt"

// secretPatience is how long a new cluster waits for a secret. The control plane answers at once or, where there is no such
// secret, not at all: then calls of this cluster fail, and those of the others that came with it need not wait.
const secretPatience = 5 * time.Second

// externalPrefix marks credentials that a server beside the proxy has. Without one they are looked for as Secrets.
const externalPrefix = "sds://"

// secrets gives the SDS names of the client's certificate, "" for none, and of the authorities that the server's is checked
// against. All come by SDS, files of the proxy too: what is not there, or changes, is then no matter of the cluster.
func (t transport) secrets() (certificate, trust string) {
	mutual := t.tls.GetMode() == networking.ClientTLSSettings_MUTUAL
	if credential := strings.TrimPrefix(t.tls.GetCredentialName(), externalPrefix); credential != "" && t.mayUse(credential) {
		certificate, trust = credential, credential
		if n, ok := mesh.CredentialName(credential); ok {
			certificate, trust = n.String(), mesh.TrustOf(n).String()
		}
		if !mutual {
			certificate = ""
		}
		return certificate, trust
	}
	if mutual && t.tls.GetClientCertificate() != "" && t.tls.GetPrivateKey() != "" {
		certificate = mesh.FileCertificate(t.tls.GetClientCertificate(), t.tls.GetPrivateKey())
	}
	if roots := t.tls.GetCaCertificates(); roots != "" {
		return certificate, mesh.FileRoots(roots)
	}
	return certificate, mesh.FileRoots(systemRoots)
}

// mayUse says whether a credential is for these proxies. A rule without a workloadSelector is for all sidecars that see it,
// few of which may have the secret: the others would wait for it in vain. ConfigMaps are for all.
func (t transport) mayUse(credential string) bool {
	n, ok := mesh.CredentialName(credential)
	return t.credentials || t.proxy.Type == mesh.RouterProxy || ok && n.Store == mesh.ConfigMapSecret
}

func secretBySDS(name string) *tlsv3.SdsSecretConfig {
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: new(corev3.AggregatedConfigSource)},
		InitialFetchTimeout:   durationpb.New(secretPatience),
		ResourceApiVersion:    corev3.ApiVersion_V3,
	}}
}
